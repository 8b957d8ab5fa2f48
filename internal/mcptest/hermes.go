package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Hermes is an agent that behaves like Hermes Agent towards one endpoint: it
// looks before it connects, opens with initialize, sends one request at a time,
// caps what it reads, knows an expired session by the text of the answer, and
// accepts a form without filling it in. Its limits are those that its public
// source has.
type Hermes struct {
	URL   string
	Token string
	// Server is the key of the entry in its own configuration.
	Server string

	agent  Agent
	mu     sync.Mutex
	strike int

	askedMu sync.Mutex
	asked   []Question
}

// hermesOffers is what Hermes declares: it knows no tools inside of sampling.
const hermesOffers = `{"sampling":{},"elicitation":{"form":{},"url":{}}}`

// The limits of Hermes that an endpoint must stay within.
const (
	HermesMaxBody   = 10 << 20
	HermesMaxText   = 2_000_000
	HermesMaxPages  = 50
	HermesSilence   = 300 * time.Second
	HermesPingLimit = 30 * time.Second
	hermesStrikes   = 3
	hermesVersion   = "2025-11-25"
)

// ErrSessionExpired is what Hermes makes of an answer that tells it to
// reconnect.
var ErrSessionExpired = errors.New("session expired")

// ErrBreakerOpen is what Hermes answers by itself after three strikes.
var ErrBreakerOpen = errors.New("server is blocked for 60 s after 3 failures in a row")

// expiredTexts are the texts by which Hermes knows a lost session.
var expiredTexts = []string{
	"invalid or expired session", "expired session", "session expired", "session not found",
	"unknown session", "session terminated", "closed resource", "transport is closed",
	"connection closed", "broken pipe", "end of file",
}

// Preflight is what Hermes does before it connects: HEAD, then GET when HEAD is
// not offered. A 2xx that is neither JSON nor an event stream means "no MCP
// endpoint" to it.
func (h *Hermes) Preflight(ctx context.Context) error {
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		code, ct, err := h.look(ctx, method)
		if err != nil {
			return err
		}
		if method == http.MethodHead && (code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented) {
			continue
		}
		if code/100 == 2 && ct != "" && !strings.HasPrefix(ct, "application/json") && !strings.HasPrefix(ct, "text/event-stream") {
			return fmt.Errorf("%s answers %d with %s: not an MCP endpoint", method, code, ct)
		}
		return nil
	}
	return nil
}

func (h *Hermes) look(ctx context.Context, method string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, h.URL, nil)
	if err != nil {
		return 0, "", err
	}
	if h.Token != "" {
		req.Header.Set("Authorization", "Bearer "+h.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Content-Type"), nil
}

// Connect opens a session. The very first POST already carries the version
// header.
func (h *Hermes) Connect(ctx context.Context) (*Reply, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.agent = Agent{URL: h.URL, Token: h.Token, Version: hermesVersion, agreed: hermesVersion,
		Capabilities: hermesOffers, Answer: h.answer}
	r, err := h.agent.Open(ctx)
	if err == nil {
		h.strike = 0
	}
	return r, err
}

// answer is what Hermes says to a question: the person behind it approves of a
// form and is not asked to fill it in, and links are never opened.
func (h *Hermes) answer(method string, params []byte) string {
	h.askedMu.Lock()
	h.asked = append(h.asked, Question{method, string(params)})
	h.askedMu.Unlock()
	switch {
	case method == "elicitation/create" && Text(params, "mode") == "url":
		return `"result":{"action":"decline"}`
	case method == "elicitation/create":
		return `"result":{"action":"accept","content":{}}`
	case method == "sampling/createMessage":
		return `"result":{"role":"assistant","content":{"type":"text","text":"said"},"model":"hermes","stopReason":"endTurn"}`
	}
	return failure(-32601, "method not found: "+method)
}

// Asked is what servers have asked so far.
func (h *Hermes) Asked() []Question {
	h.askedMu.Lock()
	defer h.askedMu.Unlock()
	return slices.Clone(h.asked)
}

// Ping is its keepalive.
func (h *Hermes) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, HermesPingLimit)
	defer cancel()
	_, err := h.do(ctx, "ping", "")
	return err
}

