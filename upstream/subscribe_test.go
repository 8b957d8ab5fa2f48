package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A diary is what a server was asked, and what the Set heard of it.
type diary struct {
	mu    sync.Mutex
	asked []string
	heard []string
}

func (d *diary) ask(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, s)
}

func (d *diary) notify(_ Origin, method string, params []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = append(d.heard, method+" "+string(params))
}

// take returns what was asked since, in order.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.asked
	d.asked = nil
	return out
}

func (d *diary) has(line string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.heard, line)
}

// all is what was heard so far.
func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.heard)
}

func uriOf(m *wire.Message) string {
	raw, _ := wire.Get(m.Params, "uri")
	uri, _ := wire.Unquote(raw)
	return uri
}

const subscribeCaps = `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`

// subscriber is a legacy server that notes what it is to tell of. It does not
// know "bad", and never answers for "slow".
func subscriber(d *diary) *script {
	return &script{caps: subscribeCaps, answer: func(_ *script, m *wire.Message) (string, string) {
		switch m.Method {
		case "resources/subscribe", "resources/unsubscribe":
			d.ask(strings.TrimPrefix(m.Method, "resources/") + " " + uriOf(m))
			switch uriOf(m) {
			case "bad":
				return "", "no such\nresource"
			case "slow":
				return "", "never"
			}
			return "{}", ""
		case "resources/list":
			return `{"resources":[]}`, ""
		case "resources/templates/list":
			return `{"resourceTemplates":[]}`, ""
		}
		return "", ""
	}}
}

func wantAsked(t *testing.T, what string, d *diary, want ...string) {
	t.Helper()
	synctest.Wait()
	got := d.take()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: asked (-want +got)\n%s", what, diff)
	}
}

// One request for all who want to hear, one when the last is gone, and again all
// of them with a new connection.
func TestSubscribeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := subscriber(&d)
		w := newSetWorld(t, map[string]*script{"a": s, "b": {}}, Options{OnNotify: d.notify}, nil)
		defer w.stop()
		time.Sleep(time.Second)
		subscribe := func(uri string) {
			t.Helper()
			if err := w.Subscribe(t.Context(), "a", uri); err != nil {
				t.Fatalf("%s: %v", uri, err)
			}
		}
		subscribe("u")
		subscribe("u")
		subscribe("v")
		wantAsked(t, "two URIs", &d, "subscribe u", "subscribe v")
		w.Unsubscribe("a", "u")
		w.Unsubscribe("a", "unknown")
		w.Unsubscribe("nobody", "u")
		wantAsked(t, "one of two is gone", &d)
		w.Unsubscribe("a", "u")
		wantAsked(t, "all are gone", &d, "unsubscribe u")
		subscribe("x")
		s.send([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x"}}`))
		synctest.Wait()
		if !d.has(`notifications/resources/updated {"uri":"x"}`) {
			t.Errorf("heard %q", d.all())
		}
		d.take()
		s.close()
		time.Sleep(5 * time.Second)
		wantAsked(t, "a new connection", &d, "subscribe v", "subscribe x")

		broken := errors.New("broken")
		s.fail.Store(&broken)
		s.close()
		time.Sleep(time.Second)
		subscribe("while down")
		w.Unsubscribe("a", "v")
		s.fail.Store(nil)
		time.Sleep(2 * time.Minute)
		wantAsked(t, "after it was down", &d, "subscribe while down", "subscribe x")
	})
}

func TestSubscribeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		never := errors.New("never")
		down := &script{}
		down.fail.Store(&never)
		w := newSetWorld(t, map[string]*script{"a": subscriber(&d), "b": {}, "c": down}, Options{}, nil)
		defer w.stop()
		time.Sleep(time.Second)
		for _, tt := range []struct {
			server, uri string
			kind        Kind
			text        string
		}{
			{"a", "bad", Protocol, "refused to tell of it: no such resource"},
			{"a", "slow", Timeout, "no answer within 10s"},
			{"b", "u", Protocol, "lacks the capability resources.subscribe"},
			{"c", "u", Unreachable, "was never connected"},
			{"d", "u", Config, "no such server"},
		} {
			err := w.Subscribe(t.Context(), tt.server, tt.uri)
			if KindOf(err) != tt.kind || !strings.Contains(fmt.Sprint(err), tt.text) {
				t.Errorf("%s %s: %v (kind %d)", tt.server, tt.uri, err, KindOf(err))
			}
		}
		wantAsked(t, "refused", &d, "subscribe bad", "subscribe slow")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Subscribe(ctx, "a", "slow"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that gives up: %v", err)
		}
		if n := len(w.byName["a"].subs.wants); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

func TestSubscribeLimit(t *testing.T) {
	var s subscriptions
	for i := range maxSubscribed {
		if _, _, err := s.add(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.add("one more"); err == nil || !strings.Contains(err.Error(), "more than 1000") {
		t.Errorf("got %v", err)
	}
	if _, _, err := s.add("7"); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	s.release("8", nil)
	if _, _, err := s.add("one more"); err != nil {
		t.Errorf("after one is gone: %v", err)
	}
}

// A session that the server lost and that was opened again knows of nothing.
func TestSubscribeAgainInNewSession(t *testing.T) {
	leaks(t)
	f := newFake(t, &fakeHTTP{legacy: true})
	var d diary
	f.any = func(w httpWriter, r *httpRequest, m rpc) bool {
		switch {
		case m.Method == "initialize":
			f.mu.Lock()
			id := fmt.Sprintf("s%d", len(f.sessions))
			f.sessions[id] = true
			f.mu.Unlock()
			w.Header().Set(hdrSession, id)
			result(w, m, `{"protocolVersion":"2025-06-18","capabilities":`+subscribeCaps+`,"serverInfo":{"name":"fake","version":"1"}}`)
			return true
		case m.Method == "resources/subscribe" && f.known(r.Header.Get(hdrSession)):
			d.ask(r.Header.Get(hdrSession) + m.Method)
		}
		return false
	}
	w := newURLSet(t, f.URL, Options{})
	if err := w.Subscribe(t.Context(), "fake", "u"); err != nil {
		t.Fatal(err)
	}
	f.forget()
	call := toolCall("alive")
	call.Safe = true
	if _, err := w.Do(t.Context(), Target{Server: "fake"}, call); err != nil {
		t.Fatal(err)
	}
	var got []string
	eventually(t, "subscribed in both sessions", func() bool {
		got = append(got, d.take()...)
		return slices.Equal(got, []string{"s0resources/subscribe", "s1resources/subscribe"})
	})
}
