package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Agent is a scripted HTTP client of an MCP endpoint. It keeps the bytes it got
// and hides nothing: no retries, no defaults beyond the headers that the
// protocol demands. Once Open has returned it may be used concurrently.
type Agent struct {
	// URL is the endpoint.
	URL string
	// Version decides the era. If empty, Modern.
	Version string
	// Token is sent as a bearer token. If empty, none is sent.
	Token string
	// Header is added last to every request, over what the agent sets itself.
	Header http.Header
	// Capabilities is the raw object that the agent declares. If empty, {}.
	Capabilities string
	// Answer, if set, answers what servers ask: it returns the raw member
	// `"result":{...}` or `"error":{...}`. It may be called concurrently.
	Answer func(method string, params []byte) (member string)
	// Client sends the requests. If nil, http.DefaultClient.
	Client *http.Client

	// Session is what the server gave at initialize; tests may overwrite it.
	Session string
	// agreed is the version that the server chose (legacy).
	agreed string
	lastID atomic.Int64
	pipe   *pipe // of Spawn; nil over HTTP
}

// A Reply is what came back for one POST.
type Reply struct {
	Status int
	Header http.Header
	// Body is the whole body; for an event stream, its bytes as they came.
	Body []byte
	// Raw is the message that answers the request; nil when there is none.
	Raw []byte
	// Result and Error are members of Raw.
	Result, Error json.RawMessage
	// Notes are the messages that came before the answer.
	Notes [][]byte
	// Comments counts the comment lines of an event stream.
	Comments int
}

// Code is the code of the JSON-RPC error, or zero.
func (r *Reply) Code() int {
	n, _ := strconv.Atoi(string(Member(r.Error, "code")))
	return n
}

// IsToolError reports whether the result says isError.
func (r *Reply) IsToolError() bool { return string(Member(r.Result, "isError")) == "true" }

// Content is the text of the result's first content block.
func (r *Reply) Content() string {
	blocks := Elements(Member(r.Result, "content"))
	if len(blocks) == 0 {
		return ""
	}
	return Text(blocks[0], "text")
}

func (a *Agent) version() string {
	if a.Version == "" {
		return Modern
	}
	return a.Version
}

func (a *Agent) modern() bool { return a.version() == Modern }

func (a *Agent) capabilities() string {
	if a.Capabilities == "" {
		return "{}"
	}
	return a.Capabilities
}

// Open does the handshake of the era and returns its reply.
func (a *Agent) Open(ctx context.Context) (*Reply, error) {
	if a.modern() {
		return a.expectResult(a.Do(ctx, "server/discover", ""))
	}
	r, err := a.expectResult(a.Do(ctx, "initialize", `"protocolVersion":"`+a.version()+`","capabilities":`+a.capabilities()+`,"clientInfo":{"name":"mcptest","version":"1"}`))
	if err != nil {
		return r, err
	}
	a.Session = r.Header.Get("Mcp-Session-Id")
	a.agreed = Text(r.Result, "protocolVersion")
	return r, a.Notify(ctx, "notifications/initialized", "")
}

func (a *Agent) expectResult(r *Reply, err error) (*Reply, error) {
	if err == nil && r.Result == nil {
		err = fmt.Errorf("HTTP %d: %.300s", r.Status, r.Body)
	}
	return r, err
}

// Do sends one request; members are those of its params, without braces.
func (a *Agent) Do(ctx context.Context, method, members string) (*Reply, error) {
	id := strconv.FormatInt(a.lastID.Add(1), 10)
	return a.DoID(ctx, id, method, members)
}

// DoID is Do with an id of the test's own, as raw JSON.
func (a *Agent) DoID(ctx context.Context, id, method, members string) (*Reply, error) {
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":` + quote(method) + a.params(members) + `}`
	return a.Post(ctx, []byte(body), a.headers(method, []byte("{"+members+"}")), id)
}

