package upstream

import "testing"

// A process of one caller's own goes on after a call that the server never answers,
// for every session of that caller: there is no other that could come free.
func TestGivenUpCallOfOwnProcess(t *testing.T) {
	for _, mode := range []string{"per_caller", "per_session"} {
		inBubble(t, func(t *testing.T) {
			c := &cast{}
			st := newStage(t, c, func(s *Settings) { s.Isolation = mode })
			defer st.stop()
			given := st.begin("s1", "late")
			given.cancel()
			<-given.done
			if n := st.begin("s1", "quick").in(t); n != 1 {
				t.Errorf("%s: the same session ran in %d, want 1", mode, n)
			}
			want := map[string]int{"per_caller": 1, "per_session": 2}[mode]
			if n := st.begin("s2", "quick").in(t); n != want {
				t.Errorf("%s: another session ran in %d, want %d", mode, n, want)
			}
			c.all()[1].gate <- struct{}{} // the server says what nobody waits for
			c.all()[1].gate <- struct{}{}
		})
	}
}
