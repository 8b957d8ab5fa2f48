package proxy

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// Who holds the most loses what it has been reading the longest, and nobody does who
// reads in time.
func TestOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox{most: 10 << 20}
		var cut []string
		enter := func(caller, name string, mib int) func() {
			return o.enter(caller, mib<<20, func() { cut = append(cut, name) })
		}
		for range 100 {
			o.enter("many", smallAnswer, func() { t.Error("a small answer was cut") })
		}
		enter("a", "a1", 3)
		enter("b", "b1", 4)
		time.Sleep(time.Second)
		enter("a", "a2", 3)
		if o.held != 10<<20 || len(cut) > 0 {
			t.Fatalf("%d held, cut %v", o.held, cut)
		}
		leave := enter("c", "c1", 8)
		if len(cut) > 0 {
			t.Fatalf("cut %v though all have time", cut)
		}
		leave()
		time.Sleep(5 * time.Second)
		leave = enter("c", "c1", 1)
		if want := []string{"a1"}; !slices.Equal(cut, want) {
			t.Fatalf("cut %v, want %v", cut, want)
		}
		leave()
		leave()
		enter("c", "c2", 9)
		if want := []string{"a1", "b1", "a2"}; !slices.Equal(cut, want) || o.held != 9<<20 {
			t.Fatalf("cut %v, want %v; %d held", cut, want, o.held)
		}
		if len(o.open) != 1 || len(o.byWhom) != 1 {
			t.Errorf("%d answers of %v are left", len(o.open), o.byWhom)
		}
	})
}

// Agents that do not read cannot take all memory, and do not keep others from
// theirs.
func TestSlowAgents(t *testing.T) {
	big := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 8<<20) + `"}]}`)
	w := newWorld(t, func(o *Options) { o.Limits.InFlightBytes = 20 << 20 })
	w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) {
		return upstream.Response{Result: big}, nil
	}
	body := modernBody("1", "tools/call", `{"name":"mcp_files_slow"}`)
	for range 3 {
		c, err := net.Dial("tcp", w.srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.(*net.TCPConn).SetReadBuffer(4 << 10)
		r := w.request("POST", "/mcp", body, "Mcp-Protocol-Version", versionModern, "Mcp-Method", "tools/call", "Mcp-Name", "mcp_files_slow")
		if err := r.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	held := func() int64 { w.front.outbox.mu.Lock(); defer w.front.outbox.mu.Unlock(); return w.front.outbox.held }
	for end := time.Now().Add(10 * time.Second); held() < 24<<20; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are held", held())
		}
	}
	w.front.outbox.mu.Lock()
	for _, g := range w.front.outbox.open {
		g.began = g.began.Add(-readingTime)
	}
	w.front.outbox.mu.Unlock()
	r := w.modern("2", "tools/call", "mcp_files_slow", `{"name":"mcp_files_slow"}`)
	if r.status != http.StatusOK || len(r.body) < len(big) {
		t.Errorf("who reads got %d, %d bytes", r.status, len(r.body))
	}
	if n := w.front.Stats().Slow; n != 2 || held() > 20<<20 {
		t.Errorf("%d answers were given up, want 2; %d bytes are held", n, held())
	}
}
