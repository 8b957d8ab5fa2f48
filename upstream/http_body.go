package upstream

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

const (
	// exactBody is up to what size we believe a Content-Length before the bytes come.
	exactBody = 4 << 20
	// keptScratch is the largest buffer that is kept for the next message.
	keptScratch = 1 << 20
	// maxDiscard is what we read of a body that nobody wants, so that its
	// connection can be used again.
	maxDiscard = 64 << 10
)

var errBodySize = errors.New("body over the limit")

// scratch holds buffers for reading replies.
var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func keepScratch(p *[]byte, b []byte) {
	if cap(b) <= keptScratch {
		*p = b[:0]
		scratch.Put(p)
	}
}

// readBody reads a body of up to limit bytes into a slice of its own.
func readBody(r io.Reader, length int64, limit int) ([]byte, error) {
	if length > int64(limit) {
		return nil, errBodySize
	}
	if length >= 0 && length <= exactBody {
		b := make([]byte, length)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	box := scratch.Get().(*[]byte)
	b, err := appendAll((*box)[:0], r, limit)
	if cap(b) > keptScratch || err != nil {
		return b, err // too large to keep, so it need not be copied either
	}
	out := bytes.Clone(b)
	keepScratch(box, b)
	return out, nil
}

// appendAll reads to the end, but never more than one byte over the limit.
func appendAll(b []byte, r io.Reader, limit int) ([]byte, error) {
	for idle := 0; idle < maxIdleReads; {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):min(cap(b), limit+1)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return b, errBodySize
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
		if idle++; n > 0 {
			idle = 0
		}
	}
	return b, io.ErrNoProgress
}

// discard ends a body that nobody wants.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxDiscard)
	_ = body.Close()
}
