package upstream

import (
	"testing"
	"testing/synctest"
)

// A call that was given up may still ask. Its process is nobody else's until the
// server has answered it, and its own agent's once the server knows.
func TestGivenUpCallAsks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, nil)
		defer st.stop()
		given := st.begin("s1", "late")
		given.cancel()
		<-given.done
		other := st.begin("s2", "wait")
		wantAlive(t, c, 0, 1, 2)
		c.all()[1].gate <- struct{}{} // now it asks
		synctest.Wait()
		if given.asked.Load() != 0 || other.asked.Load() != 0 || c.all()[1].asked.Load() != 1 {
			t.Errorf("the question reached s1 %d and s2 %d times", given.asked.Load(), other.asked.Load())
		}
		if n := st.begin("s1", "quick").in(t); n != 1 {
			t.Errorf("its own agent ran in %d, want 1", n)
		}
		if n := st.begin("s3", "quick").in(t); n != 3 {
			t.Errorf("a third agent ran in %d, want 3, a new one", n)
		}
		c.all()[1].gate <- struct{}{} // now it answers
		c.all()[2].gate <- struct{}{}
		other.in(t)
		synctest.Wait()
		if n := st.begin("s4", "quick").in(t); n != 1 {
			t.Errorf("after the answer a fourth agent ran in %d, want 1", n)
		}
	})
}

// When no process is left, one whose given-up call never answers makes room.
func TestGivenUpCallMakesRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.MaxProcesses = 2 })
		defer st.stop()
		given := st.begin("s1", "late")
		given.cancel()
		<-given.done
		if n := st.begin("s2", "quick").in(t); n != 2 {
			t.Errorf("ran in %d, want 2", n)
		}
		wantAlive(t, c, 0, 2)
	})
}
