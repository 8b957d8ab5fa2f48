package proxy

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// unused reports whether all room was given back.
func (b *budget) unused() bool {
	for _, p := range []*pool{b.small, b.large} {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.free != p.max || len(p.held) != 0 || len(p.queue) != 0 {
			return false
		}
	}
	return true
}

func TestNewcomersWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(100, 50)
		for _, c := range []string{"a", "b"} {
			if err := p.take(t.Context(), c, 40); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if err := p.take(t.Context(), "c", 30); err != errNoRoom || time.Since(start) != budgetWait {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		go func() {
			time.Sleep(time.Second)
			p.release("a", 40)
		}()
		if err := p.take(t.Context(), "c", 30); err != nil {
			t.Errorf("after a release: %v", err)
		}
	})
}

// Who is over its share waits for itself, and holds nobody up; else the order
// is that of coming.
func TestSharesOfCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(100, 10)
		if err := p.take(t.Context(), "a", 50); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var got []string
		wait := func(name, caller string, n int64) {
			go func() {
				if err := p.take(t.Context(), caller, n); err == nil {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, name)
				}
			}()
			synctest.Wait()
		}
		wait("over", "a", 1)
		wait("fits", "b", 40)
		wait("large", "c", 45)
		wait("late", "d", 5)
		want := func(step, names string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(got)
			if s := strings.Join(got, " "); s != names {
				t.Errorf("%s: got %q, want %q", step, s, names)
			}
			got = nil
		}
		want("at first", "fits")
		p.release("b", 40)
		want("room for two", "large late")
		p.release("a", 50)
		want("in the end", "over")
	})
}

// A message of the largest size fits into any budget.
func TestLargestMessageFits(t *testing.T) {
	b := newBudget(1<<20, 1<<20)
	r := room{budget: b, caller: "a"}
	for _, n := range []int64{smallBody, 2 * smallBody, 1<<20 + 1} {
		if err := r.widen(t.Context(), n); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	r.release()
	if !b.unused() {
		t.Errorf("not all is free: %+v %+v", b.small, b.large)
	}
}

func TestOverloadAnswers503(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, l *pipeListener) {
		small := w.front.budget.small
		small.give("another", small.max)
		c := l.dial()
		defer c.Close()
		go io.WriteString(c, httpRequest(pingBody))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("got %+v, %v", resp, err)
		}
		small.release("another", small.max)
	})
}

// Large messages of one caller, held by a tool that hangs, keep neither its own
// small ones out nor another's large ones.
func TestOneCallerLeavesRoom(t *testing.T) {
	const size = 1 << 20
	bubble(t, func(t *testing.T, w *world, l *pipeListener) {
		h := newHanging()
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			if c.Name == "slow" {
				return h.answer(ctx, c)
			}
			return result(`{"content":[]}`), nil
		}
		large := func(tool string) string {
			return request("tools/call", `{"name":"`+tool+`","arguments":{"x":"`+strings.Repeat("x", size)+`"}}`)
		}
		for range 16 {
			c := l.dial()
			defer c.Close()
			go io.WriteString(c, asCaller(token, large("mcp_files_slow")))
		}
		time.Sleep(2 * budgetWait)
		for _, tt := range []struct{ name, token, body string }{
			{"another's", token + "-2", large("mcp_files_read_file")},
			{"its own small one", token, request("tools/call", `{"name":"mcp_files_read_file"}`)},
		} {
			c := l.dial()
			defer c.Close()
			go io.WriteString(c, asCaller(tt.token, tt.body))
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != 200 {
				t.Errorf("%s: %+v, %v", tt.name, resp, err)
			}
		}
		close(h.release)
	}, func(o *Options) {
		o.Limits = Limits{InFlightBytes: 8 * size, RequestBytes: 2 * size}
		o.Callers = twoCallers()
	})
}
