package sampling

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "sk-hunter2"
	hello  = `"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":10`
	says   = `{"model":"m-1","choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
)

// A world is an endpoint and a client of it.
type world struct {
	*Client
	srv  *httptest.Server
	seen []string // bodies of requests
	auth string   // the last Authorization
	path string
	log  bytes.Buffer
	key  string // the path of the key file
	base string // what the settings say, behind the server's address
	urls string // replaces the whole URL, if set
}

func newWorld(t *testing.T, answer http.HandlerFunc) *world {
	t.Helper()
	w := &world{key: filepath.Join(t.TempDir(), "key"), base: "/v1"}
	w.write(t, secret+"\n", 0o600)
	w.srv = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.seen = append(w.seen, strings.TrimSpace(string(body)))
		w.auth, w.path = r.Header.Get("Authorization"), r.Method+" "+r.URL.RequestURI()
		answer(rw, r)
	}))
	t.Cleanup(w.srv.Close)
	w.Client = New(Options{Log: slog.New(slog.NewTextHandler(&w.log, nil)), Endpoint: func(server string) (policy.Endpoint, error) {
		if server != "s" {
			return policy.Endpoint{}, errors.New("no such server")
		}
		url := w.srv.URL + w.base
		if w.urls != "" {
			url = w.urls
		}
		return policy.Endpoint{URL: url, KeyFile: w.key, Model: "m"}, nil
	}})
	t.Cleanup(w.Close)
	return w
}

func (w *world) write(t *testing.T, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(w.key, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(w.key, mode); err != nil {
		t.Fatal(err)
	}
}

func (w *world) sample(t *testing.T, params string) (string, error) {
	t.Helper()
	out, err := w.Sample(t.Context(), "s", []byte(params))
	if err != nil && (out != nil || strings.Contains(err.Error(), secret)) {
		t.Errorf("got %s, error %v", out, err)
	}
	if strings.Contains(w.log.String(), secret) {
		t.Errorf("the key is in the log: %s", w.log.String())
	}
	return string(out), err
}

func reply(status int, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(status)
		io.WriteString(rw, body)
	}
}

func TestSample(t *testing.T) {
	w := newWorld(t, reply(200, says))
	got, err := w.sample(t, `{`+hello+`,"systemPrompt":"Be <brief>.","temperature":0.50,"stopSequences":["x"],"modelPreferences":{"hints":[{},{"name":"hinted"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"role":"assistant","content":{"type":"text","text":"hello"},"model":"m-1","stopReason":"endTurn","_meta":{"mcp-sidecar/tokens":7}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	body := `{"model":"hinted","messages":[{"role":"system","content":"Be <brief>."},{"role":"user","content":"hi"}],"max_tokens":10,"temperature":0.50,"stop":["x"]}`
	if diff := cmp.Diff([]string{body}, w.seen); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if w.auth != "Bearer "+secret || w.path != "POST /v1/chat/completions" {
		t.Errorf("got %q, %q", w.auth, w.path)
	}
	// What Review makes of it is what the server gets.
	a := policy.NewAsker("s", policy.Sampling{}, policy.Elicitation{}, policy.Roots{})
	out, log, bad := a.Review("c", "sampling/createMessage", []byte(`{}`), []byte(got))
	if bad != nil || log != "" || string(out) != `{"role":"assistant","content":{"type":"text","text":"hello"},"model":"m-1","stopReason":"endTurn"}` || a.Counts().Sampling.Tokens != 7 {
		t.Errorf("got %s, %q, %v, %+v", out, log, bad, a.Counts())
	}
}

func TestRequests(t *testing.T) {
	const tool = `{"name":"t","description":"d","inputSchema":{"type":"object","properties":{"n":{"maximum":9007199254740993}}}}`
	for _, tc := range []struct{ name, params, want string }{
		{"model of the settings", `{` + hello + `}`, `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":10}`},
		{"tools", `{` + hello + `,"tools":[` + tool + `],"toolChoice":{"mode":"required"}}`,
			`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":10,"tools":[{"type":"function","function":{"name":"t","description":"d","parameters":{"type":"object","properties":{"n":{"maximum":9007199254740993}}}}}],"tool_choice":"required"}`},
		{"a choice among nothing", `{` + hello + `,"toolChoice":{"mode":"none"}}`, `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":10}`},
		{"media", `{"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"audio","data":"BB==","mimeType":"audio/mpeg"}]}],"maxTokens":1e1}`,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},{"type":"input_audio","input_audio":{"data":"BB==","format":"mp3"}}]}],"max_tokens":10}`},
		{"a loop of tools", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}},` +
			`{"role":"assistant","content":[{"type":"text","text":"hm"},{"type":"tool_use","id":"1","name":"t","input":{"n":9007199254740993}},{"type":"tool_use","id":"2","name":"t","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"x:","text":"b"}}]},` +
			`{"type":"tool_result","toolUseId":"2","content":[{"type":"text","text":"no"}],"isError":true}]},{"role":"user","content":{"type":"tool_result","toolUseId":"3","structuredContent":{"x":1.0},"content":null}},` +
			`{"role":"assistant","content":{"type":"text","text":"so"}}],"maxTokens":10}`,
			`{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hm","tool_calls":[{"id":"1","type":"function","function":{"name":"t","arguments":"{\"n\":9007199254740993}"}},{"id":"2","type":"function","function":{"name":"t","arguments":"{}"}}]},` +
				`{"role":"tool","content":"a\nb","tool_call_id":"1"},{"role":"tool","content":"error: no","tool_call_id":"2"},{"role":"tool","content":"{\"x\":1.0}","tool_call_id":"3"},{"role":"assistant","content":"so"}],"max_tokens":10}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, reply(200, says))
			if _, err := w.sample(t, tc.params); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.want}, w.seen); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnfit holds that a server is told what its request holds that no endpoint
// takes, and that nothing is sent then.
func TestUnfit(t *testing.T) {
	for _, tc := range []struct{ content, want string }{
		{`{"type":"image","data":"","mimeType":"text/html"}`, "no MIME type of its kind"},
		{`{"type":"image","data":"","mimeType":"image/png;x,"}`, "no MIME type of its kind"},
		{`{"type":"audio","data":"","mimeType":"audio/ogg"}`, "wav or mp3 only"},
		{`{"type":"hologram"}`, `"hologram"`},
		{`{"type":"tool_result","toolUseId":"1","content":[{"type":"image","data":""}]}`, `"image" from a tool`},
		{`7`, "cannot be read"},
	} {
		w := newWorld(t, reply(200, says))
		_, err := w.sample(t, `{"messages":[{"role":"user","content":`+tc.content+`}],"maxTokens":1}`)
		if e := (*wire.Error)(nil); !errors.As(err, &e) || e.Code != wire.CodeInvalidParams || !strings.Contains(e.Message, tc.want) || len(w.seen) > 0 {
			t.Errorf("%s: got %v, %d requests", tc.content, err, len(w.seen))
		}
	}
}

func TestAnswers(t *testing.T) {
	const call = `{"id":"c1","type":"function","function":{"name":"t","arguments":"{\"n\":9007199254740993}"}}`
	for _, tc := range []struct{ name, body, want string }{
		{"length", `{"choices":[{"message":{"content":"x"},"finish_reason":"length"}]}`, `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m","stopReason":"maxTokens"}`},
		{"another reason", `{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"content_filter"}]}`, `{"role":"assistant","content":{"type":"text","text":"no"},"model":"m","stopReason":"content_filter"}`},
		{"no reason", `{"choices":[{"message":{}}]}`, `{"role":"assistant","content":{"type":"text","text":""},"model":"m"}`},
		{"parts", `{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"\n\"b"}]},"finish_reason":"stop"}]}`, `{"role":"assistant","content":{"type":"text","text":"a\n\"b"},"model":"m","stopReason":"endTurn"}`},
		{"tokens in parts", `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m","_meta":{"mcp-sidecar/tokens":3}}`},
		{"negative tokens", `{"choices":[{"message":{"content":"x"}}],"usage":{"total_tokens":-5}}`, `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}`},
		{"calls", `{"choices":[{"message":{"content":null,"tool_calls":[` + call + `,{"id":"c2","function":{"name":"u","arguments":""}}]},"finish_reason":"tool_calls"}]}`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"t","input":{"n":9007199254740993}},{"type":"tool_use","id":"c2","name":"u","input":{}}],"model":"m","stopReason":"toolUse"}`},
		{"text and a call", `{"choices":[{"message":{"content":"hm","tool_calls":[` + call + `]},"finish_reason":"stop"}]}`,
			`{"role":"assistant","content":[{"type":"text","text":"hm"},{"type":"tool_use","id":"c1","name":"t","input":{"n":9007199254740993}}],"model":"m","stopReason":"toolUse"}`},
		{"odd arguments", `{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"t","arguments":"[1]"}}]}}]}`, "no object"},
		{"broken arguments", `{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"t","arguments":"{\"a\":"}}]}}]}`, "no object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, reply(200, tc.body))
			got, err := w.sample(t, `{`+hello+`,"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
			if tc.want[0] != '{' {
				if e := (*wire.Error)(nil); !errors.As(err, &e) || e.Code != wire.CodeInternal || !strings.Contains(e.Message, tc.want) {
					t.Errorf("got %s, error %v, want %q", got, err, tc.want)
				}
				return
			}
			if err != nil || got != tc.want || !json.Valid([]byte(got)) {
				t.Errorf("got %s, error %v, want %s", got, err, tc.want)
			}
		})
	}
	w := newWorld(t, reply(200, `{"choices":[{"message":{"tool_calls":[`+call+`]}}]}`))
	if _, err := w.sample(t, `{`+hello+`}`); err == nil || !strings.Contains(err.Error(), "nobody offered") {
		t.Errorf("got error %v", err)
	}
}

