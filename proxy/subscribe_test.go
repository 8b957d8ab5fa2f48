package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// A fakeSubscriber counts what servers were asked to tell.
type fakeSubscriber struct {
	mu   sync.Mutex
	refs map[resource]int
	fail map[string]error // by server
}

func (s *fakeSubscriber) Subscribe(_ context.Context, server, uri string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail[server]; err != nil {
		return err
	}
	if s.refs == nil {
		s.refs = map[resource]int{}
	}
	s.refs[resource{server, uri}]++
	return nil
}

func (s *fakeSubscriber) Unsubscribe(server, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs[resource{server, uri}]--; s.refs[resource{server, uri}] == 0 {
		delete(s.refs, resource{server, uri})
	}
}

func (s *fakeSubscriber) count(server, uri string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refs[resource{server, uri}]
}

func (s *fakeSubscriber) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.refs) == 0
}

// subWorld is a world whose agents can subscribe.
func subWorld(t *testing.T, opts ...option) (*world, *fakeSubscriber) {
	t.Helper()
	sub := new(fakeSubscriber)
	w := newWorld(t, append(opts, func(o *Options) { o.Subscriber = sub })...)
	return w, sub
}

// nobody fails the test if the front still holds a subscription.
func (w *world) nobody(sub *fakeSubscriber) {
	w.t.Helper()
	until(w.t, "all is released", func() bool {
		s := &w.front.subs
		s.mu.RLock()
		defer s.mu.RUnlock()
		return sub.empty() && len(s.m) == 0 && len(s.crowds) == 0 && s.all == 0 && len(s.listens) == 0
	})
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not happen: %s", what)
		}
	}
}

const uriA = "file:///a.txt"

func subscribeBody(id int, method, uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":%q}}`, id, method, uri)
}

func (w *world) update(server, isolation, params string) {
	w.front.Notify("default", upstream.Origin{Server: server, Isolation: isolation}, updatedMethod, []byte(params))
}

func updatedNote(params string) string {
	return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":` + params + `}`
}

// Agents of sessions subscribe; one that did not hears nothing, and everything is
// given back when they go.
func TestSubscribe(t *testing.T) {
	w, sub := subWorld(t)
	if r := w.post(initialize); !strings.Contains(r.body, `"resources":{"listChanged":true,"subscribe":true}`) {
		t.Errorf("initialize: %s", r.body)
	}
	a, b, c := w.open("2025-11-25"), w.open("2025-11-25"), w.open("2025-11-25")
	ask := func(session, method, uri string) string {
		t.Helper()
		return w.post(subscribeBody(1, method, uri), "Mcp-Session-Id", session).body
	}
	const done = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for _, s := range []string{a, a, b} {
		wantJSON(t, "subscribe", ask(s, "subscribe", uriA), done)
	}
	if n := sub.count("files", uriA); n != 2 {
		t.Errorf("the server was asked for %d, want 2: once for each session", n)
	}
	sa, sb, sc := w.stream(t, a), w.stream(t, b), w.stream(t, c)
	w.update("github", "", `{"uri":"file:///a.txt"}`) // another server's
	w.update("files", "", `{"uri":"file:///b.txt"}`)
	w.update("files", "", `"broken"`)
	w.update("files", "", `{"uri":7}`)
	w.update("files", "", `{"uri":"file:///a.txt","x":1.50}`)
	for name, s := range map[string]*sseReader{"a": sa, "b": sb} {
		if got, want := s.next(), updatedNote(`{"uri":"file:///a.txt","x":1.50}`); got != want {
			t.Errorf("%s got %s, want %s", name, got, want)
		}
	}
	w.logs("files", "error", "the end")
	if got, want := sc.next(), logged("error", "the end"); got != want {
		t.Errorf("who did not subscribe got %s", got)
	}
	wantJSON(t, "unsubscribe", ask(a, "unsubscribe", uriA), done)
	wantJSON(t, "unsubscribe again", ask(a, "unsubscribe", uriA), done)
	if n := sub.count("files", uriA); n != 1 {
		t.Errorf("after unsubscribe: %d, want 1", n)
	}
	w.send("DELETE", "/mcp", "", "Mcp-Session-Id", b)
	w.nobody(sub)
}

