package sampling

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// completion is the part of an endpoint's answer that is read.
type completion struct {
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"` // of hosts that say 200 all the same
	Choices []struct {
		Message struct {
			Content   json.RawMessage `json:"content"`
			Refusal   string          `json:"refusal"`
			ToolCalls []chatCall      `json:"tool_calls"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		TotalTokens      float64 `json:"total_tokens"`
		PromptTokens     float64 `json:"prompt_tokens"`
		CompletionTokens float64 `json:"completion_tokens"`
	} `json:"usage"`
}

func malformed(what string) error {
	return unfit(wire.CodeInternal, "the chat endpoint's answer %s", what)
}

// noAnswer is an answer that is none: the server is told no more of it than of any
// other failure of the endpoint.
type noAnswer struct {
	what string
	said string // in the answer's error, if it has one
}

func (n *noAnswer) Error() string { return "the answer " + n.what }

// detail is what the log gets.
func (n *noAnswer) detail(key string) error {
	if n.said == "" {
		return n
	}
	return fmt.Errorf("%w: %w", n, scrub(n.said, key))
}

// answer turns what an endpoint said to req into a CreateMessageResult.
func answer(body []byte, req *chat) ([]byte, error) {
	var c completion
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, &noAnswer{what: "cannot be read"}
	}
	if len(c.Choices) == 0 {
		return nil, &noAnswer{"holds no choices", string(c.Error)}
	}
	choice := &c.Choices[0]
	if len(choice.Message.ToolCalls) > 0 && len(req.Tools) == 0 {
		return nil, malformed("calls tools that nobody offered")
	}
	text := textOf(choice.Message.Content)
	if text == "" {
		text = choice.Message.Refusal
	}
	content, err := appendContent(nil, text, choice.Message.ToolCalls)
	if err != nil {
		return nil, err
	}
	model := c.Model
	if model == "" {
		model = req.Model
	}
	out := append([]byte(`{"role":"assistant","content":`), content...)
	out = wire.AppendQuote(append(out, `,"model":`...), model)
	if reason := stopReason(choice.FinishReason, len(choice.Message.ToolCalls) > 0); reason != "" {
		out = wire.AppendQuote(append(out, `,"stopReason":`...), reason)
	}
	if n := c.tokens(); n > 0 {
		out = fmt.Appendf(out, `,"_meta":{%q:%d}`, policy.UsageKey, n)
	}
	return append(out, '}'), nil
}

func (c *completion) tokens() int64 {
	n := c.Usage.TotalTokens
	if n == 0 {
		n = c.Usage.PromptTokens + c.Usage.CompletionTokens
	}
	return int64(min(max(n, 0), 1<<40))
}

// appendContent writes one block of text, or a list where tools are called.
func appendContent(dst []byte, text string, calls []chatCall) ([]byte, error) {
	block := append(wire.AppendQuote([]byte(`{"type":"text","text":`), text), '}')
	if len(calls) == 0 {
		return append(dst, block...), nil
	}
	dst = append(dst, '[')
	if text != "" {
		dst = append(append(dst, block...), ',')
	}
	for i := range calls {
		input, err := arguments(calls[i].Function.Arguments)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendQuote(append(dst, `{"type":"tool_use","id":`...), calls[i].ID)
		dst = wire.AppendQuote(append(dst, `,"name":`...), calls[i].Function.Name)
		dst = append(append(append(dst, `,"input":`...), input...), '}')
	}
	return append(dst, ']'), nil
}

// arguments are those of a call, which models now and then write wrongly.
func arguments(raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return "{}", nil
	}
	if _, err := wire.Valid([]byte(raw), wire.Limits{}); err != nil || raw[0] != '{' {
		return "", malformed("calls a tool with arguments that are no object")
	}
	return raw, nil
}

// textOf reads content, which some hosts write as a list of parts.
func textOf(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []part
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// stopReason is MCP's word for an endpoint's.
func stopReason(s string, calls bool) string {
	switch {
	case calls || s == "tool_calls":
		return "toolUse"
	case s == "stop":
		return "endTurn"
	case s == "length":
		return "maxTokens"
	}
	return s
}
