//go:build npm

package servers

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func samples(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	p.says(t, "trigger-sampling-request", `{"prompt":"grüße","maxTokens":50}`, "said by "+p.name)
	asked := p.questions("sampling/createMessage")
	if len(asked) != 1 || !strings.Contains(asked[0], "context: grüße") || !strings.Contains(asked[0], `"maxTokens":50`) {
		t.Errorf("asked %s", asked)
	}
}

// fillsForm: the reference server's form has fields of every kind, and warns of
// secrets without asking for one.
func fillsForm(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	r := p.says(t, "trigger-elicitation-request", `{}`, "- Name: "+p.name)
	if !strings.Contains(string(r.Result), "Favorite Integer: 7") {
		t.Errorf("got %s", r.Result)
	}
	asked := p.questions("elicitation/create")
	if len(asked) != 1 || strings.Count(asked[0], `"default"`) != 8 || !strings.Contains(asked[0], `"enumNames"`) {
		t.Errorf("asked %s", asked)
	}
}

func opensLink(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	p.says(t, "trigger-url-elicitation", `{"url":"https://example.com/a?b=c","elicitationId":"e1"}`, "User completed the URL elicitation flow.")
	if asked := p.questions("elicitation/create"); len(asked) != 1 || !strings.Contains(asked[0], `"https://example.com/a?b=c"`) {
		t.Errorf("asked %s", asked)
	}
}

// linkFirst: the server refuses a call until a link was opened. An agent of the
// older era gets that error, one of the newer era a question instead.
func linkFirst(t *testing.T, _ *mcptest.Sidecar, server string, p *party) {
	args := `{"errorPath":true,"url":"https://example.com/` + p.name + `"}`
	r := p.tool(t, "trigger-url-elicitation", args)
	if p.Version == mcptest.Modern {
		if !strings.Contains(string(r.Result), "User completed") {
			t.Errorf("got %s", r.Raw)
		}
		if asked := p.questions("elicitation/create"); len(asked) != 2 || !strings.Contains(asked[0], `"https://modelcontextprotocol.io"`) {
			t.Errorf("asked %s", asked)
		}
		return
	}
	if r.Code() != -32042 || !strings.Contains(string(r.Error), `"https://modelcontextprotocol.io"`) {
		t.Fatalf("got %s", r.Raw)
	}
	p.says(t, "trigger-url-elicitation", args, "User completed")
	p.questions("")
}

// tellsRoots: the server asks once for each connection and remembers. Those who
// share one see what the first of them said; a session of one's own knows no other.
func tellsRoots(t *testing.T, _ *mcptest.Sidecar, server string, p *party) {
	want := "file:///home/ada/"
	if strings.HasSuffix(server, "per_session") && p.Version != mcptest.Modern {
		want += p.name
	}
	p.says(t, "get-roots-list", `{}`, want)
	p.questions("")
}

// namesTheAsker: where agents see many servers, a question says whose it is.
func namesTheAsker(t *testing.T, s *mcptest.Sidecar) {
	for _, v := range []string{mcptest.Legacy, mcptest.Modern} {
		p := join(t, s, "", v, "all-"+v)
		p.says(t, "mcp_stdio_shared_trigger_elicitation_request", `{}`, p.name)
		if asked := p.questions("elicitation/create"); len(asked) != 1 || !strings.Contains(asked[0], `"[stdio-shared] Please`) {
			t.Errorf("%s: asked %.200s", v, asked)
		}
		p.says(t, "mcp_http_shared_trigger_sampling_request", `{"prompt":"x"}`, "said by "+p.name)
		if asked := p.questions("sampling/createMessage"); len(asked) != 1 || !strings.Contains(asked[0], `server \"http-shared\"`) {
			t.Errorf("%s: asked %s", v, asked)
		}
	}
}

// atOnce: the questions of four agents' calls at the same time each reach their own.
func atOnce(t *testing.T, s *mcptest.Sidecar, server string, p *party) {
	var all []*party
	for i := range 3 {
		all = append(all, join(t, s, server, p.Version, fmt.Sprintf("%s-%d", p.name, i)))
	}
	var wg sync.WaitGroup
	for _, p := range append(all, p) {
		wg.Go(func() {
			r, _, err := p.Converse(t.Context(), "tools/call", `"name":"trigger-sampling-request","arguments":{"prompt":`+jsonOf("for "+p.name+"!")+`}`)
			if err != nil || !strings.Contains(string(r.Result), `said by `+p.name+`\"`) {
				t.Errorf("%s: %v %.400s", p.name, err, r.Body)
			}
			if asked := p.questions("sampling/createMessage"); len(asked) != 1 || !strings.Contains(asked[0], "for "+p.name+"!") {
				t.Errorf("%s was asked %s", p.name, asked)
			}
		})
	}
	wg.Wait()
}
