package upstream

import (
	"strconv"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Keys of the modern _meta that every request carries.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
)

// clientInfo is the implementation object that we introduce ourselves with.
func clientInfo(name, version string) []byte {
	b := append([]byte(nil), `{"name":`...)
	b = wire.AppendQuote(b, name)
	b = append(b, `,"version":`...)
	b = wire.AppendQuote(b, version)
	return append(b, '}')
}

// eraMeta is what the _meta of every request of an era holds, as raw members;
// nil for the legacy era. It is built once per connection.
func eraMeta(era Era, version string, client []byte) []byte {
	if era != Modern {
		return nil
	}
	b := append([]byte(nil), `"`+metaVersion+`":`...)
	b = wire.AppendQuote(b, version)
	b = append(b, `,"`+metaClient+`":`...)
	b = append(b, client...)
	return b
}

// noCapabilities is what an agent can do that declared nothing.
var noCapabilities = []byte("{}")

// appendRequest appends c as a JSON-RPC request under our own id. The progress
// token that the server sees is that id, so that it is unique without a table.
// meta is the connection's eraMeta.
func appendRequest(dst []byte, id int64, c *Call, meta []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendInt(dst, id, 10)
	dst = append(dst, `,"method":`...)
	dst = wire.AppendQuote(dst, c.Method)
	dst = append(dst, `,"params":{`...)
	dst = appendMeta(dst, id, c, meta)
	rest := members(c.Params)
	if len(rest) > 0 && dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, rest...)
	return append(dst, '}', '}')
}

// appendMeta appends the _meta member, or nothing when it would be empty.
func appendMeta(dst []byte, id int64, c *Call, meta []byte) []byte {
	const open = `"_meta":{`
	dst = append(dst, open...)
	start := len(dst)
	dst = append(dst, meta...)
	if meta != nil {
		dst = append(dst, `,"`+metaCapabilities+`":`...)
		if c.Capabilities != nil {
			dst = append(dst, c.Capabilities...)
		} else {
			dst = append(dst, noCapabilities...)
		}
	}
	if c.ProgressToken != nil {
		dst = comma(dst, start)
		dst = append(dst, `"progressToken":`...)
		dst = strconv.AppendInt(dst, id, 10)
	}
	if c.LogLevel != "" && meta != nil {
		dst = comma(dst, start)
		dst = append(dst, `"`+metaLogLevel+`":`...)
		dst = wire.AppendQuote(dst, c.LogLevel)
	}
	if len(c.Meta) > 0 {
		dst = comma(dst, start)
		dst = append(dst, c.Meta...)
	}
	if len(dst) == start {
		return dst[:start-len(open)]
	}
	return append(dst, '}')
}

func comma(dst []byte, start int) []byte {
	if len(dst) > start {
		return append(dst, ',')
	}
	return dst
}

// members returns what stands between the braces of an object, without the
// white space around it.
func members(obj []byte) []byte {
	from, to := 0, len(obj)
	for from < to && space(obj[from]) {
		from++
	}
	for from < to && space(obj[to-1]) {
		to--
	}
	if to-from < 2 || obj[from] != '{' || obj[to-1] != '}' {
		return nil
	}
	from, to = from+1, to-1
	for from < to && space(obj[from]) {
		from++
	}
	for from < to && space(obj[to-1]) {
		to--
	}
	return obj[from:to]
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
