package upstream

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestHTTPEras(t *testing.T) {
	era := func(e Era) *Era { return &e }
	for _, tt := range []struct {
		name           string
		modern, legacy bool
		protocol       Eras
		hint           *Era
		want           []string // the methods up to the first call
		version        string
	}{
		{"modern", true, false, Auto, nil, []string{"server/discover"}, VersionModern},
		{"both", true, true, Auto, nil, []string{"server/discover"}, VersionModern},
		{"legacy", false, true, Auto, nil, []string{"server/discover", "initialize", "notifications/initialized"}, "2025-06-18"},
		{"legacy known", false, true, Auto, era(Legacy), []string{"initialize", "notifications/initialized"}, "2025-06-18"},
		{"legacy forced", true, true, LegacyOnly, nil, []string{"initialize", "notifications/initialized"}, "2025-06-18"},
		{"modern forced", true, true, ModernOnly, nil, []string{"server/discover"}, VersionModern},
		{"was legacy", true, false, Auto, era(Legacy), []string{"initialize", "server/discover"}, VersionModern},
		{"was modern", false, true, Auto, era(Modern), []string{"server/discover", "initialize", "notifications/initialized"}, "2025-06-18"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaks(t)
			f := newFake(t, &fakeHTTP{modern: tt.modern, legacy: tt.legacy})
			r := resolved(t, f.URL+"/mcp", nil)
			r.Protocol, r.EraHint = tt.protocol, tt.hint
			c := dialed(t, r, env{})
			var got []string
			for _, m := range f.seen {
				got = append(got, m.Method)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("handshake (-want +got):\n%s", diff)
			}
			if c.Info().Version != tt.version || !c.Info().Has("tools") {
				t.Errorf("got version %q, capabilities %s", c.Info().Version, c.Info().Capabilities)
			}
			alive(t, c)
			if err := c.Ping(t.Context()); err != nil {
				t.Errorf("Ping: %v", err)
			}
		})
	}
}

// An SDK server of each kind is the oracle for headers, _meta and versions.
func TestHTTPAgainstSDK(t *testing.T) {
	type in struct{ Text string }
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(ctx context.Context, r *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		if tok := r.Params.GetProgressToken(); tok != nil {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: tok, Progress: 0.5})
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
	})
	for _, tt := range []struct {
		name string
		opt  mcp.StreamableHTTPOptions
		era  Era
	}{
		{"stateful", mcp.StreamableHTTPOptions{}, Legacy},
		{"stateful json", mcp.StreamableHTTPOptions{JSONResponse: true}, Legacy},
		{"stateless", mcp.StreamableHTTPOptions{Stateless: true}, Modern},
		{"stateless json", mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}, Modern},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaks(t)
			h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &tt.opt)
			srv := httptest.NewServer(h)
			t.Cleanup(srv.Close)
			c := dialed(t, resolved(t, srv.URL, nil), env{clientName: "test", clientVersion: "1"})
			if c.Info().Era != tt.era {
				t.Fatalf("era: got %v, want %v; info %+v", c.Info().Era, tt.era, c.Info())
			}
			var progress []string
			call := &Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo","arguments":{"Text":"hé"}}`),
				ProgressToken: []byte(`"mine"`),
				Notify:        func(_ string, p []byte) { progress = append(progress, string(p)) }}
			for range 3 {
				resp, err := c.Do(t.Context(), call)
				if err != nil || resp.Error != nil || !strings.Contains(string(resp.Result), `"hé"`) {
					t.Fatalf("Do: %s %s %v", resp.Result, resp.Error, err)
				}
			}
			if !tt.opt.JSONResponse && (len(progress) != 3 || !strings.Contains(progress[0], `"progressToken":"mine"`)) {
				t.Errorf("progress: got %q", progress)
			}
			if resp, err := c.Do(t.Context(), &Call{Method: "tools/list"}); err != nil || !strings.Contains(string(resp.Result), `"echo"`) {
				t.Errorf("tools/list: %s %v", resp.Result, err)
			}
		})
	}
}

// What servers say to a modern request that they do not know must not keep us
// from initialize; what only a modern server says must not lead there for good.
func TestHTTPProbe(t *testing.T) {
	rpcError := func(status int, code string) func(http.ResponseWriter, *http.Request, rpc) bool {
		return func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method != "server/discover" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":` + code + `,"message":"no"}}`))
			return true
		}
	}
	plain := func(status int, body string) func(http.ResponseWriter, *http.Request, rpc) bool {
		return func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method == "server/discover" {
				w.WriteHeader(status)
				_, _ = w.Write([]byte(body))
			}
			return m.Method == "server/discover"
		}
	}
	for _, tt := range []struct {
		name           string
		modern, legacy bool
		any            func(http.ResponseWriter, *http.Request, rpc) bool
		era            Era
		kind           Kind
	}{
		{"400 empty", false, true, plain(400, ""), Legacy, 0},
		{"404 html", false, true, plain(404, "<html>"), Legacy, 0},
		{"500", false, true, plain(500, "boom"), Legacy, 0},
		{"200 html", false, true, plain(200, "<html>"), Legacy, 0},
		{"202", false, true, plain(202, ""), Legacy, 0},
		{"reset", false, true, func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method == "server/discover" {
				panic(http.ErrAbortHandler)
			}
			return false
		}, Legacy, 0},
		{"-32601", false, true, rpcError(200, "-32601"), Legacy, 0},
		{"-32022 of a legacy server", false, true, rpcError(400, "-32022"), Legacy, 0},
		{"-32022 of a newer server", true, false, rpcError(400, "-32022"), 0, Protocol},
		{"-32601 with 404", true, false, rpcError(404, "-32601"), Modern, 0},
		{"-32021", true, false, rpcError(400, "-32021"), Modern, 0},
		{"401", true, true, plain(401, ""), 0, Unauthorized},
		{"429", true, true, plain(429, ""), 0, RateLimited},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaks(t)
			f := newFake(t, &fakeHTTP{modern: tt.modern, legacy: tt.legacy, any: tt.any})
			c, err := dialHTTP(t.Context(), resolved(t, f.URL, nil), env{})
			if KindOf(err) != tt.kind || (err != nil) != (tt.kind != 0) {
				t.Fatalf("got %v, want kind %v", err, tt.kind)
			}
			if err != nil {
				return
			}
			defer c.Close()
			if c.Info().Era != tt.era {
				t.Errorf("got era %v, want %v", c.Info().Era, tt.era)
			}
			alive(t, c)
		})
	}
}

