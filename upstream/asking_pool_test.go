package upstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
)

// A process runs one call of askers at a time. An agent returns to its own as
// long as that is free, and takes a free one before a new one.
func TestPool(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, nil)
		defer st.stop()
		one, two := st.begin("s1", "wait"), st.begin("s2", "wait")
		wantAlive(t, c, 0, 1, 2)
		c.all()[1].gate <- struct{}{}
		c.all()[2].gate <- struct{}{}
		a, b := one.in(t), two.in(t)
		if a != 1 || b != 2 {
			t.Fatalf("they ran in %d and %d, want 1 and 2", a, b)
		}
		for range 3 {
			if n := st.begin("s2", "quick").in(t); n != b {
				t.Errorf("s2 ran in %d, want %d, where it was", n, b)
			}
			if n := st.begin("s1", "quick").in(t); n != a {
				t.Errorf("s1 ran in %d, want %d, where it was", n, a)
			}
		}
		held := st.begin("s1", "wait")
		if n := st.begin("s1", "quick").in(t); n != b {
			t.Errorf("a second call of s1 ran in %d, want the free one, %d", n, b)
		}
		c.all()[a].gate <- struct{}{}
		held.in(t)
		wantAlive(t, c, 0, 1, 2)
	})
}

// With every process in use a call waits for one, in turn, but not for ever,
// and plain calls do not notice.
func TestPoolIsFull(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.MaxProcesses = 2 })
		defer st.stop()
		held := st.begin("s1", "wait")
		first, second := st.begin("s2", "quick"), st.begin("s3", "quick")
		gone := st.begin("s4", "quick")
		gone.cancel()
		<-gone.done
		if first.over() || second.over() || !errors.Is(gone.err, context.Canceled) {
			t.Fatalf("over: %v, %v; the cancelled one: %v", first.over(), second.over(), gone.err)
		}
		if _, err := st.Do(t.Context(), Target{Server: "a"}, &Call{Method: "tools/call", Params: []byte(`{"name":"quick"}`)}); err != nil {
			t.Errorf("a plain call: %v", err)
		}
		c.all()[1].gate <- struct{}{}
		held.in(t)
		if first.in(t) != 1 || second.in(t) != 1 {
			t.Error("they ran elsewhere")
		}
		held = st.begin("s1", "wait")
		began := time.Now()
		u := st.begin("s2", "quick")
		<-u.done
		if took := time.Since(began); KindOf(u.err) != Busy || took != slotWait {
			t.Errorf("got %v after %v, want Busy after %v", u.err, took, slotWait)
		}
		c.all()[1].gate <- struct{}{}
		held.in(t)
		wantAlive(t, c, 0, 1)
	})
}

