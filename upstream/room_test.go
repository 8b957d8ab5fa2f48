package upstream

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestRoomSizes(t *testing.T) {
	for _, n := range []int{0, 1, 32 << 10, 32<<10 + 1, 64 << 10, 64<<10 + 1, 1 << 20, 5 << 20, 64 << 20, 64<<20 + 1} {
		b := roomFor(n)
		if len(b) != n || cap(b) > 4*n && n > 32<<10 {
			t.Errorf("roomFor(%d): %d bytes of %d", n, len(b), cap(b))
		}
		leaveRoom(b)
	}
}

// A flood over the limit costs no new memory each time.
func TestFloodsReuseTheirRoom(t *testing.T) {
	const limit = 4_000_000
	line := strings.Repeat("x", limit+10_000) + "\n"
	event := "data: " + line
	for name, read := range map[string]func(){
		"line": func() {
			if got, err := newLineReader(strings.NewReader(line), limit).next(); err != nil || !got.long {
				t.Errorf("got %v, %v", got.long, err)
			}
		},
		"event": func() {
			r := newEventReader(strings.NewReader(event), nil, limit, 4*limit)
			if _, err := r.next(); err != errEventSize {
				t.Error(err)
			}
			leaveRoom(r.buf)
		},
		"body": func() {
			if _, err := readBody(strings.NewReader(line), -1, limit); err != errBodySize {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			read()
			const times = 20
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				read()
			}
			runtime.ReadMemStats(&after)
			if each := (after.TotalAlloc - before.TotalAlloc) / times; each > limit {
				t.Errorf("%d new bytes each time", each)
			}
		})
	}
}

// Lines that come over several reads are the caller's own, whatever room they came through.
func TestLinesKeepTheirBytes(t *testing.T) {
	var want []string
	for i := range 40 {
		want = append(want, strings.Repeat(string(rune('a'+i%26)), 1000+i*37_777))
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			r := newLineReader(iotest.HalfReader(strings.NewReader(strings.Join(want, "\n"))), 1<<20)
			var got []text
			for {
				line, err := r.next()
				if err != nil {
					break
				}
				if !line.open {
					got = append(got, line)
				}
			}
			for i, line := range got {
				if w := want[i]; line.long != (len(w) > 1<<20) || !line.long && string(line.data) != w {
					t.Errorf("line %d: %d bytes, long %v, want %d", i, len(line.data), line.long, len(w))
				}
			}
			if len(got) != len(want) {
				t.Errorf("got %d lines, want %d", len(got), len(want))
			}
		})
	}
	all.Wait()
}

func TestSteadyReaderRests(t *testing.T) {
	for _, tt := range []struct {
		name string
		size int
		wait time.Duration // of the source, for each read
		rest bool
	}{
		{"small", steadyFree, 0, false},
		{"large", 4 << 20, 0, true},
		{"large and slow", 4 << 20, 2 * steadySlow, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &slowly{r: bytes.NewReader(make([]byte, tt.size)), each: tt.wait}
				start := time.Now()
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{&steadyReader{r: in}}, make([]byte, steadyRun))
				if took := time.Since(start) - in.waited; n != int64(tt.size) || err != nil || (took > 0) != tt.rest {
					t.Errorf("%d bytes, %v, rests of %v", n, err, took)
				}
			})
		})
	}
}

// slowly is a source that has to be waited for.
type slowly struct {
	r      io.Reader
	each   time.Duration
	waited time.Duration
}

func (w *slowly) Read(p []byte) (int, error) {
	time.Sleep(w.each)
	w.waited += w.each
	return w.r.Read(p)
}
