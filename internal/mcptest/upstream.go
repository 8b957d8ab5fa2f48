package mcptest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Upstream is an MCP server whose definitions and results are given as raw
// JSON, and leave it byte for byte. It serves both eras over HTTP (it is an
// http.Handler) and over stdio (see Command). The fields are read-only once it
// serves; those that are exported survive the trip into a child process.
type Upstream struct {
	// Versions are the protocol versions it speaks. If nil, all of both eras.
	Versions []string
	// Capabilities is a raw object. If empty, it follows from the lists below.
	Capabilities string
	// Info is the raw serverInfo. If empty, one with the name "fake".
	Info string
	// Instructions are sent in the handshake when they are not empty.
	Instructions string

	// Tools and the others hold one raw definition per entry.
	Tools, Prompts, Resources, Templates []string
	// Answers maps a tool's name, a prompt's name or a URI to the member that
	// answers it: `"result":{...}` or `"error":{...}`. A name that is missing
	// gets -32602; a tool without an answer echoes its arguments' bytes.
	Answers map[string]string
	// Notes maps a name to raw notifications that precede its answer; the text
	// $TOKEN in them becomes the progress token of the call.
	Notes map[string][]string
	// Asks maps a tool's name to what it asks before it answers, round by round.
	// Its answer is the text of all answers, in order.
	Asks map[string][][]Question
	// Lab adds tools whose effects outlast a call, and a resource; see lab.
	Lab bool
	// Doc is the URI of the lab's resource. If empty, lab://doc.
	Doc string
	// Delays maps a name or a method to the wait before the answer.
	Delays map[string]time.Duration
	// PageSize is how many entries one page of a list holds. If zero, all.
	PageSize int
	// SSE answers every HTTP request as an event stream; without it only those
	// that have Notes.
	SSE bool
	// Noise is written to stdout before anything else (stdio only).
	Noise string

	// Faults maps a method, or a name, to what happens instead (HTTP only).
	Faults map[string]Fault `json:"-"`

	mu       sync.Mutex
	seen     []Received
	sessions map[string]bool
	nextID   int
	streams  map[chan string]bool
	asked    questions
	lab      lab
}

// Received is one message that the upstream got.
type Received struct {
	Message
	// Raw is the whole message.
	Raw []byte
	// Header is nil over stdio.
	Header http.Header
}

// Name is the tool, prompt or URI that the message is about.
func (r *Received) Name() string { return nameOf(r.Params) }

func nameOf(params []byte) string {
	if n := Text(params, "name"); n != "" {
		return n
	}
	return Text(params, "uri")
}

// Seen returns what arrived so far, of one method or of all when it is "".
func (u *Upstream) Seen(method string) []Received {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []Received
	for _, r := range u.seen {
		if method == "" || r.Method == method {
			out = append(out, r)
		}
	}
	return out
}

// maxSeen bounds the record: a test that floods keeps the newest.
const maxSeen = 10_000

func (u *Upstream) record(r Received) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.seen) == maxSeen {
		u.seen = u.seen[1:]
	}
	u.seen = append(u.seen, r)
}

func (u *Upstream) speaks(version string) bool {
	if u.Versions == nil {
		return true
	}
	for _, v := range u.Versions {
		if v == version {
			return true
		}
	}
	return false
}

func (u *Upstream) newest(modern bool) string {
	if modern {
		if u.speaks(Modern) {
			return Modern
		}
		return ""
	}
	for _, v := range LegacyVersions {
		if u.speaks(v) {
			return v
		}
	}
	return ""
}

func (u *Upstream) capabilities() string {
	if u.Capabilities != "" {
		return u.Capabilities
	}
	if u.Lab {
		return `{"logging":{},"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},` +
			`"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},"extensions":{"` + tasksExtension + `":{}}}`
	}
	caps := []string{`"logging":{}`, `"tools":{"listChanged":true}`}
	if len(u.Prompts) > 0 {
		caps = append(caps, `"prompts":{"listChanged":true}`, `"completions":{}`)
	}
	if len(u.Resources)+len(u.Templates) > 0 {
		caps = append(caps, `"resources":{"listChanged":true}`)
	}
	return "{" + strings.Join(caps, ",") + "}"
}

func (u *Upstream) info() string {
	if u.Info != "" {
		return u.Info
	}
	return `{"name":"fake","version":"1"}`
}

// SetTools replaces the tools while u serves. Use Push to tell.
func (u *Upstream) SetTools(defs ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.Tools = defs
}

