package faults

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// calm calls the healthy servers all the time.
type calm struct {
	mu       sync.Mutex
	stop     func()
	callers  sync.WaitGroup
	failures []string
	calls    []sample
	began    time.Time
	ended    time.Time
}

// A sample is one call of a healthy server.
type sample struct {
	at   time.Time
	took time.Duration
}

func (c *calm) begin(url string) {
	stop := make(chan struct{})
	c.began = time.Now()
	c.stop = sync.OnceFunc(func() { close(stop) })
	for _, name := range healthy {
		c.callers.Go(func() { c.callOn(url, name, stop) })
	}
}

func (c *calm) callOn(url, name string, stop <-chan struct{}) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	a := &mcptest.Agent{URL: url, Client: client}
	tick := time.NewTicker(calmRate)
	defer tick.Stop()
	for {
		c.call(a, name)
		select {
		case <-stop:
			c.call(a, name)
			return
		case <-tick.C:
		}
	}
}

func (c *calm) call(a *mcptest.Agent, name string) {
	start := time.Now()
	r, err := a.Call(background, name, "{}")
	took := time.Since(start)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, sample{start, took})
	if (err != nil || r.Content() != "pong") && len(c.failures) < 5 {
		c.failures = append(c.failures, fmt.Sprintf("%s: %v %.300s", name, err, jsonOf(r)))
	}
}

// end waits for the calls under way, and for a while that they can be judged by. It
// may be called again.
func (c *calm) end() {
	time.Sleep(time.Until(c.began.Add(begun)))
	c.stop()
	c.callers.Wait()
	if c.ended.IsZero() {
		c.ended = time.Now()
	}
}

func (c *calm) check(t *testing.T) {
	t.Helper()
	for _, f := range c.failures {
		t.Errorf("a healthy server's call failed: %s", f)
	}
	slices.SortFunc(c.calls, func(a, b sample) int { return cmp.Compare(a.took, b.took) })
	if late := c.calls[max(0, len(c.calls)-1-mayBeLate)].took; late > calmTime {
		t.Errorf("more than %d calls of healthy servers took %v or longer", mayBeLate, late)
	}
}

// slowest is what all but a share of the calls of some time took; zero without calls.
func (c *calm) slowest(from, to time.Time, share float64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var took []time.Duration
	for _, s := range c.calls {
		if s.at.After(from) && s.at.Before(to) {
			took = append(took, s.took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)-1-int(share*float64(len(took)-1))]
}

// begun is how long the healthy servers are called at least.
const begun = 1500 * time.Millisecond

// compare holds that no fault makes the healthy servers slower: with the program that
// has no evil server, at the same time and on the same machine. One world has too few
// calls to judge more than their middle on a busy machine, and its own start is among
// them; all together have enough for the slowest of a hundred.
func (c *calm) compare(t *testing.T) {
	t.Helper()
	if control.began.IsZero() {
		return
	}
	here, there := c.slowest(c.began, c.ended, 0.5), control.slowest(c.began, c.ended, 0.5)
	if here > 2*there+calmMore {
		t.Errorf("half of the calls of healthy servers take over %v, elsewhere %v at that time", here, there)
	}
	everywhere.mu.Lock()
	defer everywhere.mu.Unlock()
	everywhere.calls = append(everywhere.calls, c.calls...)
}

// control are the calls of a program that has no evil server, and everywhere those of
// all that have one.
var control, everywhere calm

// withControl runs that program until the test has ended, with all its subtests.
func withControl(t *testing.T) {
	t.Helper()
	s := mcptest.StartSidecar(t, "mcp_servers:\n"+calmEntries(t))
	a := &mcptest.Agent{URL: s.URL, Client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(a.Client.CloseIdleConnections)
	(&world{s: s, a: a}).complete(t)
	control.begin(s.URL)
	t.Cleanup(func() {
		control.end()
		here, there := everywhere.slowest(control.began, control.ended, 0.01), control.slowest(control.began, control.ended, 0.01)
		t.Logf("a hundredth of the calls of healthy servers take over %v, without an evil one %v", here, there)
		if here > 2*there+calmMore {
			t.Error("that is too much")
		}
	})
}
