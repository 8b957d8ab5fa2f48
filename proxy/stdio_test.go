package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// stdio runs ServeStdio over input and returns its lines, sorted.
func (w *world) stdio(input string) []string {
	w.t.Helper()
	var out strings.Builder
	if err := w.front.ServeStdio(w.t.Context(), strings.NewReader(input), &out); err != nil {
		w.t.Errorf("ServeStdio: %v", err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	slices.Sort(lines)
	return lines
}

func TestStdioAnswersBothEras(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.RequestBytes = 2000 })
	input := strings.Join([]string{
		modernBody(`"m1"`, "tools/call", `{"name":"mcp_files_slow"}`),
		modernBody(`"m2"`, "ping", "{}"),
		"",
		"not json\r",
		strings.Repeat("x", 3000),
		strings.Repeat("y", smallBody+3000),
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
		strings.Replace(initialize, "2025-11-25", "2025-03-26", 1),
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":"l1","method":"ping"}`,
		`{"jsonrpc":"2.0","id":"l2","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		modernBody(`"m3"`, "tools/list", "{}")[:30],
		`[{"jsonrpc":"2.0","id":"b1","method":"ping"}]`,
		`{"jsonrpc":"2.0","id":"l3","method":"ping"}`, // the last line needs no end
	}, "\n")
	got := strings.Join(w.stdio(input), "\n")
	for _, want := range []string{
		`"id":"m1","result":{"resultType":"complete",`,
		`"id":"m2","error":{"code":-32601,`,
		`"id":null,"error":{"code":-32700,`,
		`"id":null,"error":{"code":-32600,"message":"message is longer than limits.request_bytes"}`,
		`"id":null,"error":{"code":-32600,"message":"batches are not served"}`,
		`"id":0,"result":{"protocolVersion":"2025-03-26",`,
		`"id":"l1","result":{}`,
		`"id":"l2","error":{"code":-32600,"message":"initialize was already done"}`,
		`[{"jsonrpc":"2.0","id":"b1","result":{}}]`,
		`"id":"l3","result":{}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "limits.request_bytes"); n != 2 {
		t.Errorf("%d lines too long, want 2", n)
	}
}

// A talk is a stdio agent that reads and writes as it goes.
type talk struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *bufio.Reader
	done chan error
}

func (w *world) talk(t *testing.T, ctx context.Context) *talk {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	k := &talk{t, inW, bufio.NewReader(outR), make(chan error, 1)}
	go func() {
		k.done <- w.front.ServeStdio(ctx, inR, outW)
		outW.Close()
	}()
	return k
}

func (k *talk) say(line string) { io.WriteString(k.in, line+"\n") }

func (k *talk) hear() string {
	line, err := k.out.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(line, "\n")
}

func TestStdioDrainsAtEOF(t *testing.T) {
	w := newWorld(t)
	running, release := w.blocked()
	k := w.talk(t, t.Context())
	k.say(fmt.Sprintf(callSlow, 1))
	<-running
	k.in.Close()
	close(release)
	if got := k.hear(); got != `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` {
		t.Errorf("got %s", got)
	}
	if err := <-k.done; err != nil {
		t.Error(err)
	}
}

func TestStdioCancelAndNotify(t *testing.T) {
	w := newWorld(t)
	running, _ := w.blocked()
	k := w.talk(t, t.Context())
	k.say(modernBody("1", "tools/call", `{"name":"mcp_files_slow"}`))
	<-running
	k.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if got := <-running; got != "cancelled slow" {
		t.Errorf("got %q", got)
	}
	w.mu.Lock()
	w.answer = chatty
	w.mu.Unlock()
	k.say(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"mcp_files_slow","_meta":{"progressToken":"p"}}}`)
	for _, want := range []string{progressNote, note("info"), note("error"), lastEvent} {
		if got := k.hear(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	k.in.Close()
	if err := <-k.done; err != nil {
		t.Error(err)
	}
}

func TestStdioListChanged(t *testing.T) {
	w := newWorld(t)
	k := w.talk(t, t.Context())
	k.say(initialize)
	k.hear()
	w.build("default", "", more("a"), 0)
	if got := k.hear(); got != toolsChanged {
		t.Errorf("got %s", got)
	}
	k.in.Close()
	<-k.done
	if n := len(mustView(w).subs); n != 0 {
		t.Errorf("%d subscribers left", n)
	}
}

func TestStdioEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	running, _ := w.blocked()
	ctx, cancel := context.WithCancel(t.Context())
	k := w.talk(t, ctx)
	k.say(fmt.Sprintf(callSlow, 1))
	<-running
	cancel()
	go io.Copy(io.Discard, k.out)
	if err := <-k.done; err != nil {
		t.Error(err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestStdioWithBrokenOutput(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.StreamQueue = 1 })
	err := w.front.ServeStdio(t.Context(), strings.NewReader(strings.Repeat(pingBody+"\n", 50)), brokenWriter{})
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
}

func TestStdioBoundsRequestsInFlight(t *testing.T) {
	w := newWorld(t)
	_, release := w.blocked()
	w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
		<-release
		return result(`{}`), nil
	}
	k := w.talk(t, t.Context())
	go func() {
		for i := range maxParallel + 1 {
			k.say(fmt.Sprintf(callSlow, i))
		}
		k.in.Close()
	}()
	if got := k.hear(); !strings.Contains(got, "requests in flight") {
		t.Errorf("got %s", got)
	}
	close(release)
	for range maxParallel {
		k.hear()
	}
	<-k.done
}

// When the front drains, requests in flight are answered like at the end of input,
// and no more are begun, even where reading cannot be ended.
func TestStdioDrains(t *testing.T) {
	for _, closes := range []bool{true, false} {
		w := newWorld(t)
		running, release := w.blocked()
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		var in io.Reader = inR
		if !closes {
			in = struct{ io.Reader }{inR}
		}
		done := make(chan error, 1)
		go func() {
			done <- w.front.ServeStdio(t.Context(), in, outW)
			outW.Close()
		}()
		fmt.Fprintf(inW, callSlow+"\n", 1)
		<-running
		w.front.Drain()
		close(release)
		got, err := io.ReadAll(outR)
		if want := `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` + "\n"; err != nil || string(got) != want {
			t.Errorf("closes %t: got %q, %v", closes, got, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		inW.Close()
	}
}
