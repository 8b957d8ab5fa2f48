package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// beginOf starts a call of a session of a caller's agent that can fill in forms.
func (st *stage) beginOf(caller, session, tool string) *turn {
	return st.beginCall(Target{Session: session, Caller: caller, Answers: policy.AnswerForm}, &Call{Method: "tools/call", Name: tool})
}

// What a server says after its answer may be about that call, and reaches no agent
// of another caller: neither as a question nor as a log message.
func TestLateWordsStayWithTheirCaller(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, nil)
		defer st.stop()
		var got []Origin
		st.opt.OnNotify = func(from Origin, _ string, _ []byte) { got = append(got, from) }
		if n := st.beginOf("A", "a1", "quick").in(t); n != 1 {
			t.Fatalf("A ran in %d, want 1", n)
		}
		other := st.beginOf("B", "b1", "wait")
		wantAlive(t, c, 0, 1, 2)
		c.all()[1].send([]byte(`{"jsonrpc":"2.0","id":"late","method":"elicitation/create","params":{"message":"secret"}}`))
		for i := range 3 {
			c.all()[i].send(wire.AppendNotification(nil, "notifications/message", []byte(`{"level":"info"}`)))
			synctest.Wait()
		}
		if n := other.asked.Load(); n != 0 {
			t.Errorf("B was asked %d times about A's call", n)
		}
		want := []Origin{{Server: "a"}, {Server: "a", Isolation: "A"}, {Server: "a", Isolation: "B"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		c.all()[2].gate <- struct{}{}
		other.in(t)
		for _, caller := range []string{"A", "B", "A", "B"} {
			if n, want := st.beginOf(caller, caller+"2", "quick").in(t), map[string]int{"A": 1, "B": 2}[caller]; n != want {
				t.Errorf("%s ran in %d, want its own, %d", caller, n, want)
			}
		}
	})
}

// A process that was started to read the lists goes to the first caller.
func TestAdoption(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{plain: []string{"p"}, asking: []string{"q"}}
		st := newStage(t, c, nil)
		defer st.stop()
		st.Expect("default", askedNewer)
		synctest.Wait()
		wantAlive(t, c, 0, 1)
		if a, b := st.beginOf("A", "a", "quick").in(t), st.beginOf("B", "b", "quick").in(t); a != 1 || b != 2 {
			t.Errorf("A ran in %d and B in %d, want 1 and 2", a, b)
		}
		if l := st.AskingListing("a", askedNewer); l == nil || len(l.Tools) != 2 {
			t.Errorf("the listing is %v", l)
		}
	})
}

// No caller locks others out: one of several never gets the last place.
func TestShareOfPool(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, nil)
		defer st.stop()
		st.beginOf("B", "b", "quick").in(t)
		time.Sleep(2 * idleEnd)
		wantAlive(t, c, 0)
		var parked []*turn
		for i := range 2 {
			parked = append(parked, st.beginOf("A", fmt.Sprint("a", i), "ask"))
		}
		third := st.beginOf("A", "a3", "ask")
		if !third.over() || KindOf(third.err) != Busy || !strings.Contains(third.err.Error(), "(max_processes)") {
			t.Fatalf("got %v, want Busy at once with the reason", third.err)
		}
		if e := (*Error)(nil); !errors.As(third.err, &e) || e.RetryAfter != 0 {
			t.Errorf("it says when: %v", third.err)
		}
		for _, caller := range []string{"B", "C", "B"} {
			st.beginOf(caller, caller, "quick").in(t)
		}
		close(parked[0].ask)
		synctest.Wait()
		c.all()[2].gate <- struct{}{}
		parked[0].in(t)
		parked[1].cancel()
		<-parked[1].done

		time.Sleep(seenFor + time.Minute) // A is alone again
		for i := range 3 {
			if u := st.beginOf("A", fmt.Sprint("a", i), "ask"); u.asked.Load() != 1 {
				t.Errorf("call %d of A alone: %v", i, u.err)
			}
		}
	})
}

// One who came by everything while it was alone gives a place back, even if it
// calls again before anybody else does.
func TestAloneNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, nil)
		defer st.stop()
		var parked []*turn
		for i := range 3 {
			parked = append(parked, st.beginOf("A", fmt.Sprint("a", i), "ask"))
		}
		if u := st.beginOf("B", "b", "quick"); KindOf(u.err) != Busy {
			t.Fatalf("got %v, want Busy", u.err)
		}
		close(parked[0].ask)
		synctest.Wait()
		c.all()[1].gate <- struct{}{}
		parked[0].in(t)
		if again := st.beginOf("A", "a0", "ask"); KindOf(again.err) != Busy {
			t.Errorf("A again: %v, want Busy", again.err)
		}
		st.beginOf("B", "b", "quick").in(t)
	})
}

