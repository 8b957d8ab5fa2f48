package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

func unwell() error { return &Error{Server: "a", Kind: Unreachable, Err: errors.New("503")} }

// What counts is that a server is unwell, three times in a row; then no call passes
// until the time is over, and exactly one after that.
func TestBreaker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBreaker("a", (&Settings{}).breaker())
		pass := func(err error) {
			t.Helper()
			p, no := b.allow(nil)
			if no != nil {
				t.Fatalf("refused: %v", no)
			}
			p.report(err)
			p.report(nil) // only the first report counts
		}
		for _, err := range []error{unwell(), unwell(), nil, unwell(), errNeither, unwell(), errNeither} {
			pass(verdict(err))
		}
		if !b.closed() || b.String() != "closed" {
			t.Fatalf("it is %s", b)
		}
		pass(unwell())
		_, err := b.allow(nil)
		var e *Error
		if !errors.As(err, &e) || e.Kind != Open || e.RetryAfter != easeSoon || !strings.Contains(err.Error(), "503") {
			t.Fatalf("got %v, want Open with the cause", err)
		}
		time.Sleep(40 * time.Second)
		if _, err := b.allow(nil); !errors.As(err, &e) || e.RetryAfter != easeSoon {
			t.Errorf("got %v after %v", err, e.RetryAfter)
		}
		time.Sleep(20*time.Second + 1)
		first, err := b.allow(func() error { return nil })
		if err != nil || b.String() != "half-open" {
			t.Fatalf("%v, %s", err, b)
		}
		if _, err := b.allow(nil); KindOf(err) != Open {
			t.Errorf("a second call passed: %v", err)
		}
		first.report(unwell())
		if _, err := b.allow(nil); KindOf(err) != Open || b.String() != "open" {
			t.Errorf("%v, %s", err, b)
		}
		time.Sleep(time.Minute + 1)
		pass(nil)
		if b.String() != "closed" {
			t.Errorf("it is %s", b)
		}
	})
}

// The one call that passes cannot hold the others up: when it takes long, a probe
// speaks for it.
func TestBreakerProbe(t *testing.T) {
	for want, err := range map[string]error{"closed": nil, "open": unwell()} {
		inBubble(t, func(t *testing.T) {
			b := newBreaker("a", (&Settings{}).breaker())
			for range 3 {
				p, _ := b.allow(nil)
				p.report(unwell())
			}
			time.Sleep(time.Minute + 1)
			p, no := b.allow(func() error { return err })
			if no != nil {
				t.Fatal(no)
			}
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if b.String() != want {
				t.Errorf("it is %s, want %s", b, want)
			}
			p.report(nil)
		})
	}
}

func TestNoBreaker(t *testing.T) {
	b := newBreaker("a", (&Settings{Breaker: Breaker{Failures: -1}}).breaker())
	for range 100 {
		p, err := b.allow(nil)
		if err != nil {
			t.Fatal(err)
		}
		p.report(unwell())
	}
	if b.String() != "closed" {
		t.Errorf("it is %s", b)
	}
}

func TestVerdict(t *testing.T) {
	for k, counts := range map[Kind]bool{
		Unreachable: true, Uncertain: true,
		Timeout: false, Unauthorized: false, Protocol: false, TooLarge: false, Busy: false, Config: false, Closed: false,
		RateLimited: false, Gone: false, Open: false, Proxy: false,
	} {
		err := &Error{Kind: k, Err: errors.New("x")}
		if got := verdict(err); (got == err) != counts || !counts && got != errNeither {
			t.Errorf("kind %d: %v", k, got)
		}
	}
	if verdict(nil) != nil || verdict(context.Canceled) != errNeither {
		t.Error("an answer is well, and a cancel says nothing")
	}
}

// A time-out counts only if the server answered nothing else meanwhile and gives no
// sign of life; then its process is started again, and the other calls go on.
func TestTimeoutAndBreaker(t *testing.T) {
	for _, c := range []struct {
		name   string
		mute   bool // to all that comes after a call
		starts int64
	}{{"a slow tool", false, 1}, {"a dead server", true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var stuck atomic.Bool
				a := &script{}
				a.answer = func(s *script, m *wire.Message) (string, string) {
					switch {
					case m.Method == "tools/call" && s.starts.Load() == 1:
						stuck.Store(c.mute)
						return "", "never"
					case stuck.Load() && s.starts.Load() == 1:
						return "", "never"
					case m.Method == "ping":
						return `{}`, ""
					}
					return "", ""
				}
				w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) { s.Timeout = 20 * time.Second })
				defer w.stop()
				synctest.Wait()
				if _, err := w.call("a"); KindOf(err) != Timeout {
					t.Fatalf("got %v, want Timeout", err)
				}
				time.Sleep(15 * time.Second)
				w.want("a", Ready)
				if a.starts.Load() != c.starts {
					t.Errorf("%d starts, want %d", a.starts.Load(), c.starts)
				}
				if l := w.Listing("a"); l == nil || len(l.Tools) != 1 {
					t.Errorf("listing %v: tools go on being listed", l)
				}
			})
		})
	}
}

