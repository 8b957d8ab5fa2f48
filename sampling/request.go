package sampling

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// asked is a CreateMessageRequest's params.
type asked struct {
	Messages         []message `json:"messages"`
	ModelPreferences struct {
		Hints []struct {
			Name string `json:"name"`
		} `json:"hints"`
	} `json:"modelPreferences"`
	SystemPrompt  string          `json:"systemPrompt"`
	MaxTokens     float64         `json:"maxTokens"`
	Temperature   json.RawMessage `json:"temperature"`
	StopSequences []string        `json:"stopSequences"`
	Tools         []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	} `json:"tools"`
	ToolChoice *struct {
		Mode string `json:"mode"`
	} `json:"toolChoice"`
}

type message struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

// blocks is one block of content or a list of them.
type blocks []block

// UnmarshalJSON takes either form, and null for nothing.
func (b *blocks) UnmarshalJSON(data []byte) error {
	if data[0] == 'n' {
		return nil
	}
	if data[0] == '[' {
		return json.Unmarshal(data, (*[]block)(b))
	}
	*b = make(blocks, 1)
	return json.Unmarshal(data, &(*b)[0])
}

type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MIMEType string `json:"mimeType"`
	// Of tool_use.
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	// Of tool_result.
	ToolUseID         string          `json:"toolUseId"`
	Content           blocks          `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
	// Of an embedded resource.
	Resource struct {
		Text *string `json:"text"`
	} `json:"resource"`
}

// chat is the body of a chat completions request.
type chat struct {
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	MaxTokens           int64           `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64           `json:"max_completion_tokens,omitempty"`
	Temperature         json.RawMessage `json:"temperature,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	Tools               []chatTool      `json:"tools,omitempty"`
	ToolChoice          string          `json:"tool_choice,omitempty"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"` // a string or a list of parts
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type part struct {
	Type       string      `json:"type"`
	Text       string      `json:"text,omitempty"`
	ImageURL   *imageURL   `json:"image_url,omitempty"`
	InputAudio *inputAudio `json:"input_audio,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type inputAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

func encode(c *chat) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(c)
	return b.Bytes(), err
}

// request turns a server's question into what an endpoint understands. otherwise
// is the model where the question hints at none.
func request(params []byte, otherwise string) (*chat, error) {
	var a asked
	if err := json.Unmarshal(params, &a); err != nil {
		return nil, unfit(wire.CodeInvalidParams, "the request cannot be read")
	}
	c := &chat{Model: otherwise, MaxTokens: int64(a.MaxTokens), Stop: a.StopSequences}
	for _, h := range a.ModelPreferences.Hints {
		if h.Name != "" {
			c.Model = h.Name
			break
		}
	}
	if c.Model == "" {
		return nil, unfit(wire.CodeInvalidParams, "no model is asked for, and none is configured")
	}
	if string(a.Temperature) != "null" {
		c.Temperature = a.Temperature
	}
	if a.SystemPrompt != "" {
		c.Messages = append(c.Messages, chatMessage{Role: "system", Content: a.SystemPrompt})
	}
	for i := range a.Messages {
		if err := c.add(&a.Messages[i]); err != nil {
			return nil, err
		}
	}
	c.offer(&a)
	return c, nil
}

// offer adds the tools that the model may call.
func (c *chat) offer(a *asked) {
	for _, t := range a.Tools {
		c.Tools = append(c.Tools, chatTool{Type: "function", Function: chatFunction{Name: t.Name, Description: t.Description, Parameters: t.InputSchema}})
	}
	if a.ToolChoice != nil && len(c.Tools) > 0 {
		c.ToolChoice = a.ToolChoice.Mode
	}
}

// add appends one message, or one for each result of a tool.
func (c *chat) add(m *message) error {
	if len(m.Content) > 0 && m.Content[0].Type == "tool_result" {
		return c.results(m.Content)
	}
	if m.Role == "assistant" {
		return c.said(m.Content)
	}
	parts := make([]part, 0, len(m.Content))
	for i := range m.Content {
		p, err := m.Content[i].part()
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	out := chatMessage{Role: "user", Content: parts}
	if len(parts) == 1 && parts[0].Type == "text" {
		out.Content = parts[0].Text // what every host understands
	}
	c.Messages = append(c.Messages, out)
	return nil
}

func (b *block) part() (part, error) {
	switch b.Type {
	case "text":
		return part{Type: "text", Text: b.Text}, nil
	case "image":
		if !strings.HasPrefix(b.MIMEType, "image/") || strings.ContainsAny(b.MIMEType, ",; ") {
			return part{}, unfit(wire.CodeInvalidParams, "an image has no MIME type of its kind")
		}
		return part{Type: "image_url", ImageURL: &imageURL{URL: "data:" + b.MIMEType + ";base64," + b.Data}}, nil
	case "audio":
		switch b.MIMEType {
		case "audio/wav", "audio/x-wav", "audio/wave":
			return part{Type: "input_audio", InputAudio: &inputAudio{Data: b.Data, Format: "wav"}}, nil
		case "audio/mpeg", "audio/mp3":
			return part{Type: "input_audio", InputAudio: &inputAudio{Data: b.Data, Format: "mp3"}}, nil
		}
		return part{}, unfit(wire.CodeInvalidParams, "the chat endpoint takes audio as wav or mp3 only")
	}
	return part{}, unfit(wire.CodeInvalidParams, "the chat endpoint cannot take content of the type %.40q", b.Type)
}

// said appends what the model said before: text and calls of tools.
func (c *chat) said(content blocks) error {
	out := chatMessage{Role: "assistant"}
	var texts []string
	for i := range content {
		switch b := &content[i]; b.Type {
		case "text":
			texts = append(texts, b.Text)
		case "tool_use":
			call := chatCall{ID: b.ID, Type: "function"}
			call.Function.Name, call.Function.Arguments = b.Name, string(b.Input)
			out.ToolCalls = append(out.ToolCalls, call)
		default:
			return unfit(wire.CodeInvalidParams, "the chat endpoint cannot take %.40q from the assistant", b.Type)
		}
	}
	if len(texts) > 0 || len(out.ToolCalls) == 0 {
		out.Content = strings.Join(texts, "\n")
	}
	c.Messages = append(c.Messages, out)
	return nil
}

func (c *chat) results(content blocks) error {
	for i := range content {
		b := &content[i]
		text, err := b.resultText()
		if err != nil {
			return err
		}
		c.Messages = append(c.Messages, chatMessage{Role: "tool", ToolCallID: b.ToolUseID, Content: text})
	}
	return nil
}

// resultText is a tool's result as text, which is all that endpoints take.
func (b *block) resultText() (string, error) {
	var texts []string
	for i := range b.Content {
		switch in := &b.Content[i]; {
		case in.Type == "text":
			texts = append(texts, in.Text)
		case in.Type == "resource" && in.Resource.Text != nil:
			texts = append(texts, *in.Resource.Text)
		default:
			return "", unfit(wire.CodeInvalidParams, "the chat endpoint cannot take %.40q from a tool", in.Type)
		}
	}
	if len(texts) == 0 && len(b.StructuredContent) > 0 {
		texts = append(texts, string(b.StructuredContent))
	}
	text := strings.Join(texts, "\n")
	if b.IsError {
		text = "error: " + text
	}
	return text, nil
}