// Where there is no room, the process of another caller that was idle for longest
// ends, but none with a call or a task.
func TestEviction(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, nil)
		defer st.stop()
		task := &Call{Method: "tools/call", Params: []byte(`{"name":"task","task":{}}`)}
		st.beginCall(Target{Session: "a", Caller: "A", Answers: policy.AnswerForm}, task).in(t)
		time.Sleep(time.Second)
		st.beginOf("B", "b", "quick").in(t)
		time.Sleep(time.Second)
		st.beginOf("C", "c", "quick").in(t)
		if n := st.beginOf("D", "d", "quick").in(t); n != 4 {
			t.Errorf("D ran in %d, want a new one, 4", n)
		}
		wantAlive(t, c, 0, 1, 3, 4)
		held := []*turn{st.beginOf("C", "c", "wait"), st.beginOf("D", "d", "wait")}
		waits := st.beginOf("B", "b", "quick")
		again := st.beginOf("D", "d", "quick")
		if waits.over() || again.over() {
			t.Fatalf("they did not wait: %v, %v", waits.err, again.err)
		}
		c.all()[4].gate <- struct{}{} // B, who has none, comes before D
		held[1].in(t)
		if n := waits.in(t); n != 5 {
			t.Errorf("B ran in %d, want a new one, 5", n)
		}
		if n := again.in(t); n != 6 {
			t.Errorf("D ran in %d, want a new one, 6", n)
		}
		wantAlive(t, c, 0, 1, 3, 6)
		c.all()[3].gate <- struct{}{}
		held[0].in(t)
	})
}

// With one process for all who can be asked, it goes from caller to caller.
func TestPoolOfOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.MaxProcesses = 2 })
		defer st.stop()
		for i, caller := range []string{"A", "B", "A"} {
			if n := st.beginOf(caller, caller, "quick").in(t); n != i+1 {
				t.Errorf("call %d ran in %d, want a process of its own", i, n)
			}
		}
		parked := st.beginOf("A", "A", "ask")
		if u := st.beginOf("B", "B", "quick"); KindOf(u.err) != Busy {
			t.Errorf("got %v, want Busy", u.err)
		}
		parked.cancel()
		<-parked.done
	})
}

// A task is followed by its own caller only.
func TestViaOfAnotherCaller(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		st := newStage(t, &cast{}, nil)
		defer st.stop()
		first := st.beginOf("A", "s", "quick")
		u := st.beginCall(Target{Session: "s", Caller: "B", Answers: policy.AnswerForm}, &Call{Method: "tasks/get", Via: first.r.Via})
		if KindOf(u.err) != Gone {
			t.Errorf("got %v, want Gone", u.err)
		}
	})
}

// With a process for each session, one caller's sessions take not all of them
// where others come, and give back what they have beyond their share.
func TestShareOfIsolated(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.Isolation, s.MaxProcesses = "per_session", 4 })
		defer st.stop()
		for i := range 4 {
			st.beginOf("A", fmt.Sprint("a", i), "quick").in(t)
			time.Sleep(time.Second)
		}
		if n := st.beginOf("B", "b1", "quick").in(t); n != 5 {
			t.Errorf("B ran in %d, want a new one", n)
		}
		wantAlive(t, c, 0, 2, 3, 4, 5)
		if u := st.beginOf("A", "a9", "quick"); KindOf(u.err) != Busy || !strings.Contains(u.err.Error(), "3 connections of their own, which is the most for one caller (max_processes); idle ones end after 5m0s") {
			t.Errorf("got %v, want Busy for this caller", u.err)
		}
		time.Sleep(evictAfter)
		if n := st.beginOf("A", "a9", "quick").in(t); n != 6 {
			t.Errorf("A ran in %d, want 6 in the place of its own", n)
		}
		wantAlive(t, c, 0, 3, 4, 5, 6)
	})
}

// Calls that wait are bounded for each caller too.
func TestShareOfQueue(t *testing.T) {
	s := newServer(&Set{}, Server{Name: "a", Settings: &Settings{}})
	now := time.Now()
	s.seen.note("A", now)
	for range waitingMost * 3 / 4 {
		s.queue = append(s.queue, &waiter{need: &need{caller: "A"}})
	}
	if s.manyWait("A") {
		t.Error("alone, A may have it all")
	}
	s.seen.note("B", now)
	if !s.manyWait("A") || s.manyWait("B") {
		t.Errorf("A waits too much: %v; B: %v", s.manyWait("A"), s.manyWait("B"))
	}
}