// What is hidden cannot be subscribed to, and looks like what is not there; what
// a server refuses is told in its words.
func TestSubscribeMistakes(t *testing.T) {
	w, sub := subWorld(t)
	sub.fail = map[string]error{"files": &upstream.Error{Server: "files", Kind: upstream.Protocol, Err: errors.New("offers no updates of resources")}}
	s := w.open("2025-11-25")
	read := w.post(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"hidden://x"}}`, "Mcp-Session-Id", s)
	for _, tt := range []struct{ name, body, session, want string }{
		{"hidden", subscribeBody(1, "subscribe", "hidden://x"), s, read.body},
		{"refused", subscribeBody(1, "subscribe", uriA), s, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"server \"files\" offers no updates of resources"}}`},
		{"no uri", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{}}`, s, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"resources/subscribe lacks uri"}}`},
		{"long", subscribeBody(1, "subscribe", "file:///"+strings.Repeat("x", maxURI)), s, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"uri is longer than 8192 bytes"}}`},
		{"sessionless", subscribeBody(1, "subscribe", uriA), "", `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"resources/subscribe needs a session, initialize first"}}`},
	} {
		wantJSON(t, tt.name, w.post(tt.body, "Mcp-Session-Id", tt.session).body, tt.want)
	}
	sub.fail["files"] = &upstream.Error{Server: "files", Kind: upstream.Unreachable, Err: errors.New("refused")}
	if r := w.post(subscribeBody(1, "subscribe", uriA), "Mcp-Session-Id", s); !strings.Contains(r.body, "MCPS-UNREACHABLE") {
		t.Errorf("unreachable: %s", r.body)
	}
	w.nobody(sub)
	plain := newWorld(t)
	if r := plain.post(subscribeBody(1, "subscribe", uriA), "Mcp-Session-Id", plain.open("2025-11-25")); code(r.body) != -32601 {
		t.Errorf("without a subscriber: %s", r.body)
	}
}

func TestSubscriptionLimit(t *testing.T) {
	w, sub := subWorld(t)
	id := w.send("POST", "/mcp/files", initialize).header.Get("Mcp-Session-Id")
	var last string
	for i := range maxSubscriptions + 1 {
		last = w.send("POST", "/mcp/files", subscribeBody(i, "subscribe", fmt.Sprintf("file:///%d", i)), "Mcp-Session-Id", id).body
	}
	if !strings.Contains(last, "more than 256 resources") {
		t.Errorf("got %s", last)
	}
	w.send("DELETE", "/mcp/files", "", "Mcp-Session-Id", id)
	w.nobody(sub)
}

// A connection that belongs to one session or caller is heard by that one only.
func TestUpdatesOfIsolatedConnections(t *testing.T) {
	for _, tt := range []struct {
		name      string
		isolation func(a, b *session) string
		want      [2]int
	}{
		{"shared", func(a, b *session) string { return "" }, [2]int{1, 1}},
		{"per session", func(a, b *session) string { return b.id }, [2]int{0, 1}},
		{"per caller", func(a, b *session) string { return a.caller.ID }, [2]int{1, 0}},
		{"of another", func(a, b *session) string { return "else" }, [2]int{0, 0}},
	} {
		w, _ := subWorld(t)
		var s [2]*session
		for i, c := range []string{"one", "two"} {
			s[i], _ = w.front.sessions.open(auth.Caller{ID: c}, mustView(w), "2025-11-25", capabilities{})
			if err := w.front.follow(t.Context(), &s[i].watcher, resource{"files", uriA}); err != nil {
				t.Fatal(err)
			}
		}
		from := tt.isolation(s[0], s[1])
		w.update("files", from, `{"uri":"file:///a.txt"}`)
		w.front.Notify("default", upstream.Origin{Server: "files", Isolation: from}, "notifications/message", []byte(`{"level":"error"}`))
		for i := range s {
			if got := [2]int{len(s[i].news.updates), len(s[i].mail.out)}; got != [2]int{tt.want[i], tt.want[i]} {
				t.Errorf("%s: session %d heard %v, want %d of each", tt.name, i, got, tt.want[i])
			}
		}
	}
}

// The server decides for each agent whether an update is for it, by what somebody
// can answer on its behalf.
func TestUpdatesByAgent(t *testing.T) {
	tools := policy.NewAsker("files", policy.Sampling{}, policy.Elicitation{}, policy.Roots{Enabled: new(bool)})
	w, _ := subWorld(t, func(o *Options) { o.Askers = func(string) *policy.Asker { return tools } })
	a := auth.Caller{ID: "a"}
	declares := map[string]policy.Answers{"plain": 0, "form": policy.AnswerForm, "roots": policy.AnswerRoots, "both": policy.AnswerForm | policy.AnswerRoots}
	agents := map[string]*session{}
	for name, can := range declares {
		s, _ := w.front.sessions.open(a, mustView(w), "2025-11-25", capabilities{answers: can})
		if err := w.front.follow(t.Context(), &s.watcher, resource{"files", uriA}); err != nil {
			t.Fatal(err)
		}
		agents[name] = s
	}
	from := upstream.Origin{Server: "files", Isolation: "a", Hears: func(g upstream.Target) bool { return g.Answers != 0 }}
	w.front.Notify("default", from, updatedMethod, []byte(`{"uri":"file:///a.txt"}`))
	for name, s := range agents {
		want := 0
		if name == "form" || name == "both" {
			want = 1
		}
		if n := len(s.news.updates); n != want {
			t.Errorf("%s heard %d updates, want %d", name, n, want)
		}
	}
	var got upstream.Target
	from.Hears = func(g upstream.Target) bool { got = g; return true }
	for name, s := range agents {
		w.front.hears(&s.watcher, from)
		want := upstream.Target{Server: "files", Profile: "default", Session: s.id, Caller: "a", Answers: declares[name] &^ policy.AnswerRoots, Legacy: true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if s.watcher.sess = nil; !w.front.hears(&s.watcher, from) || got.Legacy {
			t.Errorf("a listen of %s is asked about as %+v", name, got)
		}
		s.watcher.sess = s
	}
	from.Isolation = "another"
	if w.front.hears(&agents["both"].watcher, from) {
		t.Error("an agent hears of another caller's connection")
	}
}

// A storm of updates is told in order, each resource once in a while.
func TestStormOfUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, keeper: new(Keeper)}
		w.build("default", "", sources(), 0)
		sub := new(fakeSubscriber)
		w.front = New(Options{Views: w.keeper, Upstreams: w, Subscriber: sub})
		s := newSession("x", auth.Caller{}, mustView(w), "2025-11-25", capabilities{})
		for _, uri := range []string{"file:///1", "file:///2"} {
			if err := w.front.follow(t.Context(), &s.watcher, resource{"files", uri}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-s.wake:
					s.tell(func(b []byte) error { got = append(got, string(b)); return nil })
				case <-stop:
					return
				}
			}
		}()
		for i := range 10000 {
			w.update("files", "", fmt.Sprintf(`{"uri":"file:///1","n":%d}`, i))
			w.update("files", "", `{"uri":"file:///2"}`)
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Second)
		close(stop)
		synctest.Wait()
		if n := len(got); n < 4 || n > 24 {
			t.Fatalf("%d messages for a storm of one second", n)
		}
		want := updatedNote(`{"uri":"file:///1","n":9999}`)
		of := slices.DeleteFunc(got, func(m string) bool { return !strings.Contains(m, "file:///1") })
		if last := of[len(of)-1]; last != want {
			t.Errorf("last of the first: %s, want %s", last, want)
		}
		w.front.ended(s)
		if !sub.empty() {
			t.Error("subscriptions are left")
		}
	})
}

// What a failing reader did not get waits on, in its order.
func TestUntoldUpdates(t *testing.T) {
	w, _ := subWorld(t)
	s := newSession("x", auth.Caller{}, mustView(w), "2025-11-25", capabilities{})
	defer w.front.ended(s)
	for _, n := range []string{"1", "2", "3"} {
		s.updated(update{resource{"files", n}, []byte(n)})
	}
	broken := errors.New("broken")
	told := 0
	if err := s.tell(func([]byte) error {
		if told++; told == 2 {
			s.updated(update{resource{"files", "3"}, []byte("33")})
			return broken
		}
		return nil
	}); err != broken {
		t.Fatalf("got %v", err)
	}
	var got []string
	s.tell(func(b []byte) error { got = append(got, string(b)); return nil })
	if diff := cmp.Diff([]string{updatedNote("2"), updatedNote("33")}, got); diff != "" {
		t.Error(diff)
	}
}

// Updates wait for what is subscribed to only, however often an agent that does not
// listen comes and goes.
func TestUpdatesOfWhatIsNotFollowed(t *testing.T) {
	w, sub := subWorld(t)
	s := newSession("x", auth.Caller{}, mustView(w), "2025-11-25", capabilities{})
	for i := range 1000 {
		r := resource{"files", fmt.Sprintf("file:///%d", i)}
		if err := w.front.follow(t.Context(), &s.watcher, r); err != nil {
			t.Fatal(err)
		}
		w.update("files", "", `{"uri":"`+r.uri+`"}`)
		if n := len(s.news.updates); n != 1 {
			t.Fatalf("%d updates wait, want 1", n)
		}
		w.front.unfollow(&s.watcher, r)
		w.front.subs.tell(&s.watcher, update{resource: r}) // it was on its way
		if n := len(s.news.updates); n != 0 {
			t.Fatalf("%d updates wait after the end of the subscription", n)
		}
	}
	var t1 tidings
	for i := range 2 * maxSubscriptions {
		t1.updates = append(t1.updates, update{resource: resource{"files", fmt.Sprint(i)}})
	}
	if s.untold(t1); len(s.news.updates) != maxSubscriptions {
		t.Errorf("%d updates wait, want %d", len(s.news.updates), maxSubscriptions)
	}
	w.front.ended(s)
	w.nobody(sub)
}

func TestUpdateParams(t *testing.T) {
	f := New(Options{})
	for _, tt := range []struct{ name, in, want, stamped string }{
		{"plain", `{"uri":"u"}`, `{"uri":"u"}`, `{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"},"uri":"u"}`},
		{"unknown members", `{"z":1.0,"uri":"u"}`, `{"z":1.0,"uri":"u"}`, `{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"},"z":1.0,"uri":"u"}`},
		{"of the server's subscription", `{"_meta":{"io.modelcontextprotocol/subscriptionId":3},"uri":"u"}`, `{"uri":"u"}`,
			`{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"},"uri":"u"}`},
		{"other meta", `{"uri":"u","_meta":{"a/b":1,"io.modelcontextprotocol/subscriptionId":3}}`, `{"uri":"u","_meta":{"a/b":1}}`,
			`{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":"7","a/b":1}}`},
		{"odd meta", `{"uri":"u","_meta":7}`, `{"uri":"u"}`, `{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"},"uri":"u"}`},
		{"two", `{"uri":"u","uri":"v"}`, `{"uri":"u"}`, `{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"},"uri":"u"}`},
		{"two ids", `{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":3,"io.modelcontextprotocol/subscriptionId":4}}`, `{"uri":"u"}`,
			`{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"},"uri":"u"}`},
		{"large", `{"uri":"u","x":"` + strings.Repeat("x", maxUpdate) + `"}`, `{"uri":"u"}`, `{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"},"uri":"u"}`},
	} {
		got := f.updateParams("u", []byte(tt.in))
		if string(got) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if s := stamped(got, []byte(`"7"`)); string(s) != tt.stamped || !json.Valid(s) {
			t.Errorf("%s: stamped %s, want %s", tt.name, s, tt.stamped)
		}
	}
}

