package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// purse is a Tokens whose token others change.
type purse struct {
	mu      sync.Mutex
	token   string
	next    string // what Refused finds, if anything
	asked   []string
	refused error
	err     error
}

func (p *purse) Token(context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.token, p.err
}

func (p *purse) Refused(_ context.Context, token string, status int, h http.Header) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, token+" "+http.StatusText(status)+" "+h.Get("Www-Authenticate"))
	if p.next == "" {
		return false, p.refused
	}
	p.token, p.next = p.next, ""
	return true, nil
}

func (p *purse) Stamp() any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.token
}

func (p *purse) set(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = token
}

// guarded is a server that takes one token, and echoes what it refuses.
func guarded(t *testing.T, good string) (*fakeHTTP, *atomic.Int64) {
	var ran atomic.Int64
	f := &fakeHTTP{legacy: true}
	f.any = func(w http.ResponseWriter, r *http.Request, m rpc) bool {
		got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if got == good {
			return false
		}
		w.Header().Set("Www-Authenticate", `Bearer resource_metadata="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		w.Write([]byte("bad token: " + got))
		return true
	}
	f.call = func(w http.ResponseWriter, r *http.Request, m rpc) { ran.Add(1); result(w, m, `{"content":[]}`) }
	return newFake(t, f), &ran
}

func tokenSet(t *testing.T, url string, p *purse) *Set {
	set, _ := keptTokenSet(t, url, p, nil)
	return set
}

func keptTokenSet(t *testing.T, url string, p *purse, c *Cache) (set *Set, stop func()) {
	leaks(t)
	s := &Settings{URL: url, Auth: "oauth"}
	set, err := NewSet([]Server{{Name: "a", Settings: s}}, Options{Cache: c, Tokens: func(*Resolved, string) (Tokens, error) { return p, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	set.AwaitFirst(t.Context(), time.Minute, "a")
	return set, stop
}

// The tools of a server that wants a login are known from an earlier life.
func TestTokensKeepLists(t *testing.T) {
	f, _ := guarded(t, "good")
	list := f.any
	f.any = func(w http.ResponseWriter, r *http.Request, m rpc) bool {
		if list(w, r, m) {
			return true
		}
		if m.Method == "tools/list" {
			result(w, m, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
		}
		return m.Method == "tools/list"
	}
	c := &Cache{Dir: t.TempDir()}
	first, stop := keptTokenSet(t, f.URL, &purse{token: "good"}, c)
	if l := first.Listing("a"); l == nil || len(l.Tools) != 1 {
		t.Fatalf("listed %v", l)
	}
	stop()
	second, _ := keptTokenSet(t, f.URL, &purse{refused: &LoginError{Err: errors.New("log in")}}, c)
	if l := second.Listing("a"); l == nil || len(l.Tools) != 1 {
		t.Errorf("listed %v", l)
	}
	if st, _ := second.Status("a"); st.State != NeedsLogin || st.Tools != 1 {
		t.Errorf("%s: %v", st.State, st.Err)
	}
}

// Requests carry the token that there is, and are sent once more with another one if
// the server refuses it.
func TestTokens(t *testing.T) {
	f, ran := guarded(t, "two")
	p := &purse{token: "one", next: "two"}
	set := tokenSet(t, f.URL, p)
	if st, _ := set.Status("a"); st.State != Ready {
		t.Fatalf("%s: %v", st.State, st.Err)
	}
	if _, err := set.Do(t.Context(), Target{Server: "a"}, toolCall("t")); err != nil || ran.Load() != 1 {
		t.Errorf("%v, ran %d times", err, ran.Load())
	}
	if want := []string{`one Unauthorized Bearer resource_metadata="x"`}; !slices.Equal(p.asked, want) {
		t.Errorf("refused: %q", p.asked)
	}
}

// Where a person has to log in, the state says so, calls fail with what to do, and
// another login is seen without one. No token shows.
func TestTokensNeedLogin(t *testing.T) {
	f, _ := guarded(t, "two")
	p := &purse{token: "secret-one", refused: &LoginError{Err: errors.New("run mcp-sidecar login a")}}
	set := tokenSet(t, f.URL, p)
	st, _ := set.Status("a")
	if st.State != NeedsLogin || KindOf(st.Err) != Unauthorized || !strings.Contains(st.Err.Error(), "mcp-sidecar login a") {
		t.Fatalf("%s: %v", st.State, st.Err)
	}
	_, err := set.Do(t.Context(), Target{Server: "a"}, toolCall("t"))
	if KindOf(err) != Unauthorized || !strings.Contains(err.Error(), "mcp-sidecar login a") || strings.Contains(err.Error(), "secret") {
		t.Errorf("the call: %v", err)
	}
	p.set("two")
	eventually(t, "the login", func() bool { st, _ := set.Status("a"); return st.State == Ready })
}

// A refusal that no login mends is the server's own.
func TestTokensRefusedPlainly(t *testing.T) {
	f, _ := guarded(t, "two")
	set := tokenSet(t, f.URL, &purse{token: "secret-one"})
	st, _ := set.Status("a")
	if st.State != NeedsLogin || !strings.Contains(st.Err.Error(), "401") || strings.Contains(st.Err.Error(), "secret-one") {
		t.Errorf("%s: %v", st.State, st.Err)
	}
}

// Trouble with the token endpoint is an outage, and one scope that is missing is no
// reason to log in anew.
func TestTokensTrouble(t *testing.T) {
	f, ran := guarded(t, "good")
	set := tokenSet(t, f.URL, &purse{err: errors.New("the token endpoint does not answer")})
	if st, _ := set.Status("a"); st.State != Failed || KindOf(st.Err) != Unreachable || !strings.Contains(st.Err.Error(), "token endpoint") {
		t.Errorf("%s: %v", st.State, st.Err)
	}
	p := &purse{token: "good"}
	set = tokenSet(t, f.URL, p)
	p.mu.Lock()
	p.token, p.refused = "lesser", &LoginError{Err: errors.New("needs scope x"), Once: true}
	p.mu.Unlock()
	if _, err := set.Do(t.Context(), Target{Server: "a"}, toolCall("t")); KindOf(err) != Unauthorized || ran.Load() != 0 {
		t.Errorf("got %v", err)
	}
	if st, _ := set.Status("a"); st.State != Ready {
		t.Errorf("%s: %v", st.State, st.Err)
	}
}

// A server is asked without a token what it wants.
func TestUnauthorized(t *testing.T) {
	leaks(t)
	f, _ := guarded(t, "good")
	s := &Settings{URL: f.URL, Auth: "oauth"}
	r, err := s.Resolve("a", "", Vars{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	status, h, err := r.Unauthorized(t.Context(), nil)
	if err != nil || status != http.StatusUnauthorized || h.Get("Www-Authenticate") == "" {
		t.Errorf("%d %v %v", status, h, err)
	}
	if _, _, err := (&Resolved{Server: "b"}).Unauthorized(t.Context(), nil); KindOf(err) != Config {
		t.Errorf("without a url: %v", err)
	}
}

// Servers of 2024-11-05 get the same tokens, with the stream and with each message, and
// another one when they refuse what they were sent.
func TestTokensOverSSE(t *testing.T) {
	refuse := func(w http.ResponseWriter, r *http.Request, want string) bool {
		if r.Header.Get("Authorization") == "Bearer "+want {
			return false
		}
		w.Header().Set("Www-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	var renewed atomic.Bool
	f := newSSE(t, &fakeSSE{
		open: func(w http.ResponseWriter, r *http.Request) bool { return refuse(w, r, "good") },
		post: func(w http.ResponseWriter, r *http.Request, m rpc) bool {
			if renewed.Load() {
				return refuse(w, r, "better")
			}
			return refuse(w, r, "good")
		},
		call: func(f *fakeSSE, m rpc) { f.answer(m, `{"content":[]}`) },
	})
	p := &purse{token: "old", next: "good"}
	leaks(t)
	s := &Settings{URL: f.URL + "/sse", Transport: "sse", Auth: "oauth"}
	set, err := NewSet([]Server{{Name: "a", Settings: s}}, Options{Tokens: func(*Resolved, string) (Tokens, error) { return p, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	defer func() { cancel(); <-done }()
	set.AwaitFirst(t.Context(), time.Minute, "a")
	call := func() error {
		_, err := set.Do(t.Context(), Target{Server: "a"}, toolCall("t"))
		return err
	}
	if err := call(); err != nil {
		t.Fatalf("with the token that came after the first: %v", err)
	}
	p.mu.Lock()
	p.next = "better"
	p.mu.Unlock()
	renewed.Store(true)
	if err := call(); err != nil {
		t.Errorf("after a message was refused: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) != 2 || !strings.HasPrefix(p.asked[0], "old ") || !strings.HasPrefix(p.asked[1], "good ") {
		t.Errorf("asked %q", p.asked)
	}
}

// Where no credentials can be kept, that is said once, and looked at until it is mended.
func TestTokensCannotBeKept(t *testing.T) {
	f, _ := guarded(t, "good")
	leaks(t)
	var looked atomic.Int64
	var mended atomic.Bool
	var told lockedBuffer
	set, err := NewSet([]Server{{Name: "a", Settings: &Settings{URL: f.URL, Auth: "oauth"}}}, Options{
		Log: slog.New(slog.NewTextHandler(&told, nil)),
		Tokens: func(*Resolved, string) (Tokens, error) {
			if looked.Add(1); !mended.Load() {
				return nil, errors.New("no key")
			}
			return &purse{token: "good"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for end := time.Now().Add(30 * time.Second); looked.Load() < 3 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if n := strings.Count(told.String(), "server down"); n != 1 {
		t.Errorf("told %d times of the same: %s", n, told.String())
	}
	mended.Store(true)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if st, _ := set.Status("a"); st.State == Ready {
			return
		}
	}
	t.Errorf("not ready: %s", told.String())
}
