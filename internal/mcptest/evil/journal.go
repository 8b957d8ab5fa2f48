package evil

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// What a journal has pages about.
const (
	ran       = "ran"       // keys of the calls that ran
	starts    = "starts"    // processes of the server
	processes = "processes" // those, and all that they started
	cancelled = "cancelled" // ids of the calls that were cancelled
	answers   = "answers"   // what was answered to the server's own questions
	leaks     = "leaks"     // what came where it must not
	heads     = "heads"     // first lines and headers that a proxy got
	hits      = "hits"      // requests to an HTTP server, by HTTP method
)

// A Journal is a folder of notes that outlasts a process: a file per page, a
// line per note.
type Journal struct{ dir string }

// Note appends to a page. A note that cannot be kept is lost: tests see that
// they miss it.
func (j Journal) Note(page, text string) {
	if j.dir == "" {
		return
	}
	f, err := os.OpenFile(filepath.Join(j.dir, page), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	f.WriteString(strconv.Quote(text) + "\n") // in one write, so that processes do not mix
}

// Notes are the notes of a page, oldest first.
func (j Journal) Notes(page string) []string {
	b, _ := os.ReadFile(filepath.Join(j.dir, page))
	var out []string
	for line := range strings.Lines(string(b)) {
		if text, err := strconv.Unquote(strings.TrimSuffix(line, "\n")); err == nil {
			out = append(out, text)
		}
	}
	return out
}

// Count is how often a page has this note.
func (j Journal) Count(page, text string) int {
	n := 0
	for _, t := range j.Notes(page) {
		if t == text {
			n++
		}
	}
	return n
}

// Ran is how often a call with this key ran.
func (j Journal) Ran(key string) int { return j.Count(ran, key) }

// Starts is how many processes of the server were started.
func (j Journal) Starts() int { return len(j.Notes(starts)) }

// PIDs are the processes that were started, helpers too.
func (j Journal) PIDs() []int {
	var out []int
	for _, text := range j.Notes(processes) {
		if pid, err := strconv.Atoi(text); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// Cancelled is how many calls were cancelled.
func (j Journal) Cancelled() int { return len(j.Notes(cancelled)) }

// Answers are what came back for the server's own questions: a code, or "result".
func (j Journal) Answers() []string { return j.Notes(answers) }

// Leaks are what came where it must not: cookies, requests to other origins.
func (j Journal) Leaks() []string { return j.Notes(leaks) }

// Heads are the requests that a proxy got, with their headers.
func (j Journal) Heads() []string { return j.Notes(heads) }

// Hits is how many requests of an HTTP method came.
func (j Journal) Hits(method string) int { return j.Count(hits, method) }
