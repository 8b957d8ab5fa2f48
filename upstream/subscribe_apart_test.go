package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A sessionFake is a legacy server over HTTP that can tell each session apart.
type sessionFake struct {
	*fakeHTTP
	diary
	stands map[string]chan string // standing streams by session; guarded by diary.mu
}

func newSessionFake(t *testing.T) *sessionFake {
	f := &sessionFake{fakeHTTP: &fakeHTTP{legacy: true}, stands: map[string]chan string{}}
	f.any, f.get = f.serve, f.stand
	f.call = func(w httpWriter, _ *httpRequest, m rpc) { result(w, m, `{"content":[]}`) }
	newFake(t, f.fakeHTTP)
	t.Cleanup(f.CloseClientConnections)
	return f
}

func (f *sessionFake) serve(w httpWriter, r *httpRequest, m rpc) bool {
	id := r.Header.Get(hdrSession)
	switch {
	case m.Method == "initialize":
		f.fakeHTTP.mu.Lock()
		id = fmt.Sprintf("s%d", len(f.sessions))
		f.sessions[id] = true
		f.fakeHTTP.mu.Unlock()
		w.Header().Set(hdrSession, id)
		result(w, m, `{"protocolVersion":"2025-06-18","capabilities":`+subscribeCaps+`,"serverInfo":{"name":"fake","version":"1"}}`)
	case (m.Method == "resources/subscribe" || m.Method == "resources/unsubscribe") && f.known(id):
		f.ask(id + strings.TrimPrefix(m.Method, "resources/"))
		result(w, m, `{}`)
	default:
		return false
	}
	return true
}