// When every process is held by a call that waits for its agent, nobody knows
// for how long: others hear so at once, also those that wait already.
func TestPoolIsParked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.MaxProcesses = 3 })
		defer st.stop()
		parked := st.begin("s1", "ask")
		running := st.begin("s2", "wait")
		waits := st.begin("s3", "quick")
		if parked.asked.Load() != 1 || waits.over() {
			t.Fatalf("%d questions; the call that must wait: %v", parked.asked.Load(), waits.err)
		}
		c.all()[2].gate <- struct{}{}
		running.in(t)
		if waits.in(t) != 2 {
			t.Error("the call that waited ran elsewhere")
		}

		late := st.begin("s4", "wait")
		waits = st.begin("s3", "quick")
		c.all()[2].send([]byte(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`))
		synctest.Wait()
		began := time.Now()
		u := st.begin("s5", "quick")
		for _, u := range []*turn{waits, u} {
			if !u.over() || KindOf(u.err) != Busy || time.Since(began) != 0 || !strings.Contains(u.err.Error(), "wait for their agents' answers") {
				t.Errorf("got %v, want Busy at once with the reason", u.err)
			}
		}
		close(late.ask) // answered: it runs on
		synctest.Wait()
		waits = st.begin("s3", "quick")
		c.all()[2].gate <- struct{}{}
		if late.in(t) != 2 || waits.in(t) != 2 {
			t.Error("they ran elsewhere")
		}
		parked.cancel()
		<-parked.done
		if n := st.begin("s1", "quick").in(t); n != 1 {
			t.Errorf("after the cancel s1 ran in %d, want 1", n)
		}
	})
}

// While a question is open its call holds none of the places that all calls
// share; then it has one again.
func TestQuestionHoldsNoPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.MaxConcurrency = 1 })
		defer st.stop()
		quick := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := st.Do(ctx, Target{Server: "a"}, &Call{Method: "tools/call", Params: []byte(`{"name":"quick"}`)})
			return err
		}
		u := st.begin("s", "ask")
		if err := quick(); err != nil {
			t.Errorf("while the question is open: %v", err)
		}
		close(u.ask)
		synctest.Wait()
		if err := quick(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the answer: %v, want no place", err)
		}
		c.all()[1].gate <- struct{}{}
		u.in(t)
		if err := quick(); err != nil {
			t.Errorf("after the call: %v", err)
		}
		parked := st.begin("s", "ask")
		parked.cancel()
		<-parked.done
		if n := len(st.byName["a"].slots); n != 0 {
			t.Errorf("%d places are taken after all", n)
		}
	})
}

// With isolation every session, or caller, has a process of its own, for calls
// with and without questions; what one is asked the next waits for.
func TestIsolation(t *testing.T) {
	for _, tc := range []struct {
		mode string
		a, b Target
		same bool
	}{
		{"per_session", Target{Session: "1", Caller: "x"}, Target{Session: "2", Caller: "x"}, false},
		{"per_session", Target{Session: "1", Caller: "x"}, Target{Session: "1", Caller: "x"}, true},
		{"per_session", Target{Caller: "x"}, Target{Caller: "y"}, false},
		{"per_session", Target{Caller: "x"}, Target{Caller: "x"}, true},
		{"per_caller", Target{Session: "1", Caller: "x"}, Target{Session: "2", Caller: "x"}, true},
		{"per_caller", Target{Session: "1", Caller: "x"}, Target{Session: "1", Caller: "y"}, false},
		{"shared", Target{Session: "1", Caller: "x"}, Target{Session: "2", Caller: "x"}, true},
		{"shared", Target{Session: "1", Caller: "x"}, Target{Session: "1", Caller: "y"}, false},
	} {
		for _, answers := range []policy.Answers{0, policy.AnswerForm} {
			inBubble(t, func(t *testing.T) {
				st := newStage(t, &cast{}, func(s *Settings) { s.Isolation = tc.mode })
				defer st.stop()
				tc.a.Answers, tc.b.Answers = answers, answers
				a := st.beginCall(tc.a, &Call{Method: "tools/call", Name: "quick"}).in(t)
				b := st.beginCall(tc.b, &Call{Method: "tools/call", Name: "quick"}).in(t)
				same := tc.same || tc.mode == "shared" && answers == 0
				if (a == b) != same || (a == 0) != (tc.mode == "shared" && answers == 0) {
					t.Errorf("%s, answers %d: %+v ran in %d, %+v in %d", tc.mode, answers, tc.a, a, tc.b, b)
				}
			})
		}
	}
}

func TestIsolatedCallsWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.Isolation = "per_session" })
		defer st.stop()
		parked := st.begin("s1", "ask")
		waits := st.begin("s1", "quick")
		if waits.over() {
			t.Fatalf("it did not wait: %v", waits.err)
		}
		if n := st.begin("s2", "quick").in(t); n != 2 {
			t.Errorf("another session ran in %d, want 2", n)
		}
		close(parked.ask)
		synctest.Wait()
		c.all()[1].gate <- struct{}{}
		if parked.in(t) != 1 || waits.in(t) != 1 {
			t.Error("they ran elsewhere")
		}
		parked = st.begin("s1", "ask")
		waits = st.begin("s1", "quick")
		<-waits.done
		if KindOf(waits.err) != Busy {
			t.Errorf("got %v, want Busy after the wait", waits.err)
		}
		parked.cancel()
		<-parked.done
	})
}

// Agents' own processes are bounded: one that is idle makes room, others do not.
func TestIsolationIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.Isolation, s.MaxProcesses = "per_session", 2 })
		defer st.stop()
		st.begin("s1", "quick").in(t)
		st.begin("s2", "quick").in(t)
		if u := st.begin("s3", "quick"); KindOf(u.err) != Busy || !strings.Contains(u.err.Error(), "2 agents") {
			t.Errorf("got %v, want Busy", u.err)
		}
		time.Sleep(evictAfter)
		st.begin("s1", "quick").in(t)
		if n := st.begin("s3", "quick").in(t); n != 3 {
			t.Errorf("s3 ran in %d, want a new one", n)
		}
		wantAlive(t, c, 0, 1, 3)
	})
}

func TestEndSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.Isolation = "per_session" })
		defer st.stop()
		st.begin("s1", "quick").in(t)
		running := st.begin("s1", "ask")
		st.begin("s2", "quick").in(t)
		st.EndSession("s1")
		st.EndSession("")
		st.EndSession("nobody")
		wantAlive(t, c, 0, 2)
		if !running.over() || running.err == nil {
			t.Error("a call of the session goes on")
		}
		if n := st.begin("s1", "quick").in(t); n != 3 {
			t.Errorf("a late call ran in %d, want a new one", n)
		}
		st.want("a", Ready)
	})
}
