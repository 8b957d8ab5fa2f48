package mcptest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Process is one as Linux' /proc has it.
type Process struct {
	PID, Parent int
	Zombie      bool
	// Born tells it from another that got its id later.
	Born string
	// Line is the command line, its words with blanks between.
	Line string
}

// Processes returns all that there are; none where there is no /proc.
func Processes() (all []Process) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(f) < 20 {
			continue
		}
		p := Process{Zombie: f[0][0] == 'Z' || f[0][0] == 'X', Born: string(f[19])}
		p.PID, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
		p.Parent, _ = strconv.Atoi(string(f[1]))
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		p.Line = string(bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
		all = append(all, p)
	}
	return all
}

// Below returns the processes that root started, and those that these did.
func Below(root int) (found []Process) {
	all, in := Processes(), map[int]bool{root: true}
	for more := true; more; {
		more = false
		for _, p := range all {
			if in[p.Parent] && !in[p.PID] {
				in[p.PID], more = true, true
				found = append(found, p)
			}
		}
	}
	return found
}

// Running returns those of list that still run.
func Running(list []Process) (still []Process) {
	now := map[int]Process{}
	for _, p := range Processes() {
		now[p.PID] = p
	}
	return slices.DeleteFunc(slices.Clone(list), func(p Process) bool {
		n, ok := now[p.PID]
		return !ok || n.Zombie || n.Born != p.Born
	})
}

// Named returns those whose command line has a word.
func Named(list []Process, word string) []Process {
	return slices.DeleteFunc(slices.Clone(list), func(p Process) bool { return !strings.Contains(p.Line, word) })
}
