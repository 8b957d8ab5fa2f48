package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest/evil"
)

// The numbers of BenchmarkIsolation.
const (
	windowTime = 5 * time.Second
	settleTime = 500 * time.Millisecond
	perServer  = 2 // callers of each healthy server
	perFault   = 4 // callers of each evil one
	healthRate = 25 * time.Millisecond
	faultRate  = 100 * time.Millisecond
	atOnce     = 3 // evil servers at work in a window
	// mayMove is how much the calls of healthy servers may be slower beside evil ones.
	mayMove = 1.10
	// enough is how many pairs of windows a verdict needs.
	enough = 8
)

// rotation are the faults that show when they are called, three after three. Each
// three has something that hangs, something that ends or refuses, and something large.
var rotation = strings.Fields(`
	S3e U1f S4a   U12 S10c U4a   S4d U2-500 S7a   U4h S10e U4b   U6a S4b S4c
	U12 U1d U5a   S3e U2-503 U5k   S8 U13 U4d   U4h U2-429r S7c`)

// An isolation is two programs with the same healthy servers, of which one has evil
// servers as well.
type isolation struct {
	here, there string // the URLs of both
	pairs       []pair
}

// A pair is two windows of time, without and with faults.
type pair struct {
	faults []string
	calm   window
	evil   window
}

// A window is how long the slowest hundredth of the healthy servers' calls took at
// least, in the program with evil servers and in the other one.
type window struct{ here, there time.Duration }

// BenchmarkIsolation measures by how much calls of healthy servers become slower
// while others in the same program fail in many ways. Evil servers need the machine's
// time, too, so each window is compared with what another program, which has only the
// healthy servers, takes in the same window.
func BenchmarkIsolation(b *testing.B) {
	i := newIsolation(b)
	for b.Loop() {
		i.pair(b)
	}
	i.verdict(b)
}

func newIsolation(b *testing.B) *isolation {
	b.Helper()
	text := "mcp_servers:\n" + calmEntries(b)
	alone := mcptest.StartSidecar(b, text)
	ids := slices.Clone(rotation)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		text += evil.StartApart(b, id).Entry(nameOf(id), "timeout: 2s", "max_message_bytes: 4000000",
			"supports_parallel_tool_calls: true", "breaker: {failures: -1}", "lifecycle: {retry_pause: 200ms, retry_pause_max: 1s, wake_wait: 2s}")
	}
	beset := mcptest.StartSidecar(b, text)
	for _, s := range []*mcptest.Sidecar{alone, beset} {
		w := &world{s: s, a: &mcptest.Agent{URL: s.URL, Client: &http.Client{Transport: &http.Transport{}}}}
		b.Cleanup(w.a.Client.CloseIdleConnections)
		w.complete(b)
	}
	i := &isolation{here: beset.URL, there: alone.URL}
	i.measure(b) // until everything is warm
	return i
}

func nameOf(id string) string {
	return "evil_" + strings.ReplaceAll(strings.ToLower(id), "-", "_")
}

// pair measures two windows; each other pair has them the other way round.
func (i *isolation) pair(b *testing.B) {
	at := len(i.pairs) * atOnce % len(rotation)
	p := pair{faults: rotation[at : at+atOnce]}
	if len(i.pairs)%2 == 0 {
		p.calm = i.measure(b)
		p.evil = i.beset(b, p.faults)
	} else {
		p.evil = i.beset(b, p.faults)
		p.calm = i.measure(b)
	}
	i.pairs = append(i.pairs, p)
	b.Logf("%-20s p99 %8v -> %8v, without evil servers %8v -> %8v: %.2f", strings.Join(p.faults, " "),
		rounded(p.calm.here), rounded(p.evil.here), rounded(p.calm.there), rounded(p.evil.there), p.moved())
}

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// moved is by which factor healthy servers became slower, that of the machine taken out.
func (p *pair) moved() float64 {
	return float64(p.evil.here) / float64(p.calm.here) * float64(p.calm.there) / float64(p.evil.there)
}

// beset measures while these servers are called, and lets them come to rest.
func (i *isolation) beset(b *testing.B, faults []string) window {
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for _, id := range faults {
		for range perFault {
			callers.Go(func() { i.provoke(nameOf(id), stop) })
		}
	}
	time.Sleep(settleTime)
	w := i.measure(b)
	close(stop)
	callers.Wait()
	time.Sleep(settleTime)
	return w
}

// provoke calls misbehave; whatever comes of it is right.
func (i *isolation) provoke(name string, stop <-chan struct{}) {
	a, done := agentOf(i.here)
	defer done()
	tick := time.NewTicker(faultRate)
	defer tick.Stop()
	for {
		a.Call(background, "mcp_"+name+"_misbehave", `{"key":"k"}`)
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

func agentOf(url string) (a *mcptest.Agent, done func()) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	return &mcptest.Agent{URL: url, Client: client}, client.CloseIdleConnections
}

// measure calls the healthy servers of both programs for the time of a window, one
// call here, one there.
func (i *isolation) measure(b *testing.B) window {
	b.Helper()
	var callers sync.WaitGroup
	var mu sync.Mutex
	var here, there []time.Duration
	end := time.Now().Add(windowTime)
	for _, tool := range healthy {
		for range perServer {
			callers.Go(func() {
				h, t := i.inTurn(b, tool, end)
				mu.Lock()
				defer mu.Unlock()
				here, there = append(here, h...), append(there, t...)
			})
		}
	}
	callers.Wait()
	return window{p99(here), p99(there)}
}

func (i *isolation) inTurn(b *testing.B, tool string, end time.Time) (here, there []time.Duration) {
	ours, done := agentOf(i.here)
	defer done()
	others, done := agentOf(i.there)
	defer done()
	tick := time.NewTicker(healthRate)
	defer tick.Stop()
	for n := 0; time.Now().Before(end); n++ {
		if n%2 == 0 {
			here, there = append(here, timed(b, ours, tool)), append(there, timed(b, others, tool))
		} else {
			there, here = append(there, timed(b, others, tool)), append(here, timed(b, ours, tool))
		}
		<-tick.C
	}
	return here, there
}

// timed is how long a call takes, which must not fail.
func timed(b *testing.B, a *mcptest.Agent, tool string) time.Duration {
	start := time.Now()
	r, err := a.Call(background, tool, "{}")
	if err != nil || r.Content() != "pong" {
		b.Errorf("%s: %v %.300s", tool, err, jsonOf(r))
	}
	return time.Since(start)
}

func p99(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)-1-len(all)/100]
}

// verdict is about the median of all pairs, which a moment of noise does not move.
func (i *isolation) verdict(b *testing.B) {
	var moved, plain []float64
	for _, p := range i.pairs {
		moved = append(moved, p.moved())
		plain = append(plain, float64(p.evil.here)/float64(p.calm.here))
	}
	slices.Sort(moved)
	slices.Sort(plain)
	middle := moved[len(moved)/2]
	b.ReportMetric(middle, "p99-ratio")
	b.ReportMetric(plain[len(plain)/2], "p99-ratio-with-machine")
	b.ReportMetric(0, "ns/op")
	text := fmt.Sprintf("healthy servers' p99 moved by a factor of %.3f (median of %d pairs of windows, half of them between %.2f and %.2f)",
		middle, len(moved), moved[len(moved)/4], moved[len(moved)*3/4])
	switch {
	case len(moved) < enough:
		b.Logf("%s: too few for a verdict", text)
	case middle > mayMove:
		b.Errorf("%s, want %.2f at most", text, mayMove)
	default:
		b.Log(text)
	}
}