// A server that ignores what it does not know costs one probe and no more.
func TestHTTPSilentProbe(t *testing.T) {
	t.Parallel()
	f := newFake(t, &fakeHTTP{legacy: true, any: func(_ http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != "server/discover" {
			return false
		}
		<-r.Context().Done()
		return true
	}})
	start := time.Now()
	c := dialed(t, resolved(t, f.URL, nil), env{})
	if d := time.Since(start); d < probeTime || d > 2*probeTime {
		t.Errorf("took %v", d)
	}
	alive(t, c)
}

func TestHTTPHandshakeErrors(t *testing.T) {
	leaks(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, tt := range []struct {
		name string
		any  func(http.ResponseWriter, *http.Request, rpc) bool
		kind Kind
		text string
	}{
		{"web page", func(w http.ResponseWriter, _ *http.Request, _ rpc) bool {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<h1>Welcome\nto nginx</h1> s3cret-token"))
			return true
		}, Protocol, `upstream fake: initialize: not an MCP endpoint? It answered 200 OK (text/html): "<h1>Welcome to nginx</h1> [redacted]"`},
		{"not found", func(w http.ResponseWriter, _ *http.Request, _ rpc) bool {
			http.NotFound(w, nil)
			return true
		}, Protocol, "not an MCP endpoint? It answered 404 Not Found (text/plain; charset=utf-8)"},
		{"unauthorized", func(w http.ResponseWriter, _ *http.Request, _ rpc) bool {
			w.Header().Set("WWW-Authenticate", `Bearer realm="x"`)
			w.WriteHeader(401)
			return true
		}, Unauthorized, `it asks for Bearer realm="x": look at the headers that are set for it`},
		{"unknown version", func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method == "initialize" {
				result(w, m, `{"protocolVersion":"1999-01-01","capabilities":{}}`)
			}
			return m.Method == "initialize"
		}, Protocol, "speaks none of our protocol versions"},
		{"long session id", func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			w.Header().Set(hdrSession, strings.Repeat("x", 10<<10))
			return false
		}, 0, ""},
		{"bad session id", func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method == "initialize" {
				w.Header().Set(hdrSession, "caf\xc3\xa9")
				result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
			}
			return m.Method == "initialize"
		}, Protocol, "session id that is not visible ASCII"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, &fakeHTTP{legacy: true, any: tt.any})
			c, err := dialHTTP(t.Context(), resolved(t, f.URL, nil, "Authorization", "s3cret-token"), env{})
			if err == nil {
				c.Close()
			}
			if KindOf(err) != tt.kind || tt.kind != 0 && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v (kind %v)", err, KindOf(err))
			}
		})
	}
	_, err := dialHTTP(t.Context(), resolved(t, gone.URL+"/x?key=hidden", nil), env{})
	if KindOf(err) != Unreachable || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("refused: got %v", err)
	}
}

// A failure before the request left is told from one after it (U1): a bad
// certificate, a peer that accepts and says nothing, one that speaks no TLS.
func TestHTTPConnectErrors(t *testing.T) {
	leaks(t)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for _, tt := range []struct {
		url   string
		limit time.Duration
		kind  Kind
		text  string
	}{
		{secure.URL, 0, Unreachable, "ssl_verify: /path/to/ca.pem"},
		{strings.Replace(plain.URL, "http:", "https:", 1), 0, Unreachable, "write http:, or the port of https"},
		{"http://" + silent.Addr().String(), 50 * time.Millisecond, Timeout, "no answer in time"},
		{"https://" + silent.Addr().String(), 50 * time.Millisecond, Timeout, "no connection in time"},
		{"http://127.0.0.1:1/?key=hidden", 0, Unreachable, "connection refused"},
	} {
		_, err := dialHTTP(t.Context(), resolved(t, tt.url, &Settings{ConnectTimeout: tt.limit}), env{})
		if KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: got %v (kind %v)", tt.url, err, KindOf(err))
		}
	}
}

func TestHTTPUnixSocket(t *testing.T) {
	leaks(t)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeHTTP{modern: true, sessions: map[string]bool{}}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: f}}
	srv.Start()
	t.Cleanup(srv.Close)
	r := resolved(t, "http://localhost/mcp", nil)
	r.Socket = path
	alive(t, dialed(t, r, env{}))
}