// Notify sends one notification.
func (a *Agent) Notify(ctx context.Context, method, members string) error {
	body := `{"jsonrpc":"2.0","method":` + quote(method) + a.params(members) + `}`
	r, err := a.Post(ctx, []byte(body), a.headers(method, nil), "")
	if err == nil && r.Status/100 != 2 {
		err = fmt.Errorf("%s: HTTP %d: %.300s", method, r.Status, r.Body)
	}
	return err
}

// Call calls a tool with raw arguments.
func (a *Agent) Call(ctx context.Context, tool, arguments string) (*Reply, error) {
	return a.Do(ctx, "tools/call", `"name":`+quote(tool)+`,"arguments":`+arguments)
}

// List walks a list to its end and returns its entries' bytes; key is the
// member that holds them.
func (a *Agent) List(ctx context.Context, method, key string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	members := ""
	for range maxPages {
		r, err := a.expectResult(a.Do(ctx, method, members))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		all = append(all, Elements(Member(r.Result, key))...)
		next := Member(r.Result, "nextCursor")
		if next == nil {
			return all, nil
		}
		members = `"cursor":` + string(next)
	}
	return nil, fmt.Errorf("%s: more than %d pages", method, maxPages)
}

const maxPages = 1000

// Tools lists the tools by name.
func (a *Agent) Tools(ctx context.Context) (map[string]json.RawMessage, error) {
	all, err := a.List(ctx, "tools/list", "tools")
	byName := make(map[string]json.RawMessage, len(all))
	for _, t := range all {
		byName[Text(t, "name")] = t
	}
	if err == nil && len(byName) != len(all) {
		err = fmt.Errorf("tools/list: %d tools, but %d names", len(all), len(byName))
	}
	return byName, err
}

// params completes members with the _meta of the modern era.
func (a *Agent) params(members string) string {
	if a.modern() {
		meta := a.Meta("")
		if own := Member([]byte("{"+members+"}"), "_meta"); own != nil {
			return `,"params":{` + members + `}`
		}
		if members != "" {
			meta = "," + meta
		}
		return `,"params":{` + members + meta + `}`
	}
	if members == "" {
		return ""
	}
	return `,"params":{` + members + `}`
}