func (f *sessionFake) stand(w httpWriter, r *httpRequest) {
	id := r.Header.Get(hdrSession)
	if !f.known(id) {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	say := make(chan string, 8)
	f.diary.mu.Lock()
	f.stands[id] = say
	f.diary.mu.Unlock()
	send := events(w, rpc{})
	send(": here\n\n")
	for {
		select {
		case msg, ok := <-say:
			if !ok {
				return
			}
			send("data: " + msg + "\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

// stream is the standing stream of a session; nil while there is none.
func (f *sessionFake) stream(id string) chan string {
	f.diary.mu.Lock()
	defer f.diary.mu.Unlock()
	return f.stands[id]
}

// update has sessions say, one after the other, that x changed.
func (f *sessionFake) update(t *testing.T, h *hall, ids ...string) (who []string) {
	t.Helper()
	for _, id := range ids {
		f.stream(id) <- updateOfX
		eventually(t, "the update of "+id, func() bool {
			got := h.take()
			who = append(who, got...)
			return len(got) > 0
		})
	}
	return who
}

// asked waits for what the sessions are asked to tell of, in any order.
func (f *sessionFake) wants(t *testing.T, what string, want ...string) {
	t.Helper()
	var got []string
	eventually(t, what, func() bool {
		got = append(got, f.take()...)
		return len(got) >= len(want)
	})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// standing waits until the server is heard in every session of ids.
func (f *sessionFake) standing(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		eventually(t, "the standing stream of "+id, func() bool { return f.stream(id) != nil })
	}
}

// mirrorsStand waits until the connections beside the shared one are heard.
func mirrorsStand(t *testing.T, set *Set, n int) {
	t.Helper()
	eventually(t, "those are heard that are subscribed", func() bool {
		return len(set.byName["fake"].subs.heardApart("x")) == n
	})
}

func callOf(t *testing.T, set *Set, agent Target) {
	t.Helper()
	agent.Server = "fake"
	c := toolCall("alive")
	c.Safe = true
	if _, err := set.Do(t.Context(), agent, c); err != nil {
		t.Fatal(err)
	}
}

// Over HTTP a session of its own is subscribed too, again when it was lost. Nobody
// is told twice, and the shared session tells again when the own one is not heard.
func TestSubscribeInOwnSession(t *testing.T) {
	leaks(t)
	f, who := newSessionFake(t), twoCallers()
	set := newURLSet(t, f.URL, Options{OnNotify: who.notify})
	if err := set.Subscribe(t.Context(), "fake", "x"); err != nil {
		t.Fatal(err)
	}
	callOf(t, set, who.agents["Af"])
	f.wants(t, "both", "s0subscribe", "s1subscribe")
	mirrorsStand(t, set, 1)
	f.standing(t, "s0")
	const none, some, rest = "A Af Am Amf B Bf", "Af Amf", "A Am B Bf"
	if diff := cmp.Diff([]string{rest, some}, f.update(t, who, "s0", "s1")); diff != "" {
		t.Errorf("both tell (-want +got)\n%s", diff)
	}

	close(f.stream("s1"))
	mirrorsStand(t, set, 0)
	if diff := cmp.Diff([]string{none}, f.update(t, who, "s0")); diff != "" {
		t.Errorf("the own stream is cut (-want +got)\n%s", diff)
	}

	f.forget()
	callOf(t, set, who.agents["A"])
	callOf(t, set, who.agents["Af"])
	f.wants(t, "both again", "s2subscribe", "s3subscribe")
	mirrorsStand(t, set, 1)
	f.standing(t, "s2", "s3")
	if diff := cmp.Diff([]string{rest, some}, f.update(t, who, "s2", "s3")); diff != "" {
		t.Errorf("after both sessions were lost (-want +got)\n%s", diff)
	}
	set.Unsubscribe("fake", "x")
	f.wants(t, "neither", "s2unsubscribe", "s3unsubscribe")
}

// With isolation the shared session tells again when an own one is over.
func TestSubscribeInIsolatedSession(t *testing.T) {
	leaks(t)
	f, who := newSessionFake(t), twoCallers()
	set := newOneSet(t, &Settings{URL: f.URL, Isolation: "per_session"}, Options{OnNotify: who.notify})
	callOf(t, set, who.agents["Bf"])
	if err := set.Subscribe(t.Context(), "fake", "x"); err != nil {
		t.Fatal(err)
	}
	f.wants(t, "both, before the agent knows", "s0subscribe", "s1subscribe")
	mirrorsStand(t, set, 1)
	f.standing(t, "s0")
	if diff := cmp.Diff([]string{"A Af Am Amf B", "Bf"}, f.update(t, who, "s0", "s1")); diff != "" {
		t.Errorf("both tell (-want +got)\n%s", diff)
	}
	set.EndSession("bf")
	mirrorsStand(t, set, 0)
	if diff := cmp.Diff([]string{"A Af Am Amf B Bf"}, f.update(t, who, "s0")); diff != "" {
		t.Errorf("the session is over (-want +got)\n%s", diff)
	}
}

// The connection that only reads the lists is not subscribed, nor one without a
// session: they have no calls, or nothing of their own.
func TestNotSubscribedApart(t *testing.T) {
	leaks(t)
	f := newSessionFake(t)
	srv := newURLSet(t, f.URL, Options{}).byName["fake"]
	c := srv.plain.current().conn
	own := route{profile: "default", caller: "A", mode: Asking}
	if newOwner(srv, askRoute).follower(c) != nil {
		t.Error("the reader of lists has a follower")
	}
	if newOwner(srv, own).follower(c) == nil {
		t.Fatal("a caller's connection has none")
	}
	h := c.(*httpConn)
	h.session.Store(h.newSession(Legacy, "2025-06-18", ""))
	if newOwner(srv, own).follower(c) != nil {
		t.Error("a connection without a session has a follower")
	}
}

// A troupe is a modern server over lines with a process for each connection.
type troupe struct {
	mu    sync.Mutex
	procs []*member
	deaf  string // what processes beside the first do not grant
}

type member struct {
	diary
	lastListen
}

func (tr *troupe) serve(ctx context.Context, rw io.ReadWriteCloser) error {
	tr.mu.Lock()
	m, first := new(member), len(tr.procs) == 0
	tr.procs = append(tr.procs, m)
	deaf := tr.deaf
	tr.mu.Unlock()
	return scripted(func(r request, say func(string, ...any)) error {
		m.note(r, say)
		switch r.Method {
		case "server/discover":
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, listenHello)
		case listenMethod:
			var p struct{ Notifications json.RawMessage }
			json.Unmarshal(r.Params, &p)
			m.ask("open " + string(p.Notifications))
			grants := string(p.Notifications)
			if !first && deaf != "" {
				grants = strings.ReplaceAll(grants, `"`+deaf+`"`, `"else"`)
			}
			say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}}`, r.ID, grants)
		case "tools/call":
			m.ask("call")
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, r.ID)
		case "tools/list":
			m.ask("list")
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, r.ID)
		default:
			if r.ID != nil {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, r.ID)
			}
		}
		return nil
	})(ctx, rw)
}

func (tr *troupe) proc(n int) *member {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.procs[n]
}

const toldOnListen = `{"jsonrpc":"2.0","method":"notifications/%s","params":{%s"_meta":{"io.modelcontextprotocol/subscriptionId":%%s}}}`

func (tr *troupe) update(procs ...int) {
	for _, n := range procs {
		tr.proc(n).say(fmt.Sprintf(toldOnListen, "resources/updated", `"uri":"x",`))
		synctest.Wait()
	}
}

func troupeSet(t *testing.T, tr *troupe, opt Options) (set *Set, stop func()) {
	opt.Builtins = map[string]Builtin{"fake": tr.serve}
	set, err := NewSet([]Server{{Name: "fake", Settings: &Settings{Builtin: "fake", Isolation: "per_session"}}}, opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	time.Sleep(time.Second)
	return set, func() { cancel(); <-done }
}

// An isolated process of a modern server has a stream of its own, which is there
// before the first call and holds what is subscribed to later.
func TestListenInIsolatedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, who := new(troupe), twoCallers()
		var lists []string
		set, stop := troupeSet(t, tr, Options{OnNotify: func(from Origin, method string, params []byte) {
			if who.notify(from, method, params); method != updateMethod {
				lists = append(lists, from.Isolation+" "+method)
			}
		}})
		defer stop()
		subscribe := func(uri string) {
			t.Helper()
			if err := set.Subscribe(t.Context(), "fake", uri); err != nil {
				t.Fatal(err)
			}
		}
		subscribe("x")
		callOf(t, set, who.agents["Af"])
		wantInOrder(t, "the process of an agent", &tr.proc(1).diary, "open "+withURIs(`"x"`), "call")
		tr.update(0, 1)
		who.want(t, "both tell", "A Am Amf B Bf", "Af")

		subscribe("y")
		wantInOrder(t, "later, when Subscribe returns", &tr.proc(1).diary, "open "+withURIs(`"x","y"`))
		tr.update(0, 1)
		who.want(t, "the next stream", "A Am Amf B Bf", "Af")

		time.Sleep(time.Second)
		tr.proc(0).take()
		tr.proc(1).say(fmt.Sprintf(toldOnListen, "tools/list_changed", ""))
		time.Sleep(relistMost)
		wantInOrder(t, "the shared lists", &tr.proc(0).diary, "list")
		if diff := cmp.Diff([]string{"af notifications/tools/list_changed"}, lists); diff != "" {
			t.Errorf("lists (-want +got)\n%s", diff)
		}

		set.EndSession("af")
		time.Sleep(time.Second)
		tr.update(0)
		who.want(t, "its session is over", "A Af Am Amf B Bf")
	})
}

// What an isolated process does not grant is nobody's refusal: the shared one tells.
func TestListenNotGrantedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, who := &troupe{deaf: "x"}, twoCallers()
		set, stop := troupeSet(t, tr, Options{OnNotify: who.notify})
		defer stop()
		callOf(t, set, who.agents["Af"])
		for range 2 {
			start := time.Now()
			if err := set.Subscribe(t.Context(), "fake", "x"); err != nil || time.Since(start) > time.Second {
				t.Fatalf("after %v: %v", time.Since(start), err)
			}
		}
		tr.update(0)
		who.want(t, "not granted", "A Af Am Amf B Bf")
	})
}

// A subscription that is answered after its session was lost counts for nothing.
func TestSubscribedInLostSession(t *testing.T) {
	a := newAsked(nil, nil)
	w := a.begin("x")
	a.forget()
	a.end("x", w, true)
	if asked, agreed := a.tells("x"); asked || agreed {
		t.Errorf("asked %v, agreed %v", asked, agreed)
	}
	a.end("x", a.begin("x"), true)
	if _, agreed := a.tells("x"); !agreed {
		t.Error("the new session's word is lost")
	}
	if a.begin("x") != nil {
		t.Error("it is asked for twice")
	}
}
