package upstream

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// askedNewer are agents of the newer era that can be asked.
var askedNewer = Viewer{Answers: true}

// Servers that show some tools only to clients that can be asked are listed
// once more, once such an agent has come: server-everything is one.
func TestAskingListing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{plain: []string{"p"}, asking: []string{"q"}}
		st := newStage(t, c, nil)
		defer st.stop()
		list := func() string {
			if l := st.AskingListing("a", askedNewer); l != nil {
				return fmt.Sprintf("%s", l.Tools)
			}
			return "none"
		}
		st.AwaitAsking(t.Context(), time.Hour, askedNewer, "a", "nobody") // nothing is read: no wait
		changes := st.changes.Load()
		for range 3 {
			st.Expect("default", askedNewer)
		}
		st.AwaitAsking(t.Context(), time.Minute, askedNewer, "a")
		synctest.Wait()
		if got, want := list(), `[{"name":"p"} {"name":"q"}]`; got != want || st.changes.Load() != changes+1 {
			t.Errorf("got %s and %d changes, want %s and one", got, st.changes.Load()-changes, want)
		}
		if l := st.Listing("a"); len(l.Tools) != 1 {
			t.Errorf("the shared listing has %s", l.Tools)
		}

		c.mu.Lock()
		c.asking = []string{"q", "r"}
		c.mu.Unlock()
		c.all()[1].send(wire.AppendNotification(nil, "notifications/tools/list_changed", nil))
		time.Sleep(time.Second)
		if got, want := list(), `[{"name":"p"} {"name":"q"} {"name":"r"}]`; got != want {
			t.Errorf("after it changed: %s, want %s", got, want)
		}
		if a, p := c.all()[1].lists.Load(), c.all()[0].lists.Load(); a != 2 || p != 2 {
			t.Errorf("%d and %d lists, want 2 each", a, p)
		}

		time.Sleep(2 * idleEnd) // the process ends, the listing stays
		wantAlive(t, c, 0)
		c.mu.Lock()
		c.plain = []string{"p", "p2"}
		c.asking = nil
		c.mu.Unlock()
		c.all()[0].send(wire.AppendNotification(nil, "notifications/tools/list_changed", nil))
		time.Sleep(time.Second)
		if got := list(); got != "none" || len(st.Listing("a").Tools) != 2 {
			t.Errorf("once they are the same: %s", got)
		}
		c.all()[0].close() // the next connection may be another version
		time.Sleep(3 * time.Second)
		if n := len(c.all()); n != 4 {
			t.Errorf("%d processes in all, want 4: the one that asks is still there", n)
		}
		if a := c.all()[2].lists.Load(); a != 2 {
			t.Errorf("%d lists of the asking process, want 2", a)
		}
	})
}

// What is not there, fails or hangs holds no list up.
func TestAskingListingFails(t *testing.T) {
	for _, tc := range []struct {
		name string
		cast *cast
		edit func(*Settings)
		want int // processes
	}{
		{name: "modern", cast: &cast{modern: true}, want: 1},
		{name: "one process", edit: func(s *Settings) { s.MaxProcesses = 1 }, want: 1},
		{name: "may ask nothing", want: 1, edit: func(s *Settings) {
			off := false
			s.Roots.Enabled, s.Sampling.Enabled, s.Elicitation.Enabled = &off, &off, &off
		}},
		{name: "kept apart", edit: func(s *Settings) { s.Isolation, s.MaxProcesses = "per_caller", 1 }, want: 2},
		{name: "the same", want: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				if tc.cast == nil {
					tc.cast = new(cast)
				}
				st := newStage(t, tc.cast, tc.edit)
				defer st.stop()
				began := time.Now()
				st.Expect("default", askedNewer)
				st.AwaitAsking(t.Context(), time.Minute, askedNewer, "a")
				if time.Since(began) > time.Second || st.AskingListing("a", askedNewer) != nil || len(tc.cast.all()) != tc.want {
					t.Errorf("%v, listing %v, %d processes", time.Since(began), st.AskingListing("a", askedNewer), len(tc.cast.all()))
				}
			})
		})
	}
	t.Run("no process", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			c := &cast{plain: []string{"p"}, asking: []string{"q"}}
			st := newStage(t, c, nil)
			defer st.stop()
			c.mu.Lock()
			c.refuse = errors.New("no more")
			c.mu.Unlock()
			st.Expect("default", askedNewer)
			st.AwaitAsking(t.Context(), time.Minute, askedNewer, "a")
			if st.AskingListing("a", askedNewer) != nil {
				t.Error("there is a listing")
			}
			st.want("a", Ready)
			c.mu.Lock()
			c.refuse = nil
			c.mu.Unlock()
			st.begin("s", "quick").in(t)
			synctest.Wait()
			if st.AskingListing("a", askedNewer) == nil {
				t.Error("the next connection did not read them")
			}
		})
	})
}

// An endpoint answers in place of every agent, so there is no need to wait for one.
func TestEndpointExpects(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{plain: []string{"p"}, asking: []string{"q"}}
		st := newStage(t, c, func(s *Settings) { s.Sampling.Endpoint.URL = "http://127.0.0.1:1" })
		defer st.stop()
		st.AwaitAsking(t.Context(), time.Minute, askedNewer, "a")
		if st.AskingListing("a", askedNewer) == nil {
			t.Error("no listing")
		}
	})
}

// 200 notifications within a second, of all three kinds, cost two walks at most.
func TestListChangedStorm(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var lists sync.Map
		a := &script{caps: `{"tools":{},"prompts":{},"resources":{}}`}
		a.answer = func(_ *script, m *wire.Message) (string, string) {
			if strings.HasSuffix(m.Method, "/list") {
				n, _ := lists.LoadOrStore(m.Method, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
				return "{}", ""
			}
			return "", ""
		}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		w.want("a", Ready)
		kinds := []string{"tools", "prompts", "resources"}
		for i := range 200 {
			a.send(wire.AppendNotification(nil, "notifications/"+kinds[i%3]+"/list_changed", nil))
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		for _, k := range append(kinds, "resources/templates") {
			n, _ := lists.Load(k + "/list")
			if got := n.(*atomic.Int64).Load(); got < 2 || got > 3 {
				t.Errorf("%s: %d lists, want the first and one or two more", k, got)
			}
		}
	})
}

func TestRelistInterval(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) { s.RelistInterval = time.Minute })
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		time.Sleep(10*time.Minute + time.Second)
		if n := a.lists.Load(); n != 11 {
			t.Errorf("%d lists in ten minutes, want 11", n)
		}
	})
}
