package evil

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// goodTools are what every server has:
//
//	ping_tool  answers pong
//	count      notes its argument key and answers how often that key ran
//	sleep      waits for ms milliseconds, a minute at most
//	misbehave  shows the fault; it notes its argument key first
var goodTools = []string{
	`{"name":"ping_tool","inputSchema":{"type":"object"}}`,
	`{"name":"count","inputSchema":{"type":"object","properties":{"key":{"type":"string"}}}}`,
	`{"name":"sleep","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"}}}}`,
	`{"name":"misbehave","inputSchema":{"type":"object","properties":{"key":{"type":"string"}}}}`,
}

const misbehave = "misbehave"

// called is the name of the tool that a message calls, or nothing.
func called(m *mcptest.Message) string {
	if m.Method != "tools/call" || m.ID == nil {
		return ""
	}
	return mcptest.Text(m.Params, "name")
}

// tool answers the tools that every server has; wait blocks for some time and
// returns early when the caller is gone. ok is false for other messages.
func (s *Server) tool(m *mcptest.Message, wait func(time.Duration)) (member string, ok bool) {
	args := mcptest.Member(m.Params, "arguments")
	switch called(m) {
	case "ping_tool":
		return says(m, "pong"), true
	case "count":
		key := mcptest.Text(args, "key")
		s.Journal.Note(ran, key)
		return says(m, strconv.Itoa(s.Journal.Count(ran, key))), true
	case "sleep":
		ms, _ := strconv.Atoi(string(mcptest.Member(args, "ms")))
		wait(min(time.Duration(ms)*time.Millisecond, time.Minute))
		return says(m, "slept"), true
	case misbehave:
		return says(m, "I behave"), true
	}
	return "", false
}

// modern reports whether a request is of the modern era.
func modern(m *mcptest.Message) bool {
	return mcptest.Text(mcptest.Member(m.Params, "_meta"), "io.modelcontextprotocol/protocolVersion") == mcptest.Modern
}

// says is the member that answers a call with a text, in the request's era.
func says(m *mcptest.Message, text string) string {
	return member(m, `"content":[{"type":"text","text":`+quote(text)+`}]`)
}

// member completes members to a result of the request's era.
func member(m *mcptest.Message, members string) string {
	if modern(m) {
		members = `"resultType":"complete",` + members
	}
	return `"result":{` + members + `}`
}

// list is the member that answers tools/list.
func list(m *mcptest.Message, tools, more string) string {
	if modern(m) {
		more += `,"ttlMs":60000,"cacheScope":"public"`
	}
	return member(m, `"tools":[`+tools+`]`+more)
}

func failure(code int, text string) string {
	return fmt.Sprintf(`"error":{"code":%d,"message":%s}`, code, quote(text))
}

// message is an answer to m with this member.
func message(m *mcptest.Message, member string) string {
	return `{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + member + `}`
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
