package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Whoever passes an error on names the server once, and what an agent is told has
// the name in front already.
func TestNamedOnce(t *testing.T) {
	inner := func(op string) *Error {
		return &Error{Server: "s", Op: op, Kind: Timeout, Err: errors.New("no sign of life")}
	}
	o := newOwner(newServer(new(Set), Server{Name: "s", Settings: &Settings{}}), plainRoute)
	tripped := func(err error) error {
		b := newBreaker("s", Breaker{Failures: 3})
		b.last = err
		return b.refusal()
	}
	closed := &Error{Server: "s", Kind: Closed, Err: errClosed}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"under a call":                   {o.deadUnder(closed, inner("tools/list")), "upstream s: tools/list: no sign of life"},
		"under a call, without a method": {o.deadUnder(closed, inner("")), "upstream s: no sign of life"},
		"under a call, of another kind":  {o.deadUnder(inner("x"), inner("tools/list")), "upstream s: x: no sign of life"},
		"breaker":                        {tripped(o.deadUnder(closed, inner("tools/list"))), "upstream s: its breaker is open: 3 calls in a row found it unwell, so none is sent for a while; the last: tools/list: no sign of life"},
		"explained":                      {o.explain(t.Context(), inner("initialize")), "upstream s: initialize: no sign of life"},
		"handshake":                      {handshakeError("s", errors.Join(errAfresh, inner("initialize"))), "upstream s: initialize: no sign of life"},
		"dying":                          {asDying(inner("initialize")), "upstream s: initialize: no sign of life"},
		"both transports":                {bothFailed(&Resolved{Server: "s"}, inner("a"), inner("b")), "upstream s: connect: Streamable HTTP: no sign of life; HTTP+SSE: no sign of life"},
		"subscription":                   {o.srv.noSubscription(Timeout, inner("")), "upstream s: resources/subscribe: no sign of life"},
		"nested":                         {&Error{Server: "s", Op: "outer", Err: inner("inner")}, "upstream s: outer: inner: no sign of life"},
		"nested twice":                   {&Error{Server: "s", Err: &Error{Server: "s", Op: "b", Err: inner("c")}}, "upstream s: b: c: no sign of life"},
		"about another":                  {&Error{Server: "t", Op: "outer", Err: inner("inner")}, "upstream t: outer: upstream s: inner: no sign of life"},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
		if KindOf(tc.err) == Uncertain && strings.Contains(errors.Unwrap(tc.err).Error(), "upstream") {
			t.Errorf("%s: an agent is told %s", name, errors.Unwrap(tc.err))
		}
	}
	if got := (&walker{server: "s"}).told(inner("prompts/list")); len(got) != 1 || got[0] != "prompts/list: page 2: no sign of life" {
		t.Errorf("got %q", got)
	}
}

// told is what a walker says about a failure on a later page.
func (w *walker) told(err error) []string {
	w.conn = &secondPage{err: err}
	w.list(context.Background(), "prompts/list", "prompts")
	return w.faults
}

// A secondPage fails at the second page.
type secondPage struct {
	conn
	err   error
	pages int
}

func (c *secondPage) Do(context.Context, *Call) (Response, error) {
	if c.pages++; c.pages > 1 {
		return Response{}, c.err
	}
	return Response{Result: []byte(`{"prompts":[],"nextCursor":"2"}`)}, nil
}

// A server that answers nothing any more, not even when it is asked whether it is
// there, is found dead soon after a call's time-out. It is started again, and serves.
func TestMuteIsStartedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mute atomic.Bool
		a := &script{early: func(m *wire.Message) (string, string) {
			if strings.Contains(string(m.Params), "stuck") {
				mute.Store(true)
			}
			if mute.Load() || strings.Contains(string(m.Params), "long") {
				return "", "never"
			}
			return "", ""
		}}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) { s.Timeout = time.Second })
		defer w.stop()
		time.Sleep(500 * time.Millisecond)
		long := make(chan error)
		go func() {
			_, err := w.Do(t.Context(), Target{Server: "a"}, &Call{Method: "tools/call", Params: []byte(`{"name":"long"}`), Timeout: time.Minute})
			long <- err
		}()
		begin := time.Now()
		_, err := w.Do(t.Context(), Target{Server: "a"}, &Call{Method: "tools/call", Params: []byte(`{"name":"stuck"}`)})
		if KindOf(err) != Timeout || time.Since(begin) > 2*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		err = <-long
		if took := time.Since(begin); KindOf(err) != Uncertain || took > time.Second+2*suspectWait+time.Second {
			t.Errorf("the other call: %v after %v", err, took)
		}
		if got := fmt.Sprint(err); strings.Count(got, "upstream a") != 1 || !strings.Contains(got, "within 5s") {
			t.Errorf("got %s", got)
		}
		mute.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.want("a", Ready)
		if _, err := w.call("a"); err != nil || a.starts.Load() != 2 {
			t.Errorf("%v after %d starts, want two", err, a.starts.Load())
		}
	})
}
