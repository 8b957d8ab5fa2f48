// Command loadgen is a closed-loop MCP load generator. It drives any number of
// targets in one run, taking turns in short slices (direct, a, b, c, direct,
// ...), and prints each target's figures next to ratios against the first
// target, formed slice pair by slice pair, so that drift of the machine cancels.
//
//	loadgen -t direct=http://127.0.0.1:9400/t/20 \
//	        -t floor=http://127.0.0.1:9401/t/20,pid=123 \
//	        -t peer=http://127.0.0.1:9402/mcp,pid=124,prefix=up__,era=2025
//	        -w echo1k:c=1,echo1k:c=16,echo100k:c=8,list:c=1 -rounds 5 -slice 1s
//
// Other modes: -sessions N (RSS per N idle sessions) and -cold "cmd args" (time
// from exec to the first complete tools/list).
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

type targets []*target

func (ts *targets) String() string { return "" }
func (ts *targets) Set(s string) error {
	t, err := parseTarget(s)
	if err == nil {
		*ts = append(*ts, t)
	}
	return err
}

func us(d float64) string {
	if d >= 10000 || d <= -10000 {
		return fmt.Sprintf("%.1fms", d/1000)
	}
	return fmt.Sprintf("%.0fus", d)
}

func main() {
	var ts targets
	flag.Var(&ts, "t", "target name=url[,pid=,prefix=,era=2025|2026,hdr=K=V,wrap=tool:namearg:jsonarg]; the first is the baseline")
	wl := flag.String("w", "echo1k:c=1,echo1k:c=16,echo100k:c=8,list:c=1", "workloads")
	rounds := flag.Int("rounds", 5, "rounds")
	sl := flag.Duration("slice", time.Second, "length of a slice")
	warm := flag.Duration("warm", 500*time.Millisecond, "uncounted warm-up per target and workload")
	sess := flag.Int("sessions", 0, "session mode: RSS before and after opening this many sessions")
	hold := flag.Bool("hold", false, "session mode: also hold one GET stream per session")
	cold := flag.String("cold", "", "cold-start mode: shell command that starts the target (exec form)")
	coldN := flag.Int("coldn", 5, "cold starts")
	want := flag.Int("want", 1, "cold start: tools wanted in the list")
	jsonOut := flag.String("json", "", "append one JSON line per target and workload to this file")
	flag.Parse()
	if len(ts) == 0 {
		fmt.Fprintln(os.Stderr, "no -t")
		os.Exit(2)
	}
	if *cold != "" {
		coldStart(ts[0], *cold, *coldN, *want)
		return
	}
	if *sess > 0 {
		for _, t := range ts {
			sessions(t, *sess, *hold)
		}
		return
	}
	var ws []work
	for s := range strings.SplitSeq(*wl, ",") {
		w, err := parseWork(s)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		ws = append(ws, w)
	}
	var jf *os.File
	if *jsonOut != "" {
		jf, _ = os.OpenFile(*jsonOut, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
	for _, w := range ws {
		all := make([][]slice, len(ts))
		for i, t := range ts {
			if t.dead == "" {
				if s := runSlice(t, w, *warm); s.n == 0 {
					t.dead = s.firstErr
					fmt.Printf("%-18s %-14s FAILS: %.200s\n", t.name, w, s.firstErr)
				}
			}
			all[i] = nil
		}
		for range *rounds {
			for i, t := range ts {
				if t.dead != "" {
					continue
				}
				all[i] = append(all[i], runSlice(t, w, *sl))
			}
		}
		fmt.Printf("\n%s, %d rounds of %v\n", w, *rounds, *sl)
		fmt.Printf("%-18s %9s %9s %9s %8s [%5s-%5s] %9s %9s %9s %8s %6s %s\n", "target", "req/s", "p50", "p99", "thr/dir", "min", "max", "+p50", "+p99", "cpu/call", "peakMB", "errs", "note")
		for i, t := range ts {
			if t.dead != "" || len(all[i]) == 0 {
				t.dead = ""
				continue
			}
			var rps, p50, p99, ratio, a50, a99, cpu []float64
			errs, hwm, note := 0, 0, ""
			for k, s := range all[i] {
				if s.n == 0 {
					errs += s.errs
					note = s.firstErr
					continue
				}
				r := float64(s.n) / s.dur.Seconds()
				m, q := float64(pct(s.lat, .5))/1e3, float64(pct(s.lat, .99))/1e3
				rps, p50, p99 = append(rps, r), append(p50, m), append(p99, q)
				cpu = append(cpu, float64(s.cpu.Microseconds())/float64(s.n))
				if k < len(all[0]) && all[0][k].n > 0 {
					b := all[0][k]
					ratio = append(ratio, r/(float64(b.n)/b.dur.Seconds()))
					a50 = append(a50, m-float64(pct(b.lat, .5))/1e3)
					a99 = append(a99, q-float64(pct(b.lat, .99))/1e3)
				}
				errs += s.errs
				hwm = max(hwm, s.hwm)
				if s.firstErr != "" {
					note = s.firstErr
				}
				if s.tools > 0 && note == "" {
					note = fmt.Sprintf("%d tools, %d bytes", s.tools, s.bytes)
				}
			}
			if len(rps) == 0 {
				fmt.Printf("%-18s FAILS: %.160s\n", t.name, note)
				continue
			}
			fmt.Printf("%-18s %9.0f %9s %9s %8.3f [%5.3f-%5.3f] %9s %9s %9s %8.1f %6d %.120s\n", t.name, median(rps), us(median(p50)), us(median(p99)), median(ratio), slices.Min(ratio), slices.Max(ratio), us(median(a50)), us(median(a99)), us(median(cpu)), float64(hwm)/1024, errs, note)
			if jf != nil {
				json.NewEncoder(jf).Encode(map[string]any{"workload": w.String(), "target": t.name, "era": t.era, "rps": median(rps), "p50us": median(p50), "p99us": median(p99), "ratio": median(ratio), "added_p50us": median(a50), "added_p99us": median(a99), "cpu_us_per_call": median(cpu), "peak_mb": float64(hwm) / 1024, "errors": errs})
			}
		}
	}
}
