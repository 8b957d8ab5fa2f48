package evil

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// fine is an answer within a stream; $ID is the request's id.
const fine = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[{"type":"text","text":"here"}]}}`

// streamFaults are event streams, odd and wrong.
func streamFaults() []Fault {
	return of(Web, HTTP, []Fault{
		{ID: "U5a", Says: "sends an event without end", web: webFault{call: endlessEvent}},
		{ID: "U5b", Says: "sends 1 MiB of comments before its answer", Fine: true, web: webFault{call: mcptest.Stream(strings.Repeat(": x\n", 1<<18) + "\ndata: " + fine + "\n\n")}},
		{ID: "U5c", Says: "ends its stream without a blank line", web: webFault{call: mcptest.Stream("data: " + fine + "\n")}},
		{ID: "U5d", Says: "ends its lines with CR", Fine: true, web: webFault{call: mcptest.Stream("event: message\rdata: " + fine + "\r\r")}},
		{ID: "U5e", Says: "sends an event of several lines", Fine: true, web: webFault{call: mcptest.Stream("data: " + strings.Replace(fine, `,"result"`, "\ndata: ,\"result\"", 1) + "\n\n")}},
		{ID: "U5f", Says: "sends fields without a space", Fine: true, web: webFault{call: mcptest.Stream("event:message\ndata:" + fine + "\n\n")}},
		{ID: "U5g", Says: "begins its stream with a byte order mark", Fine: true, web: webFault{call: mcptest.Stream("\ufeffdata: " + fine + "\n\n")}},
		{ID: "U5h", Says: "sends fields that nobody knows", Fine: true, web: webFault{call: mcptest.Stream("x: y\nfoo\n:\ndata: " + fine + "\n\n")}},
		{ID: "U5i", Says: "sends an event id with a NUL", Fine: true, web: webFault{call: mcptest.Stream("id: a\x00b\ndata: " + fine + "\n\n")}},
		{ID: "U5j", Says: "asks to be reconnected at once, and in thirty years", Fine: true, web: webFault{call: mcptest.Stream("retry: 0\n\nretry: 1000000000\n\nretry: -1\n\ndata: " + fine + "\n\n")}},
		{ID: "U5k", Says: "sends comments without end", web: webFault{call: endlessComments}},
		{ID: "U6a", Says: "ends its stream without an answer", web: webFault{call: mcptest.Stream(": nothing\n\n")}},
		{ID: "U6b", Says: "answers twice in its stream", Fine: true, web: webFault{call: mcptest.Stream("data: " + fine + "\n\ndata: " + strings.Replace(fine, "here", "there", 1) + "\n\n")}},
		{ID: "U6c", Says: "asks in the stream of the modern era", Fine: true, versions: []string{mcptest.Modern}, web: webFault{call: mcptest.Stream("data: {\"jsonrpc\":\"2.0\",\"id\":\"evil\",\"method\":\"roots/list\"}\n\ndata: " + fine + "\n\n")}},
		{ID: "U6d", Says: "is cut off in the middle of an event", web: webFault{call: mcptest.Stream("data: {\"jsonrpc\":\"2.0\",")}},
		{ID: "U6e", Says: "answers somebody else in its stream", web: webFault{call: mcptest.Stream("data: " + strings.Replace(fine, "$ID", `"nobody"`, 1) + "\n\n")}},
	})
}

func endlessEvent(w http.ResponseWriter, r *http.Request, m *mcptest.Message) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"content":[`, m.ID)
	pour(w, r, strings.Repeat(" ", 64<<10))
}

func endlessComments(w http.ResponseWriter, r *http.Request, _ *mcptest.Message) {
	w.Header().Set("Content-Type", "text/event-stream")
	pour(w, r, strings.Repeat(": "+strings.Repeat("x", 1000)+"\n", 64))
}

// pour writes until the caller has gone, or had enough.
func pour(w io.Writer, r *http.Request, chunk string) {
	for n := 0; n < floodMost && r.Context().Err() == nil; n += len(chunk) {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}
