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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type (
	httpWriter  = http.ResponseWriter
	httpRequest = http.Request
)

// newURLSet runs a Set with one server, "fake", at a URL.
func newURLSet(t *testing.T, url string, opt Options) *Set {
	t.Helper()
	return newOneSet(t, &Settings{URL: url}, opt)
}

func newOneSet(t *testing.T, settings *Settings, opt Options) *Set {
	t.Helper()
	set, err := NewSet([]Server{{Name: "fake", Settings: settings}}, opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	set.AwaitFirst(t.Context(), 10*time.Second, "fake")
	if st, _ := set.Status("fake"); st.Err != nil {
		t.Fatal(st.Err)
	}
	return set
}

const (
	listenCaps  = `{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":true,"subscribe":true}}`
	listenHello = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + listenCaps + `}`
)

// A listenFake is a modern server over HTTP that keeps streams open.
type listenFake struct {
	*fakeHTTP
	diary
	lists atomic.Int64
	never atomic.Bool // it has no subscriptions/listen
	bad   string      // a URI that it refuses a whole listen for

	open map[string]chan string // streams by request id; guarded by diary.mu
}

// filterOf is what a listen asks for.
func filterOf(body []byte) (raw string, uris []string) {
	var m struct {
		Params struct{ Notifications json.RawMessage }
	}
	json.Unmarshal(body, &m)
	var n struct{ ResourceSubscriptions []string }
	json.Unmarshal(m.Params.Notifications, &n)
	return string(m.Params.Notifications), n.ResourceSubscriptions
}

func newListenFake(t *testing.T) *listenFake {
	f := &listenFake{fakeHTTP: &fakeHTTP{modern: true}, open: map[string]chan string{}}
	f.any = f.serve
	newFake(t, f.fakeHTTP)
	t.Cleanup(f.CloseClientConnections) // a stream would hold Close up
	return f
}

func (f *listenFake) serve(w httpWriter, r *httpRequest, m rpc) bool {
	switch m.Method {
	case "server/discover":
		result(w, m, listenHello)
	case "tools/list":
		f.lists.Add(1)
		result(w, m, `{"resultType":"complete","tools":[]}`)
	case listenMethod:
		f.stream(w, r, m)
	default:
		return false
	}
	return true
}

func (f *listenFake) stream(w httpWriter, r *httpRequest, m rpc) {
	filter, uris := filterOf([]byte(m.Body))
	f.ask("open " + filter)
	switch {
	case f.never.Load():
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		return
	case f.bad != "" && slices.Contains(uris, f.bad):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such resource"}}`, m.ID)
		return
	}
	say := make(chan string, 100)
	f.diary.mu.Lock()
	f.open[string(m.ID)] = say
	f.diary.mu.Unlock()
	defer f.ask("close " + filter)
	send := events(w, m)
	send(": hello\n\n")
	send(`data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":` + honoured(filter) + "}}\n\n")
	for {
		select {
		case msg, ok := <-say:
			if !ok {
				return
			}
			send(msg)
		case <-r.Context().Done():
			return
		}
	}
}

// honoured leaves "ignored" out.
func honoured(filter string) string { return strings.ReplaceAll(filter, `"ignored"`, `"else"`) }

// push says something on every open stream.
func (f *listenFake) push(text string) {
	f.diary.mu.Lock()
	defer f.diary.mu.Unlock()
	for _, c := range f.open {
		c <- "data: " + text + "\n\n"
	}
}

// cut ends every open stream.
func (f *listenFake) cut() {
	f.diary.mu.Lock()
	defer f.diary.mu.Unlock()
	for id, c := range f.open {
		close(c)
		delete(f.open, id)
	}
}

// wait waits until the fake was asked for so many things, in this order.
func (f *listenFake) wait(t *testing.T, what string, want ...string) {
	t.Helper()
	var got []string
	defer func() {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}()
	for end := time.Now().Add(5 * time.Second); len(got) < len(want) && time.Now().Before(end); time.Sleep(time.Millisecond) {
		got = append(got, f.take()...)
	}
}

const lists = `"toolsListChanged":true,"resourcesListChanged":true`

func withURIs(quoted string) string {
	return `{` + lists + `,"resourceSubscriptions":[` + quoted + `]}`
}

// One stream carries all; when what is wanted changes, the next one is there
// before the last one ends.
func TestListenStream(t *testing.T) {
	leaks(t)
	f := newListenFake(t)
	var d diary
	set := newURLSet(t, f.URL, Options{OnNotify: d.notify})
	f.wait(t, "first", "open {"+lists+"}")
	filters := []string{"{" + lists + "}", withURIs(`"b"`), withURIs(`"a","b"`)}
	for i, uri := range []string{"b", "a"} {
		if err := set.Subscribe(t.Context(), "fake", uri); err != nil {
			t.Fatal(err)
		}
		f.wait(t, "subscribed", "open "+filters[i+1], "close "+filters[i])
	}
	err := set.Subscribe(t.Context(), "fake", "ignored")
	if KindOf(err) != Protocol || !strings.Contains(err.Error(), "offers no updates of this resource") {
		t.Errorf("what the server does not grant: %v", err)
	}
	f.wait(t, "not granted", "open "+withURIs(`"a","b","ignored"`), "close "+withURIs(`"a","b"`))

	before := f.lists.Load()
	f.push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x"}}`) // not asked for
	f.push(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)                   // nor this
	f.push(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}`)
	f.push(`junk`)
	f.push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a"}}`)
	f.push(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	eventually(t, "the lists are read again", func() bool { return f.lists.Load() > before })
	if diff := cmp.Diff([]string{`notifications/resources/updated {"uri":"a"}`, "notifications/tools/list_changed "}, d.all()); diff != "" {
		t.Errorf("heard (-want +got)\n%s", diff)
	}
	set.Unsubscribe("fake", "b")
	f.wait(t, "unsubscribed", "open "+withURIs(`"a"`), "close "+withURIs(`"a","b","ignored"`))
	if n := len(set.byName["fake"].slots); n != 0 {
		t.Errorf("%d slots of max_concurrency are taken", n)
	}
}

// A stream that is cut comes back, and the lists are read again.
func TestListenReopens(t *testing.T) {
	leaks(t)
	f := newListenFake(t)
	set := newURLSet(t, f.URL, Options{})
	f.wait(t, "first", "open {"+lists+"}")
	if err := set.Subscribe(t.Context(), "fake", "a"); err != nil {
		t.Fatal(err)
	}
	f.wait(t, "subscribed", "open "+withURIs(`"a"`), "close {"+lists+"}")
	before := f.lists.Load()
	f.cut()
	f.wait(t, "cut", "close "+withURIs(`"a"`), "open "+withURIs(`"a"`))
	eventually(t, "the lists are read again", func() bool { return f.lists.Load() > before })
}

// One bad URI does not cost the others their stream.
func TestListenRefused(t *testing.T) {
	leaks(t)
	f := newListenFake(t)
	f.bad = "bad"
	var d diary
	set := newURLSet(t, f.URL, Options{OnNotify: d.notify})
	if err := set.Subscribe(t.Context(), "fake", "a"); err != nil {
		t.Fatal(err)
	}
	if err := set.Subscribe(t.Context(), "fake", "bad"); KindOf(err) != Protocol || !strings.Contains(err.Error(), "no such resource") {
		t.Errorf("got %v", err)
	}
	f.push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a"}}`)
	eventually(t, "the other is told", func() bool { return d.has(`notifications/resources/updated {"uri":"a"}`) })
}

// A server without such streams is asked once.
func TestListenNever(t *testing.T) {
	leaks(t)
	f := newListenFake(t)
	f.never.Store(true)
	set := newURLSet(t, f.URL, Options{})
	f.wait(t, "first", "open {"+lists+"}")
	if err := set.Subscribe(t.Context(), "fake", "a"); KindOf(err) != Protocol {
		t.Errorf("got %v", err)
	}
	if got := f.take(); len(got) != 0 {
		t.Errorf("asked again: %q", got)
	}
}

// modernLines plays a modern server over lines that notes listens and their ends.
// Its acknowledgements stay away while mute.
func modernLines(d *diary, mute *atomic.Bool, hook func(m request, say func(string, ...any))) Builtin {
	return scripted(func(m request, say func(string, ...any)) error {
		switch m.Method {
		case "server/discover":
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, listenHello)
		case "tools/list":
			d.ask("list")
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, m.ID)
		case listenMethod:
			var p struct{ Notifications json.RawMessage }
			json.Unmarshal(m.Params, &p)
			d.ask("open " + string(p.Notifications))
			if mute == nil || !mute.Load() {
				say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}}`, m.ID, p.Notifications)
			}
		case "notifications/cancelled":
			d.ask("cancel")
		case "resources/list", "resources/templates/list", "prompts/list":
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		}
		if hook != nil {
			hook(m, say)
		}
		return nil
	})
}

// lineSet is newOneSet for use inside a bubble.
func lineSet(t *testing.T, b Builtin, opt Options) (set *Set, stop func()) {
	opt.Builtins = map[string]Builtin{"fake": b}
	set, err := NewSet([]Server{{Name: "fake", Settings: &Settings{Builtin: "fake"}}}, opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	return set, func() { cancel(); <-done }
}

// A lastListen lets a test answer the newest listen.
type lastListen struct {
	mu   sync.Mutex
	id   json.RawMessage
	send func(string, ...any)
}

func (l *lastListen) note(m request, say func(string, ...any)) {
	if m.Method == listenMethod {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.id, l.send = m.ID, say
	}
}

// say says a message with %s as the listen's id.
func (l *lastListen) say(format string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send(format, l.id)
}

func wantInOrder(t *testing.T, what string, d *diary, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, d.take()); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// Over lines one stream ends before the next begins, and the ends of servers are
// taken in either form.
func TestListenOverLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d, heard diary
		var last lastListen
		set, stop := lineSet(t, modernLines(&d, nil, last.note), Options{OnNotify: heard.notify})
		defer stop()
		time.Sleep(time.Second)
		wantInOrder(t, "first", &d, "list", "open {"+lists+"}")
		if err := set.Subscribe(t.Context(), "fake", "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		wantInOrder(t, "subscribed", &d, "cancel", "open "+withURIs(`"a"`))
		last.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a","_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`)
		last.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"b","_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`)
		synctest.Wait()
		if got := heard.all(); len(got) != 1 || !strings.Contains(got[0], `"uri":"a"`) {
			t.Errorf("heard %q", got)
		}
		time.Sleep(time.Second)
		wantInOrder(t, "the lists after the gap", &d, "list")
		last.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`)
		time.Sleep(4 * time.Second)
		wantInOrder(t, "the server cancelled", &d, "open "+withURIs(`"a"`), "list")
		last.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`)
		time.Sleep(5 * time.Second)
		wantInOrder(t, "the server ended", &d, "open "+withURIs(`"a"`), "list")
		for range 10 { // a server that always ends them is asked less and less
			last.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`)
			time.Sleep(70 * time.Second)
		}
		d.take()
		set.Unsubscribe("fake", "a")
		time.Sleep(time.Second)
		if got := d.take(); !slices.Contains(got, "open {"+lists+"}") {
			t.Errorf("unsubscribed: %q", got)
		}
	})
}

// Many agents that come and go make few streams.
func TestListenStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		set, stop := lineSet(t, modernLines(&d, nil, nil), Options{})
		defer stop()
		time.Sleep(time.Second)
		d.take()
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 200 {
			wg.Go(func() {
				uri := fmt.Sprint(i)
				if err := set.Subscribe(t.Context(), "fake", uri); err != nil {
					t.Errorf("%s: %v", uri, err)
				}
				set.Unsubscribe("fake", uri)
			})
		}
		wg.Wait()
		time.Sleep(10 * time.Second)
		opens := 0
		for _, s := range d.take() {
			if strings.HasPrefix(s, "open") {
				opens++
			}
		}
		if opens == 0 || opens > 8 {
			t.Errorf("%d streams for a storm of %v", opens, time.Since(start))
		}
	})
}

// A server that never acknowledges holds up nobody for long.
func TestListenWithoutAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		var mute atomic.Bool
		mute.Store(true)
		set, stop := lineSet(t, modernLines(&d, &mute, nil), Options{})
		defer stop()
		time.Sleep(10 * time.Second)
		start := time.Now()
		if err := set.Subscribe(t.Context(), "fake", "a"); err != nil || time.Since(start) > ackWait+time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// TestListenSDK is a server of the SDK over lines, which forgets what a connection
// listens to with each stream that ends.
func TestListenSDK(t *testing.T) {
	leaks(t)
	yes := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	no := func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{SubscribeHandler: yes, UnsubscribeHandler: no})
	nothing := func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{}, nil
	}
	for _, uri := range []string{"x://a", "x://b"} {
		server.AddResource(&mcp.Resource{URI: uri, Name: uri}, nothing)
	}
	b := func(ctx context.Context, rw io.ReadWriteCloser) error {
		return server.Run(ctx, &mcp.IOTransport{Reader: rw, Writer: rw})
	}
	var d diary
	opt := Options{OnNotify: d.notify, Builtins: map[string]Builtin{"fake": b}}
	set := newOneSet(t, &Settings{Builtin: "fake"}, opt)
	if era := set.byName["fake"].known().Era; era != Modern {
		t.Fatalf("the server speaks era %v, want the modern one", era)
	}
	for _, uri := range []string{"x://a", "x://b"} {
		if err := set.Subscribe(t.Context(), "fake", uri); err != nil {
			t.Fatal(err)
		}
	}
	set.Unsubscribe("fake", "x://a")
	for i, uri := range []string{"x://b", "x://b"} {
		eventually(t, "update of "+uri, func() bool {
			server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
			return strings.Count(strings.Join(d.all(), "\n"), `"uri":"x://b"`) > i
		})
	}
	before := set.Listing("fake")
	server.AddResource(&mcp.Resource{URI: "x://c", Name: "c"}, nothing)
	eventually(t, "the new resource is listed", func() bool { return set.Listing("fake") != before })
}
