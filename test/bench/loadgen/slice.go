package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type slice struct {
	n, errs  int
	dur      time.Duration
	lat      []time.Duration
	cpu      time.Duration
	hwm      int
	firstErr string
	tools    int
	bytes    int
}

func (t *target) ready(n int) error {
	for len(t.clients) < n {
		c := &client{t: t}
		if err := c.open(); err != nil {
			return err
		}
		t.clients = append(t.clients, c)
	}
	return nil
}

func runSlice(t *target, w work, d time.Duration) (s slice) {
	if err := t.ready(w.c); err != nil {
		s.errs, s.firstErr = 1, err.Error()
		return
	}
	text := strings.Repeat("abcdefghijklmnop", w.size/16)
	var stop atomic.Bool
	res := make([]slice, w.c)
	cpu0, _, _ := procStat(t.pid)
	if t.pid != 0 {
		os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", t.pid), []byte("5"), 0)
	}
	start := time.Now()
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	var wg sync.WaitGroup
	for i := range w.c {
		wg.Go(func() {
			c, r := t.clients[i], &res[i]
			for !stop.Load() {
				t0 := time.Now()
				var err error
				if w.kind == "list" {
					r.tools, r.bytes, err = c.list()
				} else {
					err = c.call(text)
				}
				if err != nil {
					r.errs++
					if r.firstErr == "" {
						r.firstErr = err.Error()
					}
					if r.errs > 20 {
						return
					}
					continue
				}
				r.n++
				r.lat = append(r.lat, time.Since(t0))
			}
		})
	}
	wg.Wait()
	s.dur = time.Since(start)
	cpu1, _, hwm := procStat(t.pid)
	s.cpu, s.hwm = cpu1-cpu0, hwm
	for _, r := range res {
		s.n += r.n
		s.errs += r.errs
		s.lat = append(s.lat, r.lat...)
		if s.firstErr == "" {
			s.firstErr = r.firstErr
		}
		s.tools, s.bytes = max(s.tools, r.tools), max(s.bytes, r.bytes)
	}
	slices.Sort(s.lat)
	return
}

func pct(l []time.Duration, p float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(len(l)-1, int(p*float64(len(l))))]
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	if len(v)%2 == 1 {
		return v[len(v)/2]
	}
	return (v[len(v)/2-1] + v[len(v)/2]) / 2
}