// A server that answers with 503 is left alone after three calls. Once it is well a
// probe finds that out, and calls pass again.
func TestBreakerOverHTTP(t *testing.T) {
	leaks(t)
	var down atomic.Bool
	var calls atomic.Int64
	f := &fakeHTTP{legacy: true}
	f.any = func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
		if m.Method == "tools/call" {
			calls.Add(1)
		}
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return down.Load()
	}
	newFake(t, f)
	set, err := NewSet([]Server{{Name: "a", Settings: &Settings{URL: f.URL, Protocol: "legacy"}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	defer func() { cancel(); <-done }()
	set.AwaitFirst(ctx, time.Minute, "a")
	call := func() error {
		_, err := set.Do(ctx, Target{Server: "a"}, &Call{Method: "tools/call", Name: "alive", Params: []byte(`{"name":"alive"}`)})
		return err
	}
	down.Store(true)
	var kinds []Kind
	for range 6 {
		kinds = append(kinds, KindOf(call()))
	}
	if want := []Kind{Unreachable, Unreachable, Unreachable, Open, Open, Open}; !equalKinds(kinds, want) || calls.Load() != 3 {
		t.Errorf("got %v with %d calls, want %v", kinds, calls.Load(), want)
	}
	if st, _ := set.Status("a"); st.State != Degraded || st.Breaker != "open" {
		t.Errorf("status %s, breaker %s", st.State, st.Breaker)
	}
	down.Store(false)
	eventually(t, "the probe", func() bool { st, _ := set.Status("a"); return st.State == Ready })
	if err := call(); err != nil {
		t.Error(err)
	}
}

func equalKinds(a, b []Kind) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// A server that asks for a pause gets it: calls fail at once, and nothing is sent.
func TestPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(&Set{}, Server{Name: "a", Settings: &Settings{}})
		now := time.Now()
		for _, err := range []error{nil, unwell(), context.Canceled, &Error{Kind: Busy, RetryAfter: time.Hour}} {
			if s.rests(err); s.pausing(now) != nil {
				t.Errorf("%v is no reason", err)
			}
		}
		s.rests(&Error{Kind: RateLimited, RetryAfter: 10 * time.Second})
		s.rests(&Error{Kind: Unreachable, RetryAfter: 2 * time.Second}) // a shorter one changes nothing
		err := s.pausing(now.Add(4 * time.Second))
		if e := (*Error)(nil); !errors.As(err, &e) || e.Kind != RateLimited || e.RetryAfter != 6*time.Second {
			t.Errorf("got %v", err)
		}
		if err := s.pausing(now.Add(10 * time.Second)); err != nil {
			t.Errorf("it is over: %v", err)
		}
		s.rests(&Error{Kind: RateLimited, RetryAfter: 1000 * time.Hour})
		if err := s.pausing(now.Add(mostQuiet)); err != nil {
			t.Errorf("no server rests for longer than %v: %v", mostQuiet, err)
		}
	})
}

// Calls beyond the places wait, so many and so long; what waits has its place in turn.
func TestQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		a := &script{}
		a.answer = func(_ *script, m *wire.Message) (string, string) {
			if m.Method == "tools/call" {
				<-gate
			}
			return "", ""
		}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) { s.MaxConcurrency, s.MaxQueue, s.QueueWait = 2, 3, 10*time.Second })
		defer w.stop()
		synctest.Wait()
		results := make(chan error, 8)
		for range 5 {
			go func() { _, err := w.call("a"); results <- err }()
		}
		synctest.Wait()
		if st, _ := w.Status("a"); st.InFlight != 2 || st.Queued != 3 {
			t.Errorf("%d in flight, %d wait", st.InFlight, st.Queued)
		}
		if _, err := w.call("a"); KindOf(err) != Busy || !strings.Contains(err.Error(), "max_queue") {
			t.Errorf("got %v, want Busy at once", err)
		}
		gate <- struct{}{}
		if err := <-results; err != nil {
			t.Error(err)
		}
		time.Sleep(11 * time.Second)
		for range 2 {
			if err := <-results; KindOf(err) != Busy || !strings.Contains(err.Error(), "queue_wait") {
				t.Errorf("got %v, want Busy after the wait", err)
			}
		}
		close(gate)
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if st, _ := w.Status("a"); st.InFlight != 0 || st.Queued != 0 {
			t.Errorf("%d in flight, %d wait at the end", st.InFlight, st.Queued)
		}
	})
}