// The end of an elicitation reaches the session that got it, once.
func TestElicitationComplete(t *testing.T) {
	w := newWorld(t)
	a, b := w.open("2025-11-25"), w.open("2025-11-25")
	sa, sb := w.stream(t, a), w.stream(t, b)
	w.front.sessions.find(a, callerOf(w), mustView(w)).expectsElicitation("files", "e1")
	complete := func(server, params string) {
		w.front.Notify("default", upstream.Origin{Server: server}, completeMethod, []byte(params))
	}
	complete("github", `{"elicitationId":"e1"}`)
	complete("files", `{"elicitationId":"e2"}`)
	complete("files", `{"elicitationId":"e1","x":1}`)
	if got, want := sa.next(), `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1","x":1}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	complete("files", `{"elicitationId":"e1","x":1}`)
	w.logs("files", "error", "the end")
	for name, s := range map[string]*sseReader{"a": sa, "b": sb} {
		if got, want := s.next(), logged("error", "the end"); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	s := w.front.sessions.find(b, callerOf(w), mustView(w))
	for i := range maxElicits + 1 {
		s.expectsElicitation("files", fmt.Sprint(i))
		s.expectsElicitation("files", fmt.Sprint(i))
	}
	if s.elicits.done("files", "0") || !s.elicits.done("files", "1") || len(s.elicits.open) != maxElicits-1 {
		t.Errorf("%d elicitations are awaited", len(s.elicits.open))
	}
}

// hiding is the view of the first server without its resources.
func hiding() []aggregate.Source {
	src := sources()
	src[0].Listing = listing("read-file", "slow")
	return src
}
