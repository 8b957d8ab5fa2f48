package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func procStat(pid int) (cpu time.Duration, rssKB, hwmKB int) {
	if pid == 0 {
		return
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		u, _ := strconv.Atoi(f[11])
		s, _ := strconv.Atoi(f[12])
		cpu = time.Duration(u+s) * 10 * time.Millisecond
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		for ln := range strings.SplitSeq(string(b), "\n") {
			f := strings.Fields(ln)
			if len(f) < 2 {
				continue
			}
			switch f[0] {
			case "VmRSS:":
				rssKB, _ = strconv.Atoi(f[1])
			case "VmHWM:":
				hwmKB, _ = strconv.Atoi(f[1])
			}
		}
	}
	return
}

// treeRSS is the resident size of a process and all its descendants, and their
// number: bridges that start one child per session hide their cost there.
func treeRSS(pid int) (kb, n int) {
	if pid == 0 {
		return
	}
	kids := map[int][]int{}
	es, _ := os.ReadDir("/proc")
	for _, e := range es {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		pp, _ := strconv.Atoi(f[1])
		kids[pp] = append(kids[pp], id)
	}
	todo := []int{pid}
	for len(todo) > 0 {
		id := todo[0]
		todo = append(todo[1:], kids[id]...)
		_, r, _ := procStat(id)
		kb += r
		n++
	}
	return
}

// ---- workloads ----

type work struct {
	kind string
	c    int
	size int
}

func (w work) String() string { return fmt.Sprintf("%s:c=%d", w.kind, w.c) }

func parseWork(s string) (work, error) {
	k, rest, _ := strings.Cut(s, ":")
	w := work{kind: k, c: 1}
	if v, ok := strings.CutPrefix(rest, "c="); ok {
		w.c, _ = strconv.Atoi(v)
	}
	if sz, ok := strings.CutPrefix(k, "echo"); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(sz, "k"))
		if err != nil {
			return w, fmt.Errorf("workload %q", s)
		}
		w.size = n
		if strings.HasSuffix(sz, "k") {
			w.size = n * 1024
		}
	} else if k != "list" {
		return w, fmt.Errorf("workload %q", s)
	}
	return w, nil
}
