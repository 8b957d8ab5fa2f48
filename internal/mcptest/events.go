package mcptest

import (
	"bufio"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Events reads a stream of server-sent events.
type Events struct {
	// Data and ID are those of the event that Next found.
	Data []byte
	ID   string
	// Comments counts the comment lines so far.
	Comments int

	in  *bufio.Reader
	err error
}

// NewEvents reads from r.
func NewEvents(r io.Reader) *Events { return &Events{in: bufio.NewReaderSize(r, 64<<10)} }

// Next moves to the next event that has data. It returns false at the end.
func (e *Events) Next() bool {
	var data []string
	for e.err == nil {
		line, err := e.in.ReadString('\n')
		e.err = err
		line = strings.TrimRight(line, "\r\n")
		if line == "" && err == nil {
			if data != nil {
				e.Data = []byte(strings.Join(data, "\n"))
				return true
			}
			continue
		}
		data = e.line(line, data)
	}
	return false
}

func (e *Events) line(line string, data []string) []string {
	field, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch field {
	case "":
		if line != "" {
			e.Comments++
		}
	case "data":
		return append(data, value)
	case "id":
		e.ID = value
	}
	return data
}

func isEventStream(h http.Header) bool {
	t, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return t == "text/event-stream"
}
