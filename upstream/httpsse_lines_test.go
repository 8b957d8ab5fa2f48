package upstream

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// readEvents reads all of r as a link does: what it hands out, and endpoints.
func readEvents(r io.Reader) (out string, endpoints []string, err error) {
	s := &sseLines{r: r, most: 1 << 20, noise: func(int) {}, endpoint: func(b []byte) { endpoints = append(endpoints, string(b)) }}
	b, err := io.ReadAll(s)
	return string(b), endpoints, err
}

// wantEvents is the same by way of the other reader of event streams.
func wantEvents(b []byte) (out string, endpoints []string) {
	r := newEventReader(bytes.NewReader(b), nil, 1<<20, 1<<20)
	for {
		ev, err := r.next()
		if err != nil {
			return out, endpoints
		}
		line := strings.ReplaceAll(string(ev.data), "\n", " ")
		switch ev.name {
		case "":
			out += line + "\n"
		case "endpoint":
			endpoints = append(endpoints, line)
		}
	}
}

func compareLines(t *testing.T, b []byte) {
	t.Helper()
	want, wantEnds := wantEvents(b)
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(b), "by byte": iotest.OneByteReader(bytes.NewReader(b)), "with the end": iotest.DataErrReader(bytes.NewReader(b)),
	} {
		got, ends, err := readEvents(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %q (-want +got):\n%s", name, b, diff)
		}
		if diff := cmp.Diff(wantEnds, ends); diff != "" {
			t.Errorf("%s: endpoints of %q (-want +got):\n%s", name, b, diff)
		}
	}
}

var linesSeeds = []string{
	"data: a\n\n", "data:a\r\rdata: b\r\n\r\n", "\xef\xbb\xbfdata: a\n\n", "\xef\xbb\xbf\ndata: a\n\n", "\xef\xbbdata: a\n\n",
	"data\n\n", "data:\n\n", "data: a\ndata\ndata:  b\n\n", ":c\n\ndata: a", "event\ndata: a\n\n",
	"event: endpoint\ndata: /x\n\n", "data: /x\nevent: endpoint\n\n", "event: endpoint\nevent: message\ndata: a\n\n",
	"event: x\n\ndata: a\n\n", "datax: a\n\n", "data : a\n\n", " data: a\n\n", "id: \x00\nretry: x\ndata: a\x00b\n\n",
	"event: messagemessagemessagemessage\ndata: a\n\n", "averyveryverylongfieldnamethatisnone: 1\ndata: a\n\n", "data: a\n\r\n", "\r\n\r\rdata: a\n\n",
}

// Both readers of event streams see the same in them, however it arrives.
func TestSSELines(t *testing.T) {
	for _, s := range linesSeeds {
		compareLines(t, []byte(s))
	}
	parts := []string{"data", "event", "endpoint", "message", ":", " ", "\n", "\r", "x", "\xef\xbb\xbf", "data: 1\n", "event: endpoint\n", "\n\n"}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		var b []byte
		for range rnd.IntN(20) {
			b = append(b, parts[rnd.IntN(len(parts))]...)
		}
		compareLines(t, b)
	}
}

func FuzzSSELines(f *testing.F) {
	for _, s := range linesSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) <= sseHeld { // behind that a name may come too late
			compareLines(t, b)
		}
	})
}

// A message too large to be held flows on; of other events no more than that is kept.
func TestSSELinesLarge(t *testing.T) {
	big := strings.Repeat("x", 10*sseHeld)
	got, ends, err := readEvents(strings.NewReader("event: endpoint\ndata: " + big + "\n\nevent: other\ndata: " + big + "\n\ndata: " + big + "\ndata: y\n\ndata: z\n\n"))
	if err != nil || got != big+" y\nz\n" {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if len(ends) != 1 || len(ends[0]) != sseHeld {
		t.Errorf("%d endpoints", len(ends))
	}
	s := &sseLines{r: strings.NewReader("data: " + big + big), most: 1 << 20, noise: func(int) {}}
	_, _ = io.Copy(io.Discard, s)
	if n := cap(s.out); n > 4*sseHeld {
		t.Errorf("held %d bytes", n)
	}
}

// A reader that brings nothing, or nothing of use, comes to an end.
func TestSSELinesStuck(t *testing.T) {
	s := &sseLines{r: stuckReader{}, most: 1 << 20}
	if _, err := s.Read(make([]byte, 1)); err != io.ErrNoProgress {
		t.Errorf("nothing: got %v", err)
	}
	s = &sseLines{r: strings.NewReader(strings.Repeat("\r", 200_000)), most: 100_000}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, errStreamSize) {
		t.Errorf("nothing of use: got %v", err)
	}
}

// A stuckReader never has anything.
type stuckReader struct{}

func (stuckReader) Read([]byte) (int, error) { return 0, nil }
