package upstream

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
)

// decoded returns the reply's body without its compression, and its length if that
// is known. We ask for none, but some proxies know better. Who reads it bounds what
// comes out, whatever went in.
func decoded(resp *http.Response) (io.Reader, int64, error) {
	name := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	if name == "" || name == "identity" {
		if n := resp.ContentLength; n >= 0 && n <= steadyFree {
			return resp.Body, n, nil
		}
		return &steadyReader{r: resp.Body}, resp.ContentLength, nil
	}
	d := &decoding{name: name, body: resp.Body, framed: framed(resp)}
	var err error
	switch name {
	case "gzip", "x-gzip":
		d.out, err = gzip.NewReader(coded{d})
	case "br":
		d.out = brotli.NewReader(coded{d})
	case "deflate":
		d.out, err = inflate(coded{d})
	default:
		err = errors.New("not supported and not asked for; gzip, br and deflate are")
	}
	if err != nil {
		return nil, 0, &codingError{name, err}
	}
	return &steadyReader{r: d}, -1, nil
}

// A decoding is a body without its compression.
type decoding struct {
	name   string
	body   io.Reader
	lost   error // of the last read of body
	out    io.Reader
	framed bool
}

// framed reports whether the end of a body shows that all of it came. A stream of
// events may end anywhere, and one whose end is that of its connection, too.
func framed(resp *http.Response) bool {
	return mediaType(resp.Header) != "text/event-stream" && (resp.ContentLength >= 0 || len(resp.TransferEncoding) > 0 || resp.ProtoMajor > 1)
}

// coded is a decoding's body as it came.
type coded struct{ d *decoding }

func (c coded) Read(p []byte) (int, error) {
	n, err := c.d.body.Read(p)
	c.d.lost = err
	return n, err
}

// Read tells a body that is not what it says from one that broke off.
func (d *decoding) Read(p []byte) (int, error) {
	n, err := d.out.Read(p)
	if err != nil && err != io.EOF && (d.lost == nil || d.lost == io.EOF && (d.framed || err != io.ErrUnexpectedEOF)) {
		err = &codingError{d.name, err}
	}
	return n, err
}

// A codingError is about a body that cannot be decoded.
type codingError struct {
	name string
	err  error
}

func (e *codingError) Error() string { return fmt.Sprintf("content encoding %q: %v", e.name, e.err) }

// inflate reads what is called deflate: the standard means zlib's format, and some
// send its bare contents.
func inflate(body io.Reader) (io.Reader, error) {
	r := bufio.NewReader(body)
	head, err := r.Peek(2)
	if err != nil {
		return nil, err
	}
	const deflated = 8
	if head[0]&0x0f == deflated && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}
