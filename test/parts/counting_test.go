//go:build npm

package parts

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The environment of a server that counts: the file it notes each key in, and the
// address it listens on. Without one it serves its pipe.
const (
	bookEnv   = "MCP_SIDECAR_PARTS_BOOK"
	listenEnv = "MCP_SIDECAR_PARTS_LISTEN"
)

// serveCount is that server, made with the Go SDK. Its tool notes its key and then
// takes a moment, so that it can be killed in between.
func serveCount() {
	book := os.Getenv(bookEnv)
	if book == "" {
		return
	}
	note := func(text string) {
		f, err := os.OpenFile(book, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			os.Exit(1)
		}
		f.WriteString(text + "\n")
		f.Close()
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "count", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "count"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Key string `json:"key"`
	}) (*mcp.CallToolResult, any, error) {
		note(in.Key)
		time.Sleep(5 * time.Millisecond)
		return said("counted " + in.Key), nil, nil
	})
	time.AfterFunc(15*time.Minute, func() { os.Exit(0) })
	var err error
	if addr := os.Getenv(listenEnv); addr != "" {
		err = http.ListenAndServe(addr, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	} else {
		err = s.Run(context.Background(), &mcp.StdioTransport{})
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// A book has what the callers of a counting server were told, and what it counted.
type book struct {
	file string

	mu   sync.Mutex
	told map[string]string // key -> "" for a result, else the error's code, or all of it
}

// callers call a tool with keys of their own until stop is closed.
func (b *book) callers(t *testing.T, url, tool string, n int, stop <-chan struct{}) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			a := &mcptest.Agent{URL: url, Client: client}
			for j := 0; ; j++ {
				select {
				case <-stop:
					return
				default:
					b.call(t, a, tool, keyOf(i, j))
				}
			}
		})
	}
	return &all
}

func keyOf(i, j int) string { return jsonOf([]int{i, j}) }

func (b *book) call(t *testing.T, a *mcptest.Agent, tool, key string) {
	r, err := a.Call(t.Context(), tool, `{"key":`+jsonOf(key)+`}`)
	told := ""
	switch {
	case err != nil:
		told = err.Error()
	case r.Content() == "counted "+key:
	case codeOf(r) != "":
		told = codeOf(r)
	default:
		told = string(r.Body)
	}
	b.mu.Lock()
	b.told[key] = told
	b.mu.Unlock()
	if told != "" {
		time.Sleep(5 * time.Millisecond) // as long as a call takes
	}
}

// balance holds that no call ran twice, that those with a result ran, that those of
// which it is uncertain ran once at most, and that others did not run and failed by
// one of the codes that a caller has to bear.
func (b *book) balance(t *testing.T, bear ...string) {
	t.Helper()
	raw, err := os.ReadFile(b.file)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		ran[strings.TrimSpace(line)]++
	}
	ended, wrong := map[string]int{}, map[string]string{}
	for key, told := range b.told {
		ended[told]++
		n := ran[key]
		if fine := n == 1 && told == "" || n <= 1 && told == "UNCERTAIN" || n == 0 && slices.Contains(bear, told); !fine {
			wrong[fmt.Sprintf("told %q, ran %d times", told, n)] = key
		}
	}
	for what, key := range wrong {
		t.Errorf("calls like %s: %s", key, what)
	}
	t.Logf("%d calls; by how they ended: %v", len(b.told), ended)
	if ended[""] < 100 {
		t.Errorf("too few calls succeeded to tell: %v", ended)
	}
}
