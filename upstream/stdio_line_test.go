package upstream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func readLines(r io.Reader, max int) (out []string, err error) {
	l := newLineReader(r, max)
	for {
		t, err := l.next()
		if err != nil {
			return out, err
		}
		if t.open {
			continue
		}
		s := string(t.data)
		if t.long {
			s = "long " + s + " ... " + string(t.tail)
		}
		out = append(out, s)
	}
}

func TestLineReader(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		max      int
		want     []string
	}{
		{"lines", "a\nbb\n\nc\n", 10, []string{"a", "bb", "", "c"}},
		{"no newline at the end", "a\nhalf", 10, []string{"a", "half"}},
		{"exactly the limit", "12345\n", 5, []string{"12345"}},
		{"over the limit", "ab\n123456\ncd\n", 5, []string{"ab", "long 123456 ... 123456", "cd"}},
		{"over the limit at the end", "123456", 5, []string{"long 123456 ... 123456"}},
		{"head and tail", strings.Repeat("a", 5000) + "z\nok\n", 2000,
			[]string{"long " + strings.Repeat("a", 1024) + " ... " + strings.Repeat("a", longTail-1) + "z", "ok"}},
	} {
		for how, r := range map[string]io.Reader{
			"at once": strings.NewReader(tt.in), "by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
			"with the error": iotest.DataErrReader(strings.NewReader(tt.in)),
		} {
			got, err := readLines(r, tt.max)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != io.EOF {
				t.Errorf("%s, %s: error %v, lines (-want +got):\n%s", tt.name, how, err, diff)
			}
		}
	}
	fault := errors.New("fault")
	if got, err := readLines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(fault)), 9); err != fault || len(got) != 2 {
		t.Errorf("got %q, %v", got, err)
	}
}

// R19: 20 MB on one line go through, or are skipped in no more memory than a chunk.
func TestLineReaderBig(t *testing.T) {
	big := func() io.Reader {
		return io.MultiReader(io.LimitReader(endless{}, 20<<20), strings.NewReader("\nok\n"))
	}
	l := newLineReader(big(), 32<<20)
	if got, err := l.next(); err != nil || len(got.data) != 20<<20 {
		t.Fatalf("got %d bytes, %v", len(got.data), err)
	}
	l = newLineReader(big(), 1<<20)
	got, err := l.next()
	if err != nil || !got.open || got.size <= 1<<20 || got.size > 1<<20+lineChunk {
		t.Fatalf("no word at the limit: got %v at %d, %v", got.open, got.size, err)
	}
	reports := 1
	for ; got.open && err == nil; reports++ {
		got, err = l.next()
	}
	if err != nil || reports < 19 || reports > 22 || !got.long || len(got.data) != longHead || len(got.tail) != longTail {
		t.Fatalf("got %v, %d and %d bytes, %v", got.long, len(got.data), len(got.tail), err)
	}
	if got, err := l.next(); err != nil || string(got.data) != "ok" {
		t.Fatalf("got %q, %v", got.data, err)
	}
}

type endless struct{}

var filler = bytes.Repeat([]byte("x"), lineChunk)

func (endless) Read(b []byte) (int, error) { return copy(b, filler), nil }

func TestLongLineOwner(t *testing.T) {
	for _, tt := range []struct {
		head, tail string
		id         int64
		ok, answer bool
	}{
		{head: `{"jsonrpc":"2.0","id":7,"result":{"x":"`, id: 7, ok: true, answer: true},
		{head: `{"jsonrpc":"2.0" , "id" : "7" ,"result":{"x":"`, id: 7, ok: true, answer: true},
		{head: `{"result":{"id":5,"s":"\"id\":6`, tail: `xx"},"jsonrpc":"2.0","id":7}`, id: 7, ok: true, answer: true},
		{head: `{"result":{"id":5,"s":"`, tail: `xx"},"id":"7","jsonrpc":"2.0"} `, id: 7, ok: true, answer: true},
		{head: `{"result":{"a":"`, tail: `x","id":7}}`, answer: true},   // the id of something inside
		{head: `{"result":{"a":"`, tail: `x \"id\":7}"}`, answer: true}, // text
		{head: `{"jsonrpc":"2.0","id":12`, tail: `x`, answer: true},     // cut off
		{head: `{"jsonrpc":"2.0","id":null,"result":`, answer: true},    // nobody's
		{head: `{"jsonrpc":"2.0","id":7,"id":8,"result":`, id: 7, ok: true, answer: true},
		{head: `{"jsonrpc":"2.0","method":"notifications/x","params":{"`}, // no answer
		{head: `{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{"`},
		{head: ``, answer: true},
	} {
		x := text{data: []byte(tt.head), tail: []byte(tt.tail), long: true}
		id, ok, answer := x.owner()
		if id != tt.id || ok != tt.ok || answer != tt.answer {
			t.Errorf("%s ... %s: got %d, %v, %v, want %d, %v, %v", tt.head, tt.tail, id, ok, answer, tt.id, tt.ok, tt.answer)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\r\n\xef\xbb\xbf{}\n", 3)
	f.Add(`{"id":1,"result":{}}`+"\n"+`{"result":"`, 8)
	f.Fuzz(func(t *testing.T, in string, max int) {
		max = 1 + max&0xff
		l := newLineReader(iotest.HalfReader(strings.NewReader(in)), max)
		var out strings.Builder
		long := false
		for {
			x, err := l.next()
			if err != nil {
				break
			}
			if x.open {
				long = true
				continue
			}
			x.owner()
			trimLine(x.data)
			if !x.long && len(x.data) > max || len(x.data) > max+longHead {
				t.Fatalf("a line of %d bytes under the limit of %d", len(x.data), max)
			}
			long = long || x.long
			out.WriteString(string(x.data) + "\n")
		}
		if want := strings.TrimSuffix(in, "\n") + "\n"; !long && in != "" && out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
}

func TestOurID(t *testing.T) {
	for in, want := range map[string]int64{"1": 1, `"12"`: 12, "0": 0, "-1": 0, "1.0": 1, `"12.0"`: 12, "1e0": 1, "1.2e1": 12, "1.5": 0, "1e18": 0, "1e400": 0, "1e-1": 0, "0.0": 0, `""`: 0, "null": 0, `"1`: 0,
		"": 0, "99999999999999999999": 0, "01": 0, `"a1"`: 0, "{}": 0} {
		if got, ok := ourID([]byte(in)); got != want || ok != (want != 0) {
			t.Errorf("ourID(%s) = %d, %v, want %d", in, got, ok, want)
		}
	}
}
