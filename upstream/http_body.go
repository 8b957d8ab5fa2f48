package upstream

import (
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
		return
	}
	leaveRoom(b)
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
	p := pieces{head: (*box)[:0]}
	err := p.fill(r, limit)
	defer p.free(box)
	if err == errBodySize {
		return nil, err
	}
	return p.join(), err
}

// pieces is a body of unknown length while it comes. What is over the limit has cost
// no more than to read it, and no growing: that is what a server gets who floods us.
type pieces struct {
	head []byte   // up to keptScratch
	more []*piece // behind a full head
	n    int      // bytes in all
}

type piece [keptScratch]byte

var piecePool = sync.Pool{New: func() any { return new(piece) }}

// fill reads to the end, but never more than one byte over the limit.
func (p *pieces) fill(r io.Reader, limit int) error {
	for idle := 0; idle < maxIdleReads; {
		room := p.room()
		n, err := r.Read(room[:min(len(room), limit+1-p.n)])
		p.took(n)
		switch {
		case p.n > limit:
			return errBodySize
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if idle++; n > 0 {
			idle = 0
		}
	}
	return io.ErrNoProgress
}

// room is where the next bytes go; it is not empty.
func (p *pieces) room() []byte {
	if len(p.head) < keptScratch {
		if len(p.head) == cap(p.head) {
			p.head = widen(p.head, len(p.head), min(max(4*cap(p.head), 4<<10), keptScratch))[:len(p.head)]
		}
		return p.head[len(p.head):min(cap(p.head), keptScratch)]
	}
	at := (p.n - keptScratch) % keptScratch
	if at == 0 && p.n == keptScratch*(1+len(p.more)) {
		p.more = append(p.more, piecePool.Get().(*piece))
	}
	return p.more[len(p.more)-1][at:]
}

func (p *pieces) took(n int) {
	p.n += n
	if len(p.head) < keptScratch {
		p.head = p.head[:len(p.head)+n]
	}
}

func (p *pieces) join() []byte {
	out := append(make([]byte, 0, p.n), p.head...)
	for _, m := range p.more {
		out = append(out, m[:min(len(m), p.n-len(out))]...)
	}
	return out
}

func (p *pieces) free(box *[]byte) {
	keepScratch(box, p.head)
	for _, m := range p.more {
		piecePool.Put(m)
	}
}

// discard ends a body that nobody wants.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxDiscard)
	_ = body.Close()
}
