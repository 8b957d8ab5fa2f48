package upstream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be its own cast: started with one of these words it
// plays a server, a guard, or a sidecar that is going to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "fake-server":
			os.Exit(fakeServer(os.Args[2:]))
		case "fake-guard":
			os.Exit(RunGuard(os.Stdin, os.Stdout))
		case "fake-sidecar":
			os.Exit(fakeSidecar(os.Args[2:]))
		case "fake-hurry":
			os.Exit(fakeHurry(os.Args[2:]))
		case "fake-init":
			os.Exit(fakeInit())
		case "fake-limiter":
			os.Exit(onAnotherThread(func() int { return RunLimited(os.Args[2:]) }))
		case "fake-starved":
			os.Exit(fakeStarved(os.Args[2:]))
		}
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines left over:", err)
		code = 1
	}
	os.Exit(code)
}

// onAnotherThread runs f on a thread that is not the process' first: what the
// kernel keeps per thread is not there.
func onAnotherThread(f func() int) int {
	runtime.LockOSThread()
	code := make(chan int)
	go func() { code <- f() }()
	return <-code
}

// fakeInit is set where the platform has subreapers.
var fakeInit = func() int { return 1 }

// quickExit keeps the race detector from holding up every exit for a second.
const quickExit = "GORACE"

// self is the test binary as a command.
func self(t testing.TB, args ...string) *Settings {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Settings{Command: exe, Args: args, Env: map[string]string{quickExit: "atexit_sleep_ms=0"}}
}

// request is what the fakes read of a message.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

const (
	legacyHello = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}`
	modernHello = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}}}`
)

// fakeServer plays a stdio server; args[0] is its manner.
func fakeServer(args []string) int {
	switch args[0] {
	case "crash":
		fmt.Fprintln(os.Stderr, "\x1b[31mfatal:\x1b[0m no database at "+os.Getenv("DB_PASSWORD"))
		return 3
	case "sleep-stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		fmt.Println("ready")
		time.Sleep(time.Hour)
		return 0
	case "stubborn-family":
		signal.Ignore(syscall.SIGTERM)
		grandchild()
	case "launcher": // ends at once and leaves a server behind that holds the pipes
		grandchild()
		return 0
	case "flood":
		go floodStderr()
	case "heir":
		fakeHeir()
	case "dying":
		if !fakeDying() {
			return 9
		}
		args = args[1:]
	case "not-reading":
		hello(os.Stdin)
		time.Sleep(time.Hour)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 32<<20)
	for first := true; in.Scan(); first = false {
		var m request
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		if code := fakeAnswer(args[0], m, first); code >= 0 {
			return code
		}
	}
	if args[0] == "stubborn-family" {
		time.Sleep(time.Hour)
	}
	return 0
}

func grandchild() {
	exe, _ := os.Executable()
	c := exec.Command(exe, "fake-server", "sleep-stubborn")
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		panic(err)
	}
	bufio.NewReader(out).ReadString('\n') // it ignores SIGTERM from here on
	os.WriteFile(os.Getenv("PID_FILE"), fmt.Append(nil, c.Process.Pid), 0o600)
}

func floodStderr() {
	line := strings.Repeat("x", 1000) + "\n"
	for {
		os.Stderr.WriteString(line)
	}
}

// hello answers the handshake and returns.
func hello(in io.Reader) {
	r := bufio.NewScanner(in)
	for r.Scan() {
		var m request
		json.Unmarshal(r.Bytes(), &m)
		fakeAnswer("legacy", m, false)
		if m.Method == "notifications/initialized" {
			return
		}
	}
}

// fakeHeard is the last answer to a question.
var fakeHeard = json.RawMessage("null")

// fakeAnswer answers one message. It returns the exit status, or -1 to go on.
func fakeAnswer(manner string, m request, first bool) int {
	result := func(r string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, r) }
	refuse := func() {
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
	}
	if manner == "initialize-first" && first && m.Method != "initialize" {
		return 1
	}
	switch m.Method {
	case "server/discover":
		if manner == "modern" {
			result(modernHello)
		} else {
			refuse()
		}
	case "initialize":
		if manner == "modern" {
			refuse()
		} else {
			result(legacyHello)
		}
	case "notifications/initialized":
		if manner == "roots" {
			fmt.Println(`{"jsonrpc":"2.0","id":0,"method":"roots/list"}`)
		}
	case "":
		fakeHeard = m.Result
	case "heard":
		result(string(fakeHeard))
	case "tools/list":
		if manner == "heir" || os.Getenv("DYING_BOOK") != "" {
			result(`{"resultType":"complete","tools":[]}`)
		}
	case "mute": // runs on without its output
		os.Stdout.Close()
	case "echo":
		result(string(m.Params))
	case "environ":
		out, _ := json.Marshal(map[string]any{"env": os.Environ(), "fds": openFiles(), "args": os.Args[2:]})
		result(string(out))
	case "die":
		fmt.Fprintln(os.Stderr, "out of memory")
		return 7
	case "half":
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"res`, m.ID)
		return 0
	case "last-words":
		result(`{"last":true}`)
		return 0
	case "big":
		result(`{"text":"` + strings.Repeat("x", 2<<20) + `"}`)
	}
	return -1
}

func openFiles() (open []string) {
	for fd := range 64 {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) == nil {
			name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			open = append(open, fmt.Sprintf("%d %s", fd, name))
		}
	}
	return open
}
