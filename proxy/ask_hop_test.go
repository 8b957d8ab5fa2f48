package proxy

import "testing"

// What the protocol keeps for one hop does not go from an agent to a server; what
// a user filled in is no _meta.
func TestWithoutHop(t *testing.T) {
	const kept, gone = `"com.example/a":1`, `"io.modelcontextprotocol/x":1,"progressToken":2,"mcp.dev/y":3`
	for _, tt := range []struct{ name, method, in, want string }{
		{"nothing", methodRoots, `{"roots":[ {"uri":"file:///w"} ]}`, `{"roots":[ {"uri":"file:///w"} ]}`},
		{"on top", methodElicit, `{"action":"accept","_meta":{` + gone + `,` + kept + `}}`, `{"action":"accept","_meta":{` + kept + `}}`},
		{"all of it", methodElicit, `{"_meta":{` + gone + `},"action":"accept"}`, `{"action":"accept"}`},
		{"no object", methodElicit, `{"action":"accept","_meta":5}`, `{"action":"accept"}`},
		{"escaped", methodElicit, `{"action":"accept","\u005fmeta":{"progress\u0054oken":1,` + kept + `}}`, `{"action":"accept","\u005fmeta":{` + kept + `}}`},
		{"a field of the form", methodElicit, `{"action":"accept","content":{"_meta":"io","x":{"_meta":{"progressToken":1}}}}`, `{"action":"accept","content":{"_meta":"io","x":{"_meta":{"progressToken":1}}}}`},
		{"a block", methodSampling, `{"content":{"type":"text","_meta":{` + gone + `}},"model":"m"}`, `{"content":{"type":"text"},"model":"m"}`},
		{"blocks", methodSampling, `{"content":[{"a":1.0},{"type":"text","_meta":{` + gone + `}}]}`, `{"content":[{"a":1.0},{"type":"text"}]}`},
		{"roots", methodRoots, `{"roots":[{"uri":"u","_meta":{` + gone + `,` + kept + `}}]}`, `{"roots":[{"uri":"u","_meta":{` + kept + `}}]}`},
	} {
		if got := string(withoutHop(tt.method, []byte(tt.in))); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}
