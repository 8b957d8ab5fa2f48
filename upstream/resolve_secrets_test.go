package upstream

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

// slots are the settings whose values no server's text may carry further. None has
// a name that looks like a secret's, and {} is where the value stands.
var slots = []struct {
	name string
	set  func(s *Settings, v string)
}{
	{"header", func(s *Settings, v string) { s.Headers["X-Tenant"] = v }},
	{"bearer", func(s *Settings, v string) { s.Headers["X-Who"] = "Bearer " + v }},
	{"basic", func(s *Settings, v string) {
		s.Headers["X-Who"] = "Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+v))
	}},
	{"cookie", func(s *Settings, v string) { s.Headers["Cookie"] = "a=b; sid=" + v }},
	{"identity", func(s *Settings, v string) { s.IdentityHeader = &auth.IdentityHeader{Name: "X-User", Value: v} }},
	{"password", func(s *Settings, v string) { s.URL = strings.Replace(s.URL, "://", "://user:"+v+"@", 1) }},
	{"user", func(s *Settings, v string) { s.URL = strings.Replace(s.URL, "://", "://"+v+"@", 1) }},
	{"query", func(s *Settings, v string) { s.URL += "?a=1&tenant=" + v }},
	{"bare query", func(s *Settings, v string) { s.URL += "?" + v }},
	{"path", func(s *Settings, v string) { s.URL += "/" + v + "/mcp" }},
	{"env", func(s *Settings, v string) { s.Env["PLAIN"] = v }},
	{"env of JSON", func(s *Settings, v string) { s.Env["HEADERS"] = `{"x":"Bearer ` + v + `"}` }},
	{"env of a URL", func(s *Settings, v string) { s.Env["SERVICE"] = "postgres://u:" + v + "@db/x" }},
	{"env of two lines", func(s *Settings, v string) { s.Env["PEM"] = "-----BEGIN X-----\n" + v + "\n-----END X-----" }},
	{"flag", func(s *Settings, v string) { s.Args = append(s.Args, "--tenant", v) }},
	{"flag=", func(s *Settings, v string) { s.Args = append(s.Args, "--tenant="+v) }},
	{"pair", func(s *Settings, v string) { s.Args = append(s.Args, "-e", "TENANT="+v) }},
	{"header flag", func(s *Settings, v string) { s.Args = append(s.Args, "--header", "X-Who: Bearer "+v) }},
	{"short flag", func(s *Settings, v string) { s.Args = append(s.Args, "-p"+v) }},
	{"positional", func(s *Settings, v string) { s.Args = append(s.Args, "-y", "@scope/pkg", v) }},
	{"reference", func(s *Settings, _ string) { s.Args = append(s.Args, "${REF}") }},
	{"OAuth", func(s *Settings, v string) { s.OAuth.ClientSecret = v }},
}

const canary = "cNrY07zzQQ8f3k-P"

