package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Idle processes end, those with a call or a task do not.
func TestIdleEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, nil)
		defer st.stop()
		long, idle := st.begin("s1", "wait"), st.begin("s2", "quick")
		task := st.beginCall(Target{Session: "s3", Caller: "c", Answers: policy.AnswerForm},
			&Call{Method: "tools/call", Params: []byte(`{"name":"task","task":{}}`)})
		if idle.in(t) != 2 || task.in(t) != 2 {
			t.Fatal("they ran elsewhere")
		}
		time.Sleep(4 * time.Minute)
		wantAlive(t, c, 0, 1, 2)
		c.all()[1].gate <- struct{}{}
		long.in(t)
		time.Sleep(10 * time.Minute)
		wantAlive(t, c, 0, 2)
		time.Sleep(10 * time.Minute)
		wantAlive(t, c, 0)
		st.begin("s1", "quick").in(t)
		wantAlive(t, c, 0, 3)
	})
}

// What belongs to a process is asked of that one, and of none that came after.
func TestVia(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, nil)
		defer st.stop()
		asks := Target{Session: "s1", Caller: "c", Answers: policy.AnswerForm}
		follow := func(t Target, method, via string) *turn {
			return st.beginCall(t, &Call{Method: method, Via: via})
		}
		first, held := st.begin("s1", "quick"), st.begin("s2", "wait")
		other := st.begin("s3", "wait")
		plain := st.beginCall(Target{}, &Call{Method: "tools/call", Name: "quick"})
		vias := []string{plain.r.Via, first.r.Via}
		c.all()[1].gate <- struct{}{}
		c.all()[2].gate <- struct{}{}
		held.in(t)
		other.in(t)
		vias = append(vias, other.r.Via)
		for want, via := range vias {
			for _, method := range []string{"tasks/get", "tasks/result"} {
				if u := follow(asks, method, via); u.in(t) != want || u.r.Via != via {
					t.Errorf("%s of %s ran in %d (%s)", method, via, u.in(t), u.r.Via)
				}
			}
		}
		parked := st.begin("s1", "ask")
		if n := follow(asks, "tasks/get", first.r.Via).in(t); n != 1 {
			t.Errorf("beside a question: process %d, want 1", n)
		}
		if u := follow(asks, "tasks/result", first.r.Via); KindOf(u.err) != Busy {
			t.Errorf("tasks/result beside a question: %v, want Busy", u.err)
		}
		parked.cancel()
		<-parked.done

		c.all()[1].close()
		synctest.Wait()
		st.begin("s1", "quick").in(t)
		for _, via := range []string{first.r.Via, "a0:", "nonsense"} {
			if u := follow(asks, "tasks/get", via); KindOf(u.err) != Gone {
				t.Errorf("%q: got %v, want Gone", via, u.err)
			}
		}
		time.Sleep(2 * idleEnd)
		if u := follow(asks, "tasks/get", other.r.Via); KindOf(u.err) != Gone {
			t.Errorf("got %v, want Gone", u.err)
		}
	})
}

// The failures of a process beside discovery's are those of its calls; the
// server's state and listing do not move, and a crash loop is slow.
func TestCrashApart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.MaxProcesses = 2 })
		defer st.stop()
		before, listing, changes := *st.byName["a"].status.Load(), st.Listing("a"), st.changes.Load()
		if u := st.begin("s", "die"); KindOf(u.err) != Uncertain {
			t.Errorf("got %v, want Uncertain", u.err)
		}
		st.begin("s", "quick").in(t) // reconnects at once
		for range 600 {
			<-st.begin("s", "die").done
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(c.all()); n > 15 {
			t.Errorf("%d processes in a minute", n)
		}
		after := *st.byName["a"].status.Load()
		if after.State != before.State || after.Err != nil || after.Since != before.Since || st.Listing("a") != listing || st.changes.Load() != changes {
			t.Errorf("state %+v after %d changes, want %+v", after, st.changes.Load()-changes, before)
		}
		time.Sleep(time.Minute)
		st.begin("s", "quick").in(t)
	})
}

// An HTTP server has one session for all agents of a caller that can be asked, and
// what it keeps does not end with a connection of ours.
func TestAskingOverHTTP(t *testing.T) {
	leaks(t)
	started, release := make(chan string, 3), make(chan struct{})
	f := newFake(t, &fakeHTTP{legacy: true, call: func(w http.ResponseWriter, r *http.Request, m rpc) {
		started <- r.Header.Get(hdrSession)
		<-release
		result(w, m, "{}")
	}})
	set, err := NewSet([]Server{{Name: "a", Settings: &Settings{URL: f.URL, Protocol: "legacy"}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	defer func() { cancel(); <-done }()
	set.AwaitFirst(t.Context(), time.Minute, "a")
	ask := func(context.Context, Question) ([]byte, *wire.Error) { return nil, nil }
	vias := make(chan string, 3)
	for i := range 3 {
		go func() {
			c := toolCall("t")
			c.Ask = ask
			r, err := set.Do(ctx, Target{Server: "a", Session: fmt.Sprint(i), Answers: policy.AnswerForm}, c)
			if err != nil {
				t.Error(err)
			}
			vias <- r.Via
		}()
	}
	for range 3 { // all run at once
		if s := <-started; s != "s1" {
			t.Errorf("a call came in session %q, want s1", s)
		}
	}
	close(release)
	via := <-vias
	<-vias
	<-vias
	if n := len(f.got("initialize")); n != 2 || !strings.Contains(f.got("initialize")[1].Body, `"elicitation":{"form":{},"url":{}}`) {
		t.Errorf("%d handshakes, want the shared and the asking one", n)
	}
	set.EndSession("0")
	follow := func(via string) error {
		_, err := set.Do(ctx, Target{Server: "a"}, &Call{Method: "tasks/get", Via: via})
		return err
	}
	f.forget() // the server starts again
	if err := follow(via); err != nil {
		t.Error(err)
	}
	if err := follow("a0:000000000000"); KindOf(err) != Gone {
		t.Errorf("another's: got %v, want Gone", err)
	}
}
