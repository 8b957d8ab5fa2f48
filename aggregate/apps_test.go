package aggregate

import (
	"fmt"
	"strings"
	"testing"
)

func appTool(name, meta string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"_meta":%s}`, name, meta)
}

// The page of a tool can be read though nobody lists it; a listed one belongs to
// who lists it, and of two tools' servers the first one has it.
func TestAppPages(t *testing.T) {
	a := source(t, "a", appTool("x", `{"ui":{"resourceUri":"ui://a/x","csp":{"connectDomains":["https://e.com"]}}}`),
		appTool("y", `{"ui":{"resourceUri":"ui://both"}}`))
	b := source(t, "b", appTool("x", `{"ui/resourceUri":"ui://b/old"}`), appTool("y", `{"ui":{"resourceUri":"ui://both"}}`),
		appTool("z", `{"ui":{"resourceUri":"ui://listed"}}`), appTool("w", `{"ui":{"resourceUri":"file:///etc/passwd"}}`))
	a.Listing.Resources = raws(`{"uri":"ui://listed","name":"l"}`)
	s := Build(View{Sources: []Source{a, b}}, nil)
	for uri, want := range map[string]string{"ui://a/x": "a", "ui://b/old": "b", "ui://both": "a", "ui://listed": "a"} {
		if r, ok := s.Resource(uri); !ok || r.Server != want || r.Inner != uri {
			t.Errorf("%s: got %+v, %v, want %s", uri, r, ok, want)
		}
	}
	for _, uri := range []string{"file:///etc/passwd", "ui://nobody"} {
		if r, ok := s.Resource(uri); ok {
			t.Errorf("%s is routed to %+v", uri, r)
		}
	}
	faults := fmt.Sprint(s.Faults())
	for _, want := range []string{`its page "ui://both" belongs to a`, `its page "ui://listed" belongs to a`} {
		if !strings.Contains(faults, want) {
			t.Errorf("faults %s, want %s", faults, want)
		}
	}
	if page := onePage(t, s, Tools); !strings.Contains(page, `"csp":{"connectDomains":["https://e.com"]}`) {
		t.Errorf("the page's settings changed: %s", page)
	}
}