// TestFailures holds that what an endpoint says of a failure is for the log only,
// and that the key is not even there.
func TestFailures(t *testing.T) {
	big := `{"choices":[{"message":{"content":"` + strings.Repeat("x", maxBody) + `"}}]}`
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"refused", reply(401, "bad key "+secret+"\n"+strings.Repeat("y ", 5000)), `status 401: "bad key [redacted]\ny`},
		{"no choices", reply(200, `{"choices":[]}`), "holds no choices"},
		{"an error in disguise", reply(200, `{"error":{"message":"quota of `+secret+`"}}`), `holds no choices: "{\"message\":\"quota of [redacted]\"}"`},
		{"no JSON", reply(200, "<html>"), "cannot be read"},
		{"failed", reply(500, ""), "status 500"},
		{"too large", reply(200, big), "more than 4194304 bytes"},
		{"elsewhere", func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "/v1/other", http.StatusTemporaryRedirect)
		}, "status 307: redirects are not followed, so that the key stays here: name the address that it leads to"},
		{"cut off", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "100")
			io.WriteString(rw, "{")
		}, "unexpected EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.answer)
			_, err := w.sample(t, `{`+hello+`}`)
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 600 || len(w.seen) != 1 {
				t.Errorf("got error %.700v after %d requests, want %q", err, len(w.seen), tc.want)
			}
			if e := (*wire.Error)(nil); errors.As(err, &e) {
				t.Errorf("got %v, which a server would be told", e)
			}
		})
	}
}