// do sends one request; Hermes holds a lock around each.
func (h *Hermes) do(ctx context.Context, method, members string) (*Reply, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, err := h.agent.Do(ctx, method, members)
	switch {
	case err != nil:
		return nil, err
	case len(r.Body) > HermesMaxBody:
		return r, fmt.Errorf("%s: %d bytes, more than Hermes reads", method, len(r.Body))
	case r.Status == http.StatusNotFound && expired(string(r.Body)):
		return r, ErrSessionExpired
	case r.Error != nil:
		return r, fmt.Errorf("%s: %s", method, r.Error)
	case r.Result == nil:
		return r, fmt.Errorf("%s: HTTP %d: %.200s", method, r.Status, r.Body)
	}
	return r, nil
}

func expired(text string) bool {
	text = strings.ToLower(text)
	for _, t := range expiredTexts {
		if strings.Contains(text, t) {
			return true
		}
	}
	return false
}

// A HermesTool is a tool as Hermes registers it.
type HermesTool struct {
	// Name is mcp_<server>_<tool> after Hermes' own mapping.
	Name string
	// Own is the name under which the endpoint listed it.
	Own      string
	ReadOnly bool
	Raw      json.RawMessage
}

// Tools lists the tools within Hermes' limits and names them as it does.
func (h *Hermes) Tools(ctx context.Context) ([]HermesTool, error) {
	var out []HermesTool
	members := ""
	for range HermesMaxPages {
		r, err := h.do(ctx, "tools/list", members)
		if err != nil {
			return nil, err
		}
		for _, t := range Elements(Member(r.Result, "tools")) {
			out = append(out, h.register(t))
		}
		next := Member(r.Result, "nextCursor")
		if next == nil {
			return out, nil
		}
		members = `"cursor":` + string(next)
	}
	return nil, fmt.Errorf("tools/list: more than %d pages", HermesMaxPages)
}

func (h *Hermes) register(t json.RawMessage) HermesTool {
	own := Text(t, "name")
	hint := Member(Member(t, "annotations"), "readOnlyHint")
	return HermesTool{
		Name: "mcp_" + HermesName(h.Server) + "_" + HermesName(own), Own: own,
		ReadOnly: string(hint) == "true", Raw: t,
	}
}

// HermesName maps a component of a name as Hermes does.
func HermesName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, s)
}

// Call calls a tool by the endpoint's name. Three failures in a row, tool errors
// among them, block the whole endpoint.
func (h *Hermes) Call(ctx context.Context, own, arguments string) (*Reply, error) {
	if h.blocked() {
		return nil, ErrBreakerOpen
	}
	r, err := h.do(ctx, "tools/call", `"name":`+quote(own)+`,"arguments":`+arguments)
	h.count(err != nil || r.IsToolError())
	return r, err
}

func (h *Hermes) blocked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.strike >= hermesStrikes
}

func (h *Hermes) count(failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.strike++; !failed {
		h.strike = 0
	}
}

// Session is the id of the live session.
func (h *Hermes) Session() string { return h.agent.Session }

// Silence calls a tool and returns the longest time in which no byte came.
func (h *Hermes) Silence(ctx context.Context, own, arguments string) (time.Duration, error) {
	body := `{"jsonrpc":"2.0","id":` + strconv.Itoa(1<<20) + `,"method":"tools/call","params":{"name":` + quote(own) + `,"arguments":` + arguments + `}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header = h.agent.headers("tools/call", nil)
	at := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	longest, buf := time.Since(at), make([]byte, 4096)
	for {
		at = time.Now()
		_, err := resp.Body.Read(buf)
		longest = max(longest, time.Since(at))
		if err == io.EOF {
			return longest, nil
		}
		if err != nil {
			return longest, err
		}
	}
}