func (u *Upstream) tools() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.Lab {
		return append(u.labList(), u.Tools...)
	}
	return u.Tools
}

func (u *Upstream) resources() []string {
	if u.Lab {
		return append([]string{`{"uri":` + quote(u.doc()) + `,"name":"doc"}`}, u.Resources...)
	}
	return u.Resources
}

// member returns the `"result":…` or `"error":…` that answers a request.
func (u *Upstream) member(m *Message, modern bool) string {
	switch m.Method {
	case "initialize":
		return u.initialize(m)
	case "server/discover":
		return u.discover()
	case "resources/subscribe", "resources/unsubscribe":
		u.watch(m)
		return result(modern, "")
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		return u.task(m, modern)
	case "ping", "logging/setLevel":
		return result(modern, "")
	case "tools/list":
		return u.page(m, modern, "tools", u.tools())
	case "prompts/list":
		return u.page(m, modern, "prompts", u.Prompts)
	case "resources/list":
		return u.page(m, modern, "resources", u.resources())
	case "resources/templates/list":
		return u.page(m, modern, "resourceTemplates", u.Templates)
	case "tools/call", "prompts/get", "resources/read", "completion/complete":
		return u.answer(m, modern)
	}
	return failure(-32601, "method not found: "+m.Method)
}

func (u *Upstream) initialize(m *Message) string {
	v := Text(m.Params, "protocolVersion")
	if v == Modern || !u.speaks(v) {
		v = u.newest(false)
	}
	if v == "" {
		return `"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["` + Modern + `"]}}`
	}
	extra := ""
	if u.Instructions != "" {
		extra = `,"instructions":` + quote(u.Instructions)
	}
	return `"result":{"protocolVersion":"` + v + `","capabilities":` + u.capabilities() + `,"serverInfo":` + u.info() + extra + `}`
}

func (u *Upstream) discover() string {
	if u.newest(true) == "" {
		return failure(-32601, "method not found: server/discover")
	}
	extra := ""
	if u.Instructions != "" {
		extra = `,"instructions":` + quote(u.Instructions)
	}
	return `"result":{"resultType":"complete","supportedVersions":["` + Modern + `"],"capabilities":` + u.capabilities() +
		`,"ttlMs":60000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":` + u.info() + `}` + extra + `}`
}

func (u *Upstream) page(m *Message, modern bool, key string, all []string) string {
	from, err := strconv.Atoi("0" + Text(m.Params, "cursor"))
	if err != nil || from > len(all) {
		return failure(-32602, "bad cursor")
	}
	to, next := len(all), ""
	if u.PageSize > 0 && from+u.PageSize < len(all) {
		to = from + u.PageSize
		next = `,"nextCursor":"` + strconv.Itoa(to) + `"`
	}
	if modern {
		next += `,"ttlMs":60000,"cacheScope":"public"`
	}
	return result(modern, `"`+key+`":[`+strings.Join(all[from:to], ",")+`]`+next)
}

func (u *Upstream) answer(m *Message, modern bool) string {
	name := nameOf(m.Params)
	if modern && u.asks(m) {
		return u.input(m)
	}
	if m.Method == "completion/complete" {
		ref := Member(m.Params, "ref")
		name = nameOf(ref)
	}
	if a, ok := u.Answers[name]; ok {
		return a
	}
	for _, t := range u.tools() {
		if m.Method == "tools/call" && Text([]byte(t), "name") == name {
			return result(modern, `"content":[{"type":"text","text":`+quote(string(Member(m.Params, "arguments")))+`}]`)
		}
	}
	return failure(-32602, "unknown: "+name)
}

// result completes members to a result of the era.
func result(modern bool, members string) string {
	if !modern {
		return `"result":{` + members + `}`
	}
	if members != "" {
		members = "," + members
	}
	return `"result":{"resultType":"complete"` + members + `}`
}

func failure(code int, text string) string {
	return fmt.Sprintf(`"error":{"code":%d,"message":%s}`, code, quote(text))
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// notes are what precedes the answer to m.
func (u *Upstream) notes(m *Message) []string {
	token := Member(Member(m.Params, "_meta"), "progressToken")
	var out []string
	for _, n := range u.Notes[nameOf(m.Params)] {
		if strings.Contains(n, "$TOKEN") && token == nil {
			continue
		}
		out = append(out, strings.ReplaceAll(n, "$TOKEN", string(token)))
	}
	return out
}

func (u *Upstream) delay(m *Message) time.Duration {
	if d, ok := u.Delays[nameOf(m.Params)]; ok {
		return d
	}
	return u.Delays[m.Method]
}
