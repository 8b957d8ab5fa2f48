package upstream

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// A body comes out as it went in, whatever its size and however it comes, and one
// over the limit is not kept.
func TestReadBody(t *testing.T) {
	for _, n := range []int{0, 1, 4 << 10, 4<<10 + 1, keptScratch - 1, keptScratch, keptScratch + 1, 2 * keptScratch, 3*keptScratch + 17} {
		want := make([]byte, n)
		for i := range want {
			want[i] = byte(i * 31 >> 3)
		}
		for name, r := range map[string]func() io.Reader{
			"plain":  func() io.Reader { return bytes.NewReader(want) },
			"halves": func() io.Reader { return iotest.HalfReader(bytes.NewReader(want)) },
			"eof":    func() io.Reader { return iotest.DataErrReader(bytes.NewReader(want)) },
		} {
			got, err := readBody(r(), -1, n)
			if err != nil || !bytes.Equal(got, want) || cap(got) > n {
				t.Errorf("%d bytes, %s: got %d with room for %d, %v", n, name, len(got), cap(got), err)
			}
			if n == 0 {
				continue
			}
			if got, err := readBody(r(), -1, n-1); err != errBodySize || got != nil {
				t.Errorf("%d bytes, %s, limit one less: got %d, %v", n, name, len(got), err)
			}
		}
		cut := io.MultiReader(bytes.NewReader(want), iotest.ErrReader(errors.New("cut")))
		if got, err := readBody(cut, -1, n+1); err == nil || err.Error() != "cut" || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, cut: got %d, %v", n, len(got), err)
		}
	}
	if _, err := readBody(iotest.ErrReader(nil), -1, 10); err != io.ErrNoProgress {
		t.Errorf("no progress: got %v", err)
	}
}