// TestScrub holds that what looks like a key is not logged, whosever it is, and
// that what explains a failure is.
func TestScrub(t *testing.T) {
	for text, want := range map[string]string{
		"Incorrect API key provided: sk-proj-abcd1234EFGH.":                 "Incorrect API key provided: [redacted]",
		"key sk-ab********yz is wrong":                                      "key [redacted] is wrong",
		"Authorization: Bearer abc.def":                                     "Authorization: Bearer [redacted]",
		`{"token":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c"}`:      `{"token":"[redacted]"}`,
		"x 3f2504e0-4f89-11d3-9a0c-0305e82c3301 y":                          "x [redacted] y",
		"YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXo+Cg==":                          "[redacted]",
		"the model claude-3-5-sonnet-20241022 does not exist":               "the model claude-3-5-sonnet-20241022 does not exist",
		"context_length_exceeded_by_this_request: skipping the whole thing": "context_length_exceeded_by_this_request: skipping the whole thing",
		"POST https://api.example.com/v1/chat/completions":                  "POST https://api.example.com/v1/chat/completions",
		"a hunter2hunter2 b":                                                "a [redacted] b",
		strings.Repeat("é ", 100):                                           strings.Repeat("é ", 66) + "é",
	} {
		if got := scrub(text, "hunter2hunter2").Error(); got != strconv.Quote(want) {
			t.Errorf("%q: got %s", text, got)
		}
	}
}