func slotted(t *testing.T, set func(*Settings, string), base Settings) *Resolved {
	t.Helper()
	s := base
	s.Headers, s.Env = map[string]string{}, map[string]string{}
	set(&s, canary)
	v := Vars{Lookup: func(string) (string, bool) { return canary, true }}
	r, err := s.Resolve("a", "", v, []string{"PATH=/bin:/usr/bin"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// leaked reports a text that shows the canary in any form, or the first half of it.
func leaked(s string) bool {
	for _, c := range append(written(canary), canary, base64.RawStdEncoding.EncodeToString([]byte("user:"+canary)), canary[:10]) {
		if strings.Contains(s, strings.TrimRight(c, "=")) {
			return true
		}
	}
	return false
}

func TestSecretSlots(t *testing.T) {
	forms := []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), base64.URLEncoding.EncodeToString([]byte(canary)),
		base64.RawURLEncoding.EncodeToString([]byte(canary)), "x" + canary + canary + "y", strings.Repeat("long ", 200) + canary[:12]}
	for _, slot := range slots {
		base := Settings{Command: "sh", URL: "http://h.example", Transport: "http"}
		r := slotted(t, slot.set, base)
		for _, f := range forms {
			if got := r.scrub("bad value " + f); leaked(got) || !strings.Contains(got, "[redacted]") || strings.Contains(got, "value [redacted]b") {
				t.Errorf("%s: %q became %.200q", slot.name, f, got)
			}
		}
	}
	r := slotted(t, slots[5].set, Settings{URL: "http://h.example"})
	if got := r.scrub("Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+canary))); got != "Basic [redacted]" {
		t.Errorf("basic form of the userinfo: got %q", got)
	}
}

// What stands in every second error text stays, and so do packages, files and hosts.
func TestScrubKeeps(t *testing.T) {
	s := &Settings{
		Command: "sh", URL: "https://mcp.example.com/v1/projects/mcp?v=2&mode=readonly&debug=true&limit=100000",
		Args: []string{"-y", "@modelcontextprotocol/server-filesystem@2025.8.21", "--port", "8080", "--log-level", "debug", "/srv/data/files",
			"--root", "/srv/data/more", "-m", "mcp_server_fetch", "server.py", "--url", "https://api.example.com/v1", "--verbose"},
		Env: map[string]string{"NODE_ENV": "production", "DEBUG": "true", "PORT": "30000", "DIR": "/tmp/cache", "PYTHONPATH": "/srv/app:/srv/lib",
			"BIND": "127.0.0.1:8080", "SERVICE": "https://api.example.com/v1", "HOME": "/home/somebody", "LEVEL": "warning"},
		Headers: map[string]string{"Host": "mcp.example.com", "Content-Type": "application/json", "X-Mode": "readonly", "Authorization": "Bearer " + canary},
	}
	const text = "production true 30000 /tmp/cache /srv/app/x.py 127.0.0.1:8080 https://api.example.com/v1 /home/somebody warning " +
		"@modelcontextprotocol/server-filesystem@2025.8.21 8080 debug /srv/data/files /srv/data/more mcp_server_fetch server.py --verbose " +
		"https://mcp.example.com/v1/projects/mcp readonly 100000 application/json Bearer "
	for _, transport := range []string{"http", "stdio"} {
		s.Transport = transport
		r, err := s.Resolve("a", "", Vars{}, []string{"PATH=/bin:/usr/bin"})
		if err != nil {
			t.Fatal(err)
		}
		long := text + strings.Repeat(".", cutFrom)
		if got := r.scrub(long); got != long {
			t.Errorf("%s: got %q", transport, got)
		}
	}
}

// A reference and a name that says so make short and common values secrets, too.
func TestScrubNamed(t *testing.T) {
	s := &Settings{
		Command: "sh", Args: []string{"--password", "true", "${MODE}"},
		Env: map[string]string{"DB_PASSWORD": "hunt", "API_KEY": "12345", "LEVEL": "12345678", "ONE": "abc"},
	}
	v := Vars{Lookup: func(string) (string, bool) { return "production", true }}
	r, err := s.Resolve("a", "", v, []string{"PATH=/bin:/usr/bin"})
	if err != nil {
		t.Fatal(err)
	}
	want := "[redacted],[redacted],[redacted],[redacted],[redacted],abc"
	if got := r.scrub("true,production,hunt,12345,12345678,abc"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScrubText(t *testing.T) {
	r := &Resolved{secrets: []string{"abcdef", "defxyz", "redacted", "abc&d"}}
	for in, want := range map[string]string{
		"":                                "",
		"abcdefxyz":                       "[redacted]",
		"abcdef abcdef":                   "[redacted] [redacted]",
		"redacted":                        "[redacted]",
		"[redacted]":                      "[[redacted]]",
		"abcde":                           "abcde",
		"\xffabcdef\xff":                  "\xff[redacted]\xff",
		strings.Repeat("a", 600):          strings.Repeat("a", 600),
		strings.Repeat(".", 600) + "abcd": strings.Repeat(".", 600) + "[redacted]",
		"cdef" + strings.Repeat(".", 600): "[redacted]" + strings.Repeat(".", 600),
		strings.Repeat(".", maxScrub-4) + "abcdef": strings.Repeat(".", maxScrub-4) + "[redacted]",
	} {
		if got := r.scrub(in); got != want {
			t.Errorf("%.40q: got %.80q, want %.80q", in, got, want)
		}
	}
}

func TestLooksToken(t *testing.T) {
	for s, want := range map[string]bool{
		"":                                     false,
		"CNRY07zzQQ":                           true,
		"mcp":                                  false,
		"server-filesystem":                    false,
		"ModelContextProtocol":                 false,
		"server-filesystem-v2":                 false,
		"2025-11-25T10":                        false,
		"550e8400-e29b-41d4-a716-446655440000": true,
		"deadbeef01234567":                     true,
		"ghp_0123456789abcdefABCDEF":           true,
		"sk-proj-a1b2c3d4e5":                   true,
		"not a token 0a1b2c3d4e5f":             false,
		strings.Repeat("x", anyToken):          true,
		"déjà-vu-0a1b2c3d4e5f6":                false,
		"@modelcontextprotocol/server-git":     false,
	} {
		if got := looksToken(s); got != want {
			t.Errorf("%q: got %v", s, got)
		}
	}
}

// echo is a server that fails in one of many ways and repeats what it was sent.
type echo func(w http.ResponseWriter, r *http.Request, id json.RawMessage, said string)

var echoes = map[string]echo{
	"500": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage, said string) { http.Error(w, said, 500) },
	"500 that is cut": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage, said string) {
		http.Error(w, strings.Repeat(" ", maxText-len(said)+8)+said, 500)
	},
	"500 of JSON": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage, said string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(500)
		fmt.Fprintf(w, `{"error":%q}`, said)
	},
	"200 that is text": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage, said string) { fmt.Fprint(w, said) },
	"200 that is junk": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage, said string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, said)
	},
	"content type": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage, said string) {
		w.Header().Set("Content-Type", "x/"+said)
	},
	"content encoding": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage, said string) {
		w.Header().Set("Content-Encoding", said)
	},
	"401": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage, said string) {
		w.Header().Set("WWW-Authenticate", "Bearer realm="+strconv.Quote(said))
		w.WriteHeader(401)
	},
	"redirect": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage, said string) {
		w.Header().Set("Location", "http://other.example/"+url.PathEscape(said))
		w.WriteHeader(307)
	},
	"error of the handshake": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage, said string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%q}}`, id, said)
	},
	"another id": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage, said string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"error":{"code":-32000,"message":%q}}`, said, said)
	},
}

