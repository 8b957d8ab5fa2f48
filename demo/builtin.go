package demo

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func builtinServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "demo-builtin", Title: "Built-in demo", Version: version}, nil)
	mcp.AddTool(s, &mcp.Tool{
		Name: "time", Title: "Current time",
		Description: "Returns the current time in RFC 3339, in UTC or in the named time zone.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)},
	}, now)
	mcp.AddTool(s, &mcp.Tool{
		Name: "word_count", Title: "Count words",
		Description: "Counts the lines, words and characters of a text.",
		Annotations: harmless(),
	}, wordCount)
	return s
}

type timeArgs struct {
	Zone string `json:"zone,omitempty" jsonschema:"an IANA time zone such as Europe/Berlin; UTC when it is left out"`
}

// maxZone is longer than any name in the time zone database.
const maxZone = 64

func now(_ context.Context, _ *mcp.CallToolRequest, a timeArgs) (*mcp.CallToolResult, any, error) {
	if len(a.Zone) > maxZone {
		return nil, nil, fmt.Errorf("zone has %d bytes, at most %d are allowed", len(a.Zone), maxZone)
	}
	loc, err := time.LoadLocation(a.Zone)
	if err != nil {
		return nil, nil, fmt.Errorf("zone %q is not known", a.Zone)
	}
	return text(time.Now().In(loc).Format(time.RFC3339)), nil, nil
}

type countArgs struct {
	Text string `json:"text" jsonschema:"the text to count"`
}

type counts struct {
	Lines      int `json:"lines" jsonschema:"number of lines"`
	Words      int `json:"words" jsonschema:"number of words"`
	Characters int `json:"characters" jsonschema:"number of characters"`
}

func wordCount(_ context.Context, _ *mcp.CallToolRequest, a countArgs) (*mcp.CallToolResult, counts, error) {
	c := counts{
		Lines:      strings.Count(a.Text, "\n"),
		Words:      len(strings.Fields(a.Text)),
		Characters: utf8.RuneCountInString(a.Text),
	}
	if a.Text != "" && !strings.HasSuffix(a.Text, "\n") {
		c.Lines++
	}
	return text(fmt.Sprintf("%d lines, %d words, %d characters", c.Lines, c.Words, c.Characters)), c, nil
}