// TestKeyFault holds what is said of a key file before it is needed.
func TestKeyFault(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	for mode, want := range map[os.FileMode]string{0o600: "", 0o400: "", 0o640: "mode 0640", 0o604: "mode 0604"} {
		os.Remove(path)
		if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if got := KeyFault(path); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("mode %04o: got %q, want %q", mode, got, want)
		}
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{empty: "is empty", dir: "is not a regular file", filepath.Join(dir, "none"): "there is no such file", filepath.Join(path, "x"): "cannot be read"} {
		if got := KeyFault(path); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestNewerName holds that a model which wants the limit under its newer name is
// asked again, once.
func TestNewerName(t *testing.T) {
	var n atomic.Int64
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			reply(400, `{"error":{"message":"Use 'max_completion_tokens' instead."}}`)(rw, r)
			return
		}
		reply(200, says)(rw, r)
	})
	if _, err := w.sample(t, `{`+hello+`}`); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":10}`,
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":10}`,
	}
	if diff := cmp.Diff(want, w.seen); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	w = newWorld(t, reply(400, "max_completion_tokens"))
	if _, err := w.sample(t, `{`+hello+`}`); err == nil || len(w.seen) != 2 {
		t.Errorf("got error %v after %d requests", err, len(w.seen))
	}
}