// A server that repeats what it got cannot make our errors and logs carry it on.
func TestHTTPEchoes(t *testing.T) {
	for place, answer := range echoes {
		t.Run(place, func(t *testing.T) {
			f := newFake(t, &fakeHTTP{any: func(w http.ResponseWriter, r *http.Request, m rpc) bool {
				var said []string
				for k, v := range m.Header {
					if k == "X-Tenant" || k == "X-Who" || k == "X-User" || k == "Cookie" || k == "Authorization" {
						said = append(said, v...)
					}
				}
				answer(w, r, m.ID, strings.Join(append(said, r.URL.String()), " "))
				return true
			}})
			for _, slot := range slots[:10] {
				var logs syncText
				r := slotted(t, slot.set, Settings{URL: f.URL})
				_, err := dialHTTP(t.Context(), r, env{log: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))})
				if err == nil || leaked(err.Error()) || leaked(logs.String()) {
					t.Errorf("%s: got %v, logged %s", slot.name, err, logs.String())
				}
			}
		})
	}
}

// syncText is a buffer that goroutines may share.
type syncText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A child that prints what it was given and dies.
func TestStdioEchoes(t *testing.T) {
	const script = `printf '%s\n' "$PLAIN" "$HEADERS" "$SERVICE" "$PEM" "$@" >&2; exit 3`
	for _, slot := range slots[10:21] {
		var logs syncText
		r := slotted(t, slot.set, Settings{Command: "sh", Args: []string{"-c", script, "x"}})
		_, err := dialStdio(t.Context(), r, env{log: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		if err == nil || leaked(err.Error()) || leaked(logs.String()) || !strings.Contains(err.Error(), redacted) {
			t.Errorf("%s: got %v, logged %s", slot.name, err, logs.String())
		}
	}
}