// Meta is the member _meta of a request in the agent's era; extra are more of
// its members, without a comma.
func (a *Agent) Meta(extra string) string {
	if !a.modern() {
		return `"_meta":{` + extra + `}`
	}
	if extra != "" {
		extra = "," + extra
	}
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + Modern + `","io.modelcontextprotocol/clientInfo":{"name":"mcptest","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + a.capabilities() + extra + `}`
}

func (a *Agent) headers(method string, params []byte) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	if a.Token != "" {
		h.Set("Authorization", "Bearer "+a.Token)
	}
	if a.modern() {
		h.Set("Mcp-Protocol-Version", Modern)
		h.Set("Mcp-Method", method)
		name := nameOf(params)
		if strings.HasPrefix(method, "tasks/") {
			name = Text(params, "taskId")
		}
		if name != "" {
			h.Set("Mcp-Name", name)
		}
	} else if a.Session != "" || a.agreed != "" {
		h.Set("Mcp-Protocol-Version", a.agreed)
		h.Set("Mcp-Session-Id", a.Session)
	}
	for k, v := range a.Header {
		h[k] = v
	}
	return h
}

// Post sends a body as it is. The answer is the message with that id; with an
// empty id there is none to wait for.
func (a *Agent) Post(ctx context.Context, body []byte, h http.Header, id string) (*Reply, error) {
	if a.pipe != nil {
		return a.pipe.post(ctx, body, id)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = h
	resp, err := a.client().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	r := &Reply{Status: resp.StatusCode, Header: resp.Header}
	return r, a.read(ctx, r, resp.Body, id)
}

// read takes the messages of a reply as they come, and answers those that ask.
func (a *Agent) read(ctx context.Context, r *Reply, body io.Reader, id string) error {
	var all bytes.Buffer
	in := io.TeeReader(io.LimitReader(body, maxBody), &all)
	if !isEventStream(r.Header) {
		_, err := io.Copy(io.Discard, in)
		r.Body = all.Bytes()
		r.take(r.Body, id)
		return err
	}
	sc := NewEvents(in)
	var answers sync.WaitGroup
	for sc.Next() {
		r.take(sc.Data, id)
		if m := Parse(sc.Data); m.Method != "" && m.ID != nil && a.Answer != nil {
			answers.Go(func() { a.respond(ctx, &m) })
		}
	}
	answers.Wait()
	r.Body, r.Comments = all.Bytes(), sc.Comments
	if sc.err != io.EOF {
		return sc.err
	}
	return nil
}

// respond answers a question of the server.
func (a *Agent) respond(ctx context.Context, m *Message) {
	member := a.Answer(m.Method, m.Params)
	if member == "" {
		return // this agent never answers
	}
	body := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + member + `}`
	h := a.headers("", nil)
	h.Del("Mcp-Method")
	a.Post(ctx, []byte(body), h, "")
}

// maxRounds bounds Converse.
const maxRounds = 20

// Converse sends a request and, in the modern era, repeats it with answers to
// what the server asks until it has its result. rounds counts the repetitions.
func (a *Agent) Converse(ctx context.Context, method, members string) (r *Reply, rounds int, err error) {
	r, err = a.Do(ctx, method, members)
	for ; err == nil && Text(r.Result, "resultType") == "input_required"; rounds++ {
		if rounds == maxRounds || a.Answer == nil {
			return r, rounds, fmt.Errorf("%s: still asked after %d rounds: %.300s", method, rounds, r.Result)
		}
		r, err = a.Do(ctx, method, members+a.Inputs(r.Result))
	}
	return r, rounds, err
}

// Inputs are the members that answer an input_required result, with a comma first.
func (a *Agent) Inputs(result []byte) string {
	var asks map[string]struct {
		Method string
		Params json.RawMessage
	}
	json.Unmarshal(Member(result, "inputRequests"), &asks)
	var parts []string
	for key, q := range asks {
		if member := a.Answer(q.Method, q.Params); strings.HasPrefix(member, `"result":`) {
			parts = append(parts, quote(key)+":"+strings.TrimPrefix(member, `"result":`))
		}
	}
	out := `,"inputResponses":{` + strings.Join(parts, ",") + `}`
	if state := Member(result, "requestState"); state != nil {
		out += `,"requestState":` + string(state)
	}
	return out
}

func (a *Agent) client() *http.Client {
	if a.Client != nil {
		return a.Client
	}
	return http.DefaultClient
}

func (r *Reply) take(b []byte, id string) {
	m := Parse(b)
	switch {
	case m.Method != "":
		r.Notes = append(r.Notes, bytes.Clone(b))
	case id != "" && string(m.ID) == id || m.Error != nil && r.Raw == nil:
		r.Raw, r.Result, r.Error = bytes.Clone(b), m.Result, m.Error
	}
}

// Get opens the standing stream of a legacy session. The caller closes the body.
func (a *Agent) Get(ctx context.Context) (*http.Response, error) {
	return a.bare(ctx, http.MethodGet)
}

// Delete ends a legacy session.
func (a *Agent) Delete(ctx context.Context) (*http.Response, error) {
	resp, err := a.bare(ctx, http.MethodDelete)
	if err == nil {
		resp.Body.Close()
	}
	return resp, err
}

func (a *Agent) bare(ctx context.Context, method string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.URL, nil)
	if err != nil {
		return nil, err
	}
	req.Header = a.headers("", nil)
	req.Header.Del("Content-Type")
	req.Header.Del("Mcp-Method")
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	return a.client().Do(req)
}
