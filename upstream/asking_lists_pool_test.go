package upstream

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// askedOlder are agents of the older era that can be asked.
var askedOlder = Viewer{Answers: true, Legacy: true}

// shown is what such agents see beyond the others.
func (st *stage) shown(who Viewer) string {
	if l := st.AskingListing("a", who); l != nil {
		return fmt.Sprintf("%s", l.Tools)
	}
	return "none"
}

// grow gives one process another tool, and it says so.
func (a *actor) grow(tool string) {
	a.cast.mu.Lock()
	a.grown = append(a.grown, tool)
	a.cast.mu.Unlock()
	a.send(wire.AppendNotification(nil, "notifications/tools/list_changed", nil))
}

// callOf calls a tool for an agent that can fill in forms.
func (st *stage) callOf(legacy bool) *turn {
	return st.beginCall(Target{Session: "s", Caller: "c", Answers: policy.AnswerForm, Legacy: legacy}, &Call{Method: "tools/call", Name: "quick"})
}

// A server of both eras is asked in the older one for agents of that era: what it
// lists there is theirs. Agents of the newer era start no process for that.
func TestAskingListingOfBothEras(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{both: true, plain: []string{"p"}, asking: []string{"q"}}
		st := newStage(t, c, nil)
		defer st.stop()
		st.Expect("default", askedNewer)
		st.AwaitAsking(t.Context(), time.Hour, askedNewer, "a")
		if u := st.callOf(false); u.in(t) != 0 || u.r.Era != Modern {
			t.Errorf("in era %v", u.r.Era)
		}
		st.Expect("default", Viewer{Legacy: true}) // cannot answer
		wantAlive(t, c, 0)

		st.Expect("default", askedOlder)
		st.AwaitAsking(t.Context(), time.Minute, askedNewer, "a")
		st.AwaitAsking(t.Context(), time.Minute, askedOlder, "a")
		wantAlive(t, c, 0, 1)
		if got, want := st.shown(askedOlder), `[{"name":"p"} {"name":"q"}]`; got != want {
			t.Errorf("older agents see %s, want %s", got, want)
		}
		if got := st.shown(askedNewer) + st.shown(Viewer{Legacy: true}); got != "nonenone" {
			t.Errorf("others see %s", got)
		}
		if in := st.AskingListing("a", askedOlder).Info; in.Era != Modern || !in.Has("logging") {
			t.Errorf("the server is said to be %+v", in)
		}
		if n := st.callOf(true).in(t); n != 1 {
			t.Fatalf("a call ran in %d, want where the lists are of", n)
		}
		c.all()[1].grow("r")
		time.Sleep(time.Second)
		if got, want := st.shown(askedOlder), `[{"name":"p"} {"name":"q"} {"name":"r"}]`; got != want {
			t.Errorf("after a call: %s, want %s", got, want)
		}
		if l := st.Listing("a"); len(l.Tools) != 1 || st.shown(askedNewer) != "none" {
			t.Errorf("others see %s and %s", l.Tools, st.shown(askedNewer))
		}
		c.mu.Lock()
		c.refuse = fmt.Errorf("no more")
		c.mu.Unlock()
		c.all()[0].close()
		synctest.Wait()
		if got := st.shown(askedOlder); got == "none" {
			t.Error("the list is gone while the shared process is")
		}
	})
}

// Where they are the same in both eras, there is one copy.
func TestSameInBothEras(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		st := newStage(t, &cast{both: true, plain: []string{"p"}}, nil)
		defer st.stop()
		changes := st.changes.Load()
		st.Expect("default", askedOlder)
		st.AwaitAsking(t.Context(), time.Minute, askedOlder, "a")
		srv := st.byName["a"]
		if srv.asking.listing.Load() != srv.listing.Load() || st.shown(askedOlder) != "none" || st.changes.Load() > changes+1 {
			t.Errorf("they differ, %d changes", st.changes.Load()-changes)
		}
	})
}

// A server that opens no session of the older era, whatever it says, holds no list
// up, and is tried once.
func TestNotOfBothEras(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{both: true, liar: `{"code":-32601,"message":"no such method"}`, plain: []string{"p"}, asking: []string{"q"}}
		st := newStage(t, c, nil)
		defer st.stop()
		began := time.Now()
		st.Expect("default", askedOlder)
		st.AwaitAsking(t.Context(), time.Minute, askedOlder, "a")
		if time.Since(began) > time.Second || st.shown(askedOlder) != "none" {
			t.Errorf("%v, they see %s", time.Since(began), st.shown(askedOlder))
		}
		if u := st.callOf(true); u.in(t) != 0 || u.r.Era != Modern {
			t.Errorf("called in era %v", u.r.Era)
		}
		c.all()[0].grow("r")
		time.Sleep(time.Minute)
		if l := st.Listing("a"); len(l.Tools) != 2 || len(c.all()) != 2 {
			t.Errorf("all see %s, %d processes", l.Tools, len(c.all()))
		}
		st.want("a", Ready)
	})
}

// Agents of the newer era wait for nothing that only others see.
func TestNewerDoNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		st := newStage(t, &cast{both: true, liar: "never"}, nil)
		defer st.stop()
		st.Expect("default", askedOlder)
		began := time.Now()
		st.AwaitAsking(t.Context(), time.Second, askedNewer, "a")
		if d := time.Since(began); d > 0 {
			t.Errorf("they waited %v", d)
		}
		st.AwaitAsking(t.Context(), time.Second, askedOlder, "a")
		if d := time.Since(began); d != time.Second {
			t.Errorf("the others waited %v", d)
		}
	})
}

// A change in a later process of the pool counts if that is of the same caller as
// the first, until it ends.
func TestListsOfPool(t *testing.T) {
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprintf("both eras %v", both), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := &cast{both: both, plain: []string{"p"}}
				st := newStage(t, c, nil)
				defer st.stop()
				begin := func(caller, session, tool string) *turn {
					return st.beginCall(Target{Session: session, Caller: caller, Answers: policy.AnswerForm, Legacy: true}, &Call{Method: "tools/call", Name: tool})
				}
				sees := func(want, when string) {
					t.Helper()
					time.Sleep(3 * time.Second)
					if got := st.shown(askedOlder); got != want {
						t.Errorf("%s: %s, want %s", when, got, want)
					}
				}
				st.Expect("default", askedOlder)
				st.AwaitAsking(t.Context(), time.Minute, askedOlder, "a")
				first := begin("A", "a1", "wait")
				if begin("A", "a2", "quick").in(t) != 2 || begin("B", "b", "quick").in(t) != 3 {
					t.Fatal("they ran elsewhere")
				}
				c.all()[3].grow("theirs")
				sees("none", "another caller's")
				c.all()[2].grow("r")
				sees(`[{"name":"p"} {"name":"r"}]`, "the same caller's")
				c.mu.Lock()
				c.plain = []string{"p2"}
				c.mu.Unlock()
				c.all()[0].send(wire.AppendNotification(nil, "notifications/tools/list_changed", nil))
				sees(`[{"name":"p2"} {"name":"r"}]`, "the shared one's")
				c.all()[2].close()
				sees("none", "after its end")
				c.all()[1].grow("s")
				sees(`[{"name":"p2"} {"name":"s"}]`, "the first's")
				c.all()[1].gate <- struct{}{}
				first.in(t)

				time.Sleep(2 * idleEnd)
				wantAlive(t, c, 0)
				sees(`[{"name":"p2"} {"name":"s"}]`, "after all are idle")
				begin("A", "a1", "quick").in(t)
				sees("none", "in a new process")
			})
		})
	}
}
