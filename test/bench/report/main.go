// Command report turns loadgen's lines into the table of docs/BENCHMARKS.md.
//
//	report FILE.jsonl
//
// Every figure is a ratio to the target "floor" (httputil.ReverseProxy) or to
// "direct" (the upstream itself) of the same run: the machine drops out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// A line is one target under one workload.
type line struct {
	Workload, Target string
	Ratio            float64 `json:"ratio"`
	AddedP50         float64 `json:"added_p50us"`
	CPU              float64 `json:"cpu_us_per_call"`
	PeakMB           float64 `json:"peak_mb"`
	Errors           int
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: report FILE.jsonl")
		os.Exit(2)
	}
	f, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer f.Close()
	floors := map[string]line{}
	var all []line
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var l line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if l.Target == "floor" {
			floors[l.Workload] = l
		}
		all = append(all, l)
	}
	fmt.Println("| workload | target | CPU per call | CPU / floor | added p50 / floor | throughput / direct | peak MB | errors |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, l := range all {
		fl := floors[l.Workload]
		fmt.Printf("| %s | %s | %s | %s | %s | %.2f | %.1f | %d |\n", l.Workload, l.Target,
			cpu(l.CPU), over(l.CPU, fl.CPU), over(l.AddedP50, fl.AddedP50), l.Ratio, l.PeakMB, l.Errors)
	}
}

func cpu(us float64) string {
	if us == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f us", us)
}

// over is a/b, or nothing when one of them was not measured.
func over(a, b float64) string {
	if a <= 0 || b <= 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", a/b)
}