func TestCallersSeen(t *testing.T) {
	var c callers
	now := time.Now()
	for i := range 2 * seenMost {
		c.note(fmt.Sprint(i), now)
	}
	if len(c) != seenMost || !c.several(now) {
		t.Errorf("%d are remembered, several: %v", len(c), c.several(now))
	}
	later := now.Add(seenFor + 1)
	c.note("late", later)
	if c.several(later) || len(c) != 1 {
		t.Errorf("after an hour %d are remembered", len(c))
	}
}

// newHTTPCrowd runs a Set over one server.
func newHTTPCrowd(t *testing.T, f *fakeHTTP) *Set {
	t.Helper()
	newFake(t, f)
	set, err := NewSet([]Server{{Name: "a", Settings: &Settings{URL: f.URL, Protocol: "legacy"}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	set.AwaitFirst(t.Context(), time.Minute, "a")
	return set
}

// Over HTTP each caller has a session that can be asked, and another reads the
// lists. What the server asks on one's standing stream after its answer is asked of
// nobody else.
func TestHTTPSessionPerCaller(t *testing.T) {
	leaks(t)
	streams := make(chan [2]any, 8) // the session, and what sends there
	running, release := make(chan string, 8), make(chan struct{})
	f := &fakeHTTP{legacy: true}
	f.get = func(w http.ResponseWriter, r *http.Request) {
		send := events(w, rpc{})
		send(": here\n\n")
		streams <- [2]any{r.Header.Get(hdrSession), send}
		<-r.Context().Done()
	}
	f.call = func(w http.ResponseWriter, r *http.Request, m rpc) {
		running <- r.Header.Get(hdrSession)
		if m.Params.Name == "wait" {
			<-release
		}
		result(w, m, "{}")
	}
	set := newHTTPCrowd(t, f)
	call := func(caller, session, tool string) (Response, error) {
		c := askedCall(tool, func(context.Context, Question) ([]byte, *wire.Error) {
			t.Errorf("%s was asked", caller)
			return nil, nil
		})
		return set.Do(t.Context(), Target{Server: "a", Caller: caller, Session: session, Answers: policy.AnswerForm}, c)
	}
	of := map[string]string{}
	vias := map[string]string{}
	for _, who := range [][2]string{{"A", "1"}, {"A", "2"}, {"B", "3"}} {
		r, err := call(who[0], who[1], "quick")
		if err != nil {
			t.Fatal(err)
		}
		s := <-running
		if of[who[0]] != "" && of[who[0]] != s {
			t.Errorf("%s came in sessions %s and %s", who[0], of[who[0]], s)
		}
		of[who[0]], vias[who[0]] = s, r.Via
	}
	if of["A"] == of["B"] || vias["A"] == vias["B"] {
		t.Fatalf("both came in session %s", of["A"])
	}
	set.Expect("default", askedNewer)
	set.AwaitAsking(t.Context(), 10*time.Second, askedNewer, "a")
	if n := len(f.got("initialize")); n != 4 {
		t.Errorf("%d sessions, want discovery's, the lists' and one for each caller", n)
	}
	done := make(chan error, 1)
	go func() { _, err := call("B", "3", "wait"); done <- err }()
	<-running
	for seen := []string(nil); !slices.Contains(seen, of["A"]); {
		s := <-streams
		seen = append(seen, s[0].(string))
		if s[0] == of["A"] {
			s[1].(func(string))(askingEvent(`"late"`, "elicitation/create", `{"message":"secret"}`))
		}
	}
	eventually(t, "the refusal", func() bool {
		return slices.ContainsFunc(f.got(""), func(m rpc) bool {
			return string(m.ID) == `"late"` && m.Error != nil && m.Header.Get(hdrSession) == of["A"]
		})
	})
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := set.Do(t.Context(), Target{Server: "a", Caller: "B"}, &Call{Method: "tasks/get", Via: vias["A"]}); KindOf(err) != Gone {
		t.Errorf("B follows A: got %v, want Gone", err)
	}
}

// What is said on a caller's session outside of calls is that caller's.
func TestHTTPOrigin(t *testing.T) {
	s := newServer(&Set{}, Server{Name: "a", Settings: &Settings{URL: "http://x"}})
	for _, tc := range []struct {
		route route
		lent  bool
		want  string
	}{
		{plainRoute, false, ""},
		{askRoute, false, ""},
		{askRoute, true, "lent"},
		{route{profile: "default", mode: Asking, caller: "A"}, false, "A"},
		{route{profile: "default", mode: Asking, isolation: "s"}, true, "s"},
		{route{profile: "else"}, true, ""},
	} {
		o := newOwner(s, tc.route)
		if tc.lent {
			s.lend(o, &need{caller: "lent"})
		}
		if got := o.apartFor(); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.route, got, tc.want)
		}
	}
}