// TestRefusedParameters holds that what a model does not take is left out, each once,
// where the error names it.
func TestRefusedParameters(t *testing.T) {
	const (
		start  = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":10`
		newer  = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":10`
		warm   = `,"temperature":0.7`
		ends   = `,"stop":["x"]}`
		params = `{` + hello + `,"temperature":0.7,"stopSequences":["x"]}`
	)
	for _, tc := range []struct {
		name   string
		errors []string // before the answer
		want   []string
		fails  bool
	}{
		{"temperature", []string{`{"error":{"message":"no","param":"temperature"}}`}, []string{start + warm + ends, start + ends}, false},
		{"by its message", []string{`{"error":{"message":"Unsupported value: 'temperature' does not support 0.7 with this model."}}`}, []string{start + warm + ends, start + ends}, false},
		{"stop", []string{`{"error":{"message":"no","param":"stop"}}`}, []string{start + warm + ends, start + warm + "}"}, false},
		{"all", []string{`{"error":{"param":"max_tokens","message":"Use 'max_completion_tokens' instead."}}`, `{"error":{"param":"temperature"}}`, `{"error":{"param":"stop"}}`},
			[]string{start + warm + ends, newer + warm + ends, newer + ends, newer + "}"}, false},
		{"again", []string{`{"error":{"param":"temperature"}}`, `{"error":{"param":"temperature"}}`}, []string{start + warm + ends, start + ends}, true},
		{"another", []string{`{"error":{"message":"the temperature here does not stop","param":"messages"}}`}, []string{start + warm + ends}, true},
		{"no JSON", []string{`temperature`}, []string{start + warm + ends}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var n atomic.Int64
			w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
				if i := int(n.Add(1)); i <= len(tc.errors) {
					reply(400, tc.errors[i-1])(rw, r)
					return
				}
				reply(200, says)(rw, r)
			})
			if _, err := w.sample(t, params); (err != nil) != tc.fails {
				t.Errorf("got error %v", err)
			}
			if diff := cmp.Diff(tc.want, w.seen); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := w.Sample(ctx, "s", []byte(`{`+hello+`}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
}

func TestKeyFile(t *testing.T) {
	w := newWorld(t, reply(200, says))
	for _, tc := range []struct {
		text string
		mode os.FileMode
		auth string
		want string // of the error
		log  string
	}{
		{secret + "\n", 0o600, "Bearer " + secret, "", ""},
		{"  rotated\r\n", 0o400, "Bearer rotated", "", ""},
		{secret, 0o640, "Bearer " + secret, "", "mode=0640"},
		{secret, 0o644, "Bearer " + secret, "", ""}, // it was said once
		{" \n", 0o600, "", "is empty", ""},
		{secret + "\n" + secret, 0o600, "", "more than one word", ""},
		{secret + "\u00e9", 0o600, "", "more than one word", ""},
		{strings.Repeat("k", 64<<10+1), 0o600, "", "more than 65536 bytes", ""},
	} {
		w.auth = ""
		w.log.Reset()
		w.write(t, tc.text, tc.mode)
		_, err := w.sample(t, `{`+hello+`}`)
		if w.auth != tc.auth || (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.20q: got %.80q, error %v", tc.text, w.auth, err)
		}
		if got := w.log.String(); (got == "") != (tc.log == "") || !strings.Contains(got, tc.log) {
			t.Errorf("%.20q: got log %q, want %q", tc.text, got, tc.log)
		}
	}
	for path, want := range map[string]string{t.TempDir(): "not a regular file", filepath.Join(t.TempDir(), "none"): "no such file"} {
		w.key = path
		if _, err := w.sample(t, `{`+hello+`}`); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	w.key, w.auth = "", "x"
	if _, err := w.sample(t, `{`+hello+`}`); err != nil || w.auth != "" {
		t.Errorf("without a file: got %q, error %v", w.auth, err)
	}
}

func TestURLs(t *testing.T) {
	for base, want := range map[string]string{
		"https://e.example/v1":                               "https://e.example/v1/chat/completions",
		" https://e.example/v1/ ":                            "https://e.example/v1/chat/completions",
		"https://e.example":                                  "https://e.example/chat/completions",
		"http://localhost:11434/v1#x":                        "http://localhost:11434/v1/chat/completions",
		"https://e.example/a/chat/completions?api-version=1": "https://e.example/a/chat/completions?api-version=1",
		"https://e.example/a?api-version=1":                  "https://e.example/a/chat/completions?api-version=1",
		"ftp://e.example/":                                   "",
		"e.example/v1":                                       "",
		"https:///v1":                                        "",
		"":                                                   "",
		"https://hunter2\x01":                                "",
	} {
		got, err := completions(base)
		if got != want || (err == nil) != (want != "") || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %q, error %v, want %q", base, got, err, want)
		}
	}
}

// TestUnreachable holds that an error does not repeat the URL, whose query may be
// secret.
func TestUnreachable(t *testing.T) {
	w := newWorld(t, reply(200, says))
	w.urls = "http://127.0.0.1:0/v1?key=" + secret
	if _, err := w.sample(t, `{`+hello+`}`); err == nil || strings.Contains(err.Error(), "key=") {
		t.Errorf("got error %v", err)
	}
	if _, err := w.Sample(t.Context(), "other", []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "no such server") {
		t.Errorf("got error %v", err)
	}
	if _, err := New(Options{}).Sample(t.Context(), "s", []byte(`{}`)); err == nil {
		t.Error("got an answer without an endpoint")
	}
}

// FuzzAnswer holds that nothing that an endpoint says makes a result that is no
// JSON.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(says))
	f.Add([]byte(`{"choices":[{"message":{"content":[{"text":"x"}],"tool_calls":[{"id":"\ud800","function":{"arguments":"{}"}}]},"finish_reason":"length"}],"usage":{"total_tokens":1e300}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := answer(body, &chat{Model: "m", Tools: make([]chatTool, 1)})
		if _, bad := wire.Valid(out, wire.Limits{}); err == nil && bad != nil {
			t.Errorf("got %s: %v", out, bad)
		}
	})
}
