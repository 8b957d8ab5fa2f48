package upstream

import (
	"fmt"
	"testing"
)

// Where several callers can come, the first of them never gets the last place.
func TestShareBeforeOthersCame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		st := newStage(t, &cast{}, nil)
		defer st.stop()
		st.opt.SeveralCallers = func() bool { return true }
		for i := range 2 {
			if u := st.beginOf("A", fmt.Sprint("a", i), "ask"); u.asked.Load() != 1 {
				t.Fatalf("call %d of A: %v", i, u.err)
			}
		}
		if u := st.beginOf("A", "a2", "ask"); KindOf(u.err) != Busy {
			t.Errorf("the third of A: %v, want Busy", u.err)
		}
		st.beginOf("B", "b", "quick").in(t)
	})
}

// The same holds for connections of agents' own, and for calls that wait.
func TestShareOfIsolatedBeforeOthersCame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		st := newStage(t, &cast{}, func(s *Settings) { s.Isolation, s.MaxProcesses = "per_session", 4 })
		defer st.stop()
		st.opt.SeveralCallers = func() bool { return true }
		var held []*turn
		for i := range 3 {
			held = append(held, st.beginOf("A", fmt.Sprint("a", i), "ask"))
		}
		if u := st.beginOf("A", "a3", "quick"); KindOf(u.err) != Busy {
			t.Errorf("the fourth of A: %v, want Busy", u.err)
		}
		st.beginOf("B", "b", "quick").in(t)
		for i, u := range held {
			if u.asked.Load() != 1 || u.over() {
				t.Errorf("call %d of A: %v", i, u.err)
			}
		}
		if n := st.byName["a"].share(waitingMost); n != waitingMost*3/4 {
			t.Errorf("%d calls of one caller may wait", n)
		}
	})
}