// With serialize: process no two tool calls run at once, whoever makes them; all
// else goes on.
func TestSerializeProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var now, most atomic.Int64
		a := &script{}
		a.answer = func(_ *script, m *wire.Message) (string, string) {
			if m.Method == "tools/call" {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				now.Add(-1)
			}
			return "", ""
		}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) { s.Serialize = "process" })
		defer w.stop()
		synctest.Wait()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := w.call("a"); err != nil {
					t.Error(err)
				}
			})
		}
		began := time.Now()
		if _, err := w.Do(t.Context(), Target{Server: "a"}, &Call{Method: "tools/list"}); err != nil || time.Since(began) > time.Second {
			t.Errorf("a list took %v: %v", time.Since(began), err)
		}
		wg.Wait()
		if most.Load() != 1 {
			t.Errorf("%d at once", most.Load())
		}
	})
}

// The bytes of one server's requests are bounded; a small one always passes.
func TestRequestBytes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newByteBudget("a", &Settings{MaxInFlightBytes: 1 << 20, MaxMessageBytes: 1 << 20, QueueWait: time.Second})
		first, err := b.take(t.Context(), 700<<10)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := b.take(t.Context(), small); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := b.take(t.Context(), 700<<10); KindOf(err) != Busy || !strings.Contains(err.Error(), "max_in_flight_bytes") {
			t.Errorf("got %v, want Busy", err)
		}
		b.give(first)
		all, err := b.take(t.Context(), 1<<30) // one message may have it all
		if err != nil || all != 1<<20 {
			t.Errorf("%d, %v", all, err)
		}
		b.give(all)
	})
}

// Large answers take room for all that they may be, at once, and give it back: the
// others wait, however long, and none keeps another from its end.
func TestAnswerRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newByteBudget("a", &Settings{MaxInFlightBytes: 2 << 20, MaxMessageBytes: 1 << 20})
		reader := func(ctx context.Context, n int) *roomReader {
			return &roomReader{r: strings.NewReader(strings.Repeat("x", n)), ctx: ctx, b: b, most: 1 << 20}
		}
		read := func(r *roomReader) (int64, error) { return io.Copy(io.Discard, struct{ io.Reader }{r}) }
		little := reader(t.Context(), roomFree)
		if n, err := read(little); n != roomFree || err != nil || little.held != 0 {
			t.Errorf("%d bytes, %v, %d held", n, err, little.held)
		}
		var ended atomic.Int64
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				r := reader(t.Context(), 900<<10)
				defer r.release()
				if n, err := read(r); n != 900<<10 || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
				time.Sleep(time.Minute)
				ended.Add(1)
			})
		}
		time.Sleep(90 * time.Second)
		if n := ended.Load(); n != 2 {
			t.Errorf("%d at once, want 2", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := read(reader(ctx, 900<<10)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v: who waits no more gets no room", err)
		}
		wg.Wait()
		if !b.sem.TryAcquire(2 << 20) {
			t.Error("room is missing at the end")
		}
	})
}

// However many calls were on a connection when it ended, it ended once: calls that
// come then wake the server, and wait for it.
func TestOneEndCountsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		a.answer = func(s *script, m *wire.Message) (string, string) {
			if m.Method == "tools/call" && s.starts.Load() == 1 {
				return "", "never"
			}
			return "", ""
		}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		synctest.Wait()
		results := make(chan error, 5)
		for range 5 {
			go func() { _, err := w.call("a"); results <- err }()
		}
		synctest.Wait()
		a.close()
		for range 5 {
			if err := <-results; KindOf(err) != Uncertain {
				t.Errorf("got %v, want Uncertain", err)
			}
		}
		if _, err := w.call("a"); err != nil {
			t.Errorf("the next call: %v", err)
		}
		if st, _ := w.Status("a"); st.Breaker != "closed" || a.starts.Load() != 2 {
			t.Errorf("breaker %s after %d starts", st.Breaker, a.starts.Load())
		}
	})
}

// A connection takes calls, or it is retired: there is nothing between.
func TestHeldRetire(t *testing.T) {
	h := newHeld(nil, "", nil)
	if !h.begin() || h.retire(false, nil) || h.retired() || h.calls() != 1 {
		t.Fatal("it was retired under a call")
	}
	h.end()
	if !h.retire(false, nil) || h.begin() || h.calls() != 0 {
		t.Error("a retired one takes calls")
	}
	h = newHeld(nil, "", nil)
	h.begin()
	if !h.retire(true, nil) || h.retire(true, nil) || h.begin() || h.calls() != 1 {
		t.Error("an urgent end does not wait for a call")
	}
	h.end()
	if h.calls() != 0 || !h.retired() {
		t.Error("calls are left")
	}
}
