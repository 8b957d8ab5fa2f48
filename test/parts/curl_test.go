//go:build npm

package parts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// curlEnv tells the test binary to be a stdio server whose tools run curl.
const curlEnv = "MCP_SIDECAR_PARTS_CURL"

// fetching is what the tool get is given.
type fetching struct {
	URL string `json:"url"`
	CA  string `json:"ca,omitempty"`
}

// serveCurl is that server: get fetches, environment tells the proxy variables.
func serveCurl() {
	if os.Getenv(curlEnv) == "" {
		return
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "curl", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "get"}, func(ctx context.Context, _ *mcp.CallToolRequest, in fetching) (*mcp.CallToolResult, any, error) {
		args := []string{"-sS", "-m", "10", "-w", " %{http_code} %{http_connect}"}
		if in.CA != "" {
			args = append(args, "--cacert", in.CA)
		}
		out, err := exec.CommandContext(ctx, "curl", append(args, in.URL)...).CombinedOutput()
		if err != nil {
			out = fmt.Appendf(out, " %v", err)
		}
		return said(string(out)), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "environment"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return said(strings.Join(os.Environ(), "\n")), nil, nil
	})
	time.AfterFunc(10*time.Minute, func() { os.Exit(0) })
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}
