package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestMain lets scripts, and the children that the program starts of itself,
// run this test binary as mcp-sidecar.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"mcp-sidecar": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			p := &program{args: os.Args[1:], env: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
			os.Exit(p.run(ctx))
		},
		"shy-server": func() { shy(context.Background(), stdio{os.Stdin, os.Stdout}) },
	})
}

// stdio is what a server speaks on.
type stdio struct {
	io.Reader
	io.Writer
}

func (stdio) Close() error { return nil }

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("XDG_STATE_HOME", "")
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second more
			e.Setenv("XDG_CONFIG_HOME", "")
			return os.MkdirAll(e.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"freeport": freePort, "get": get, "post": post, "mode": mode, "gone": gone, "later": later, "answer": answerTo,
		},
	})
}

// freePort NAME... sets environment variables to addresses that are free.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		port, err := mcptest.Free()
		ts.Check(err)
		ts.Setenv(name, fmt.Sprintf("127.0.0.1:%d", port))
	}
}

// get URL STATUS waits until URL answers with STATUS.
func get(ts *testscript.TestScript, _ bool, args []string) {
	last := ""
	for range 200 {
		r, err := http.Get(args[0])
		if err != nil {
			last = err.Error()
		} else {
			r.Body.Close()
			if last = strconv.Itoa(r.StatusCode); last == args[1] {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("GET %s: %s, want %s", args[0], last, args[1])
}

// post URL STATUS BODY|@FILE [HEADER:VALUE...] posts JSON; prints the answer.
func post(ts *testscript.TestScript, _ bool, args []string) {
	body := args[2]
	if file, ok := strings.CutPrefix(body, "@"); ok {
		body = ts.ReadFile(file)
	}
	req, err := http.NewRequest("POST", args[0], strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range args[3:] {
		k, v, _ := strings.Cut(h, ":")
		if file, ok := strings.CutPrefix(v, "Bearer@"); ok {
			v = "Bearer " + strings.TrimSpace(ts.ReadFile(file))
		}
		req.Header.Set(k, v)
	}
	r, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer r.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	ts.Check(err)
	if got := strconv.Itoa(r.StatusCode); got != args[1] {
		ts.Fatalf("POST %s: %s %s, want %s", args[0], got, answer, args[1])
	}
	fmt.Fprintf(ts.Stdout(), "%s\n", answer)
}

// mode FILE OCTAL checks permissions.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	st, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", st.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s: mode %s, want %s", args[0], got, args[1])
	}
}

// gone FILE waits until the process whose id FILE holds is no more.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	for range 200 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("process %d is still there", pid)
}

// pending is the request of the last "later", by script.
type pending struct {
	begun chan struct{} // closed when the answer begins, or failed
	body  chan string
}

var waiting sync.Map

// later URL BODY posts JSON and returns when the answer begins, which for a call
// with a progress token is long before its end.
func later(ts *testscript.TestScript, _ bool, args []string) {
	req, err := http.NewRequest("POST", args[0], strings.NewReader(args[1]))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	p := &pending{make(chan struct{}), make(chan string, 1)}
	waiting.Store(ts.Getenv("WORK"), p)
	go p.do(req)
	<-p.begun
}

func (p *pending) do(req *http.Request) {
	r, err := http.DefaultClient.Do(req)
	close(p.begun)
	if err != nil {
		p.body <- err.Error()
		return
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		b = append(b, err.Error()...)
	}
	p.body <- string(b)
}

// answer TEXT waits for the answer to the last "later", which must hold TEXT.
func answerTo(ts *testscript.TestScript, _ bool, args []string) {
	p, _ := waiting.Load(ts.Getenv("WORK"))
	if body := <-p.(*pending).body; !strings.Contains(body, args[0]) {
		ts.Fatalf("got %s, want %s", body, args[0])
	}
}
