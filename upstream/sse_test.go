package upstream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// allEvents reads a stream through readers that cut it in different places; all
// must give the same.
func allEvents(t testing.TB, stream string, limit, total int) (out []string, last *eventReader, err error) {
	t.Helper()
	for i, cut := range []func(io.Reader) io.Reader{
		func(r io.Reader) io.Reader { return r },
		iotest.OneByteReader,
		iotest.HalfReader,
		iotest.DataErrReader,
	} {
		r := newEventReader(cut(strings.NewReader(stream)), nil, limit, total)
		var got []string
		var ev event
		var gotErr error
		for {
			if ev, gotErr = r.next(); gotErr != nil {
				break
			}
			got = append(got, ev.name+"|"+string(ev.data))
		}
		if i == 0 {
			out, last, err = got, r, gotErr
			continue
		}
		if diff := cmp.Diff(out, got); diff != "" || err != gotErr {
			t.Errorf("way %d of reading %q: %v, not %v\n%s", i, stream, gotErr, err, diff)
		}
	}
	return out, last, err
}

func TestEventReader(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"one", "data: x\n\n", []string{"|x"}},
		{"no space", "data:x\n\n", []string{"|x"}},
		{"two spaces", "data:  x\n\n", []string{"| x"}},
		{"lines", "data: a\ndata: b\ndata:c\n\n", []string{"|a\nb\nc"}},
		{"empty lines of data", "data\ndata:\ndata: \ndata: x\n\n", []string{"|\n\n\nx"}},
		{"comment between", "data: a\n: no\ndata: b\n\n", []string{"|a\nb"}},
		{"long comment between", "data: a\n:" + strings.Repeat("-", 900) + "\ndata: b\n\n", []string{"|a\nb"}},
		{"CR", "data: a\rdata: b\r\rdata: c\r\r", []string{"|a\nb", "|c"}},
		{"CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []string{"|a\nb", "|c"}},
		{"mixed", "data: a\rdata: b\n\r\ndata: c\n\r", []string{"|a\nb", "|c"}},
		{"BOM", "\xef\xbb\xbfdata: x\n\n", []string{"|x"}},
		{"BOM twice", "\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n", nil},
		{"half a BOM", "\xef\xbbdata: x\n\ndata: y\n\n", []string{"|y"}},
		{"names", "event: ping\ndata: 1\n\nevent: message\ndata: 2\n\nevent: endpoint\ndata: 3\n\n", []string{"ping|1", "|2", "endpoint|3"}},
		{"name without data", "event: ping\n\ndata: 1\n\n", []string{"|1"}},
		{"long name", "event: " + strings.Repeat("n", 200) + "\ndata: 1\n\n", []string{strings.Repeat("n", 64) + "|1"}},
		{"unknown fields", "foo: bar\ndata : x\nDATA: y\ndata: z\nbar\n\n", []string{"|z"}},
		{"blank lines", "\n\n\r\r\r\ndata: x\n\n\n\n", []string{"|x"}},
		{"cut off", "data: x\n\ndata: y\n", []string{"|x"}},
		{"empty", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := allEvents(t, tt.in, 1000, 10_000)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != io.EOF {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestEventReaderFields(t *testing.T) {
	for _, tt := range []struct {
		in    string
		id    string
		retry time.Duration
	}{
		{"id: 7\n", "7", 0},
		{"id: 7\nid\n", "", 0},
		{"id: 7\nid: a\x00b\n", "7", 0},
		{"id: 7\nid: a\x01b\n", "7", 0},
		{"id: 7\nid: " + strings.Repeat("x", 2000) + "\n", "7", 0},
		{"retry: 1500\n", "", 1500 * time.Millisecond},
		{"retry: 0\n", "", minRetry},
		{"retry: 1000000000\n", "", maxRetry},
		{"retry: 99999999999999999999999999\n", "", maxRetry},
		{"retry: 1500\nretry: -1\nretry: 1e3\nretry:\n", "", 1500 * time.Millisecond},
	} {
		_, r, _ := allEvents(t, tt.in, 10_000, 100_000)
		if string(r.lastID) != tt.id || r.retry != tt.retry {
			t.Errorf("%.40q: got id %q, retry %v", tt.in, r.lastID, r.retry)
		}
	}
}

func TestEventReaderLimits(t *testing.T) {
	const limit = 10_000
	big := strings.Repeat("x", limit)
	for _, tt := range []struct {
		name, in string
		total    int
		events   int
		err      error
	}{
		{"comments without an event", strings.Repeat(": xxxxxxxx\n", 3001), 1 << 20, 0, errBarren},
		{"names without data", strings.Repeat("event: xxx\n\n", 3001), 1 << 20, 0, errBarren},
		{"comments between events", strings.Repeat(strings.Repeat(": xxxxxxxx\n", 2000)+"data: x\n\n", 4), 1 << 20, 4, io.EOF},
		{"just fits", "data: " + big + "\n\n", 1 << 20, 1, io.EOF},
		{"one over", "data: " + big + "x\n\n", 1 << 20, 0, errEventSize},
		{"many lines over", strings.Repeat("data: "+big[:100]+"\n", 101) + "\n", 1 << 20, 0, errEventSize},
		{"many comments in an event", "data: " + big[:9000] + "\n" + strings.Repeat(": "+big[:100]+"\n", 290) + "\n", 1 << 20, 1, io.EOF},
		{"line without end", big + big, 1 << 20, 0, errEventSize},
		{"many events", strings.Repeat("data: "+big[:9000]+"\n\n", 20), 1 << 20, 20, io.EOF},
		{"stream", strings.Repeat("data: x\n\n", 1000), 5000, 555, errStreamSize},
		{"stream of blank lines", strings.Repeat("\n", 10_000), 5000, 0, errStreamSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// One way of reading only: how much is read before a limit is met depends on it.
			r := newEventReader(iotest.OneByteReader(strings.NewReader(tt.in)), nil, limit, tt.total)
			r.barren = 30_000
			n, err := 0, error(nil)
			for {
				if _, err = r.next(); err != nil {
					break
				}
				n++
			}
			if n != tt.events || !errors.Is(err, tt.err) {
				t.Errorf("got %d events, %v; want %d, %v", n, err, tt.events, tt.err)
			}
			if len(r.buf) > limit+firstEvent {
				t.Errorf("holds %d bytes", len(r.buf))
			}
			if _, again := r.next(); again != err {
				t.Errorf("then %v", again)
			}
		})
	}
}

// Lines that end in CR must not make the search for LF quadratic.
func TestEventReaderManyCR(t *testing.T) {
	start := time.Now()
	in := strings.Repeat("a\r", 4<<20)
	r := newEventReader(strings.NewReader(in), make([]byte, len(in)), len(in), 2*len(in))
	if _, err := r.next(); err != io.EOF {
		t.Error(err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestEventReaderNoProgress(t *testing.T) {
	if _, err := newEventReader(stuck{}, nil, 100, 100).next(); err != io.ErrNoProgress {
		t.Errorf("got %v", err)
	}
}

// plainEvents is the standard's algorithm, written for plainness.
func plainEvents(s string) (out []string) {
	s = strings.TrimPrefix(s, "\xef\xbb\xbf")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	name, data, any := "", "", false
	lines := strings.Split(s, "\n")
	for _, line := range lines[:len(lines)-1] {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && any:
			out = append(out, name+"|"+strings.TrimSuffix(data, "\n"))
			name, data, any = "", "", false
		case line == "":
			name = ""
		case key == "data":
			data, any = data+value+"\n", true
		case key == "event" && value == "message":
			name = ""
		case key == "event":
			name = value[:min(len(value), maxEventName)]
		}
	}
	return out
}

func FuzzEventReader(f *testing.F) {
	for _, s := range []string{"data: x\n\n", "\xef\xbb\xbfdata\r\ndata:y\r\r\n:c\n", "event: a\ndata:\n\n", "id: \x00\nretry: 9\n\n", "data: a\r:x\rdata: b\r\r\ndata"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, _, err := allEvents(t, s, 1<<20, 1<<21)
		if err != io.EOF {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plainEvents(s), got); diff != "" {
			t.Errorf("%q:\n%s", s, diff)
		}
	})
}

func BenchmarkEventReader(b *testing.B) {
	stream := []byte("event: message\ndata: " + strings.Repeat("x", 100<<10) + "\n\n")
	buf := make([]byte, 128<<10)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := newEventReader(bytes.NewReader(stream), buf, 1<<20, 1<<20).next(); err != nil {
			b.Fatal(err)
		}
	}
}
