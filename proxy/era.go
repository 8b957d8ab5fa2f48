package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// legacyVersions are the versions with a handshake that the front speaks, the
// newest first.
var legacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

const (
	versionModern  = upstream.VersionModern
	versionBatches = "2025-03-26" // the only one with batches
	versionsJSON   = `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`
)

// Keys of _meta that the protocol keeps for itself.
const (
	metaPrefix   = "io.modelcontextprotocol/"
	metaVersion  = metaPrefix + "protocolVersion"
	metaCaps     = metaPrefix + "clientCapabilities"
	metaLogLevel = metaPrefix + "logLevel"
)

// negotiate answers the version that a legacy agent asked for.
func negotiate(asked string) string {
	if slices.Contains(legacyVersions, asked) {
		return asked
	}
	return legacyVersions[0]
}

// isModern reports whether a message belongs to the stateless era: its body
// says so, or its header does and it does not open a session.
func isModern(m *wire.Message, p *params, headerVersion string) bool {
	if p.meta.version != nil {
		return true
	}
	return headerVersion == versionModern && m.Method != "initialize"
}

func unsupported(version string) *wire.Error {
	data := wire.AppendQuote([]byte(`{"supported":`+versionsJSON+`,"requested":`), clip(version, 64))
	return &wire.Error{
		Code:    wire.CodeUnsupportedVersion,
		Message: "Unsupported protocol version",
		Data:    append(data, '}'),
	}
}

func mismatch(text string) *wire.Error {
	return &wire.Error{Code: wire.CodeHeaderMismatch, Message: text}
}

// checkModern holds a stateless message against its headers. h is nil on
// transports that have none.
func checkModern(m *wire.Message, p *params, h http.Header) *wire.Error {
	if h != nil {
		if err := checkVersionHeader(p, h); err != nil {
			return err
		}
	}
	if p.meta.version == nil {
		return badParams("_meta lacks " + metaVersion)
	}
	v, ok := wire.Unquote(p.meta.version)
	if !ok {
		return badParams(metaVersion + " is not a string")
	}
	if v != versionModern {
		return unsupported(v)
	}
	if wire.Kindof(p.meta.caps) != '{' {
		return badParams("_meta lacks the object " + metaCaps)
	}
	if h == nil || m.Kind() != wire.Request {
		return nil
	}
	return checkNameHeaders(m, p, h)
}

func checkVersionHeader(p *params, h http.Header) *wire.Error {
	v, ok := first(h, hVersion)
	if !ok {
		return mismatch("the MCP-Protocol-Version header is missing")
	}
	if p.meta.version == nil {
		return nil
	}
	if body, _ := wire.Unquote(p.meta.version); body != v {
		return mismatch("the MCP-Protocol-Version header differs from the body")
	}
	return nil
}

func checkNameHeaders(m *wire.Message, p *params, h http.Header) *wire.Error {
	v, ok := first(h, hMethod)
	if !ok {
		return mismatch("the Mcp-Method header is missing")
	}
	if v != m.Method {
		return mismatch("the Mcp-Method header differs from the body")
	}
	raw := namedBy(m.Method, p)
	if raw == nil {
		return nil
	}
	v, ok = first(h, hName)
	if !ok {
		return mismatch("the Mcp-Name header is missing")
	}
	name, ok := decodeName(v)
	if !ok {
		return mismatch("the Mcp-Name header cannot be decoded")
	}
	if body, _ := wire.Unquote(raw); body != name {
		return mismatch("the Mcp-Name header differs from the body")
	}
	return nil
}

// namedBy returns the part of the body that Mcp-Name repeats; nil when the
// method has none, or the body lacks it, which is found out later.
func namedBy(method string, p *params) []byte {
	switch {
	case method == "tools/call" || method == "prompts/get":
		return p.name
	case method == "resources/read":
		return p.uri
	case strings.HasPrefix(method, "tasks/"):
		return p.taskID
	}
	return nil
}
