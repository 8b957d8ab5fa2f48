package upstream

import (
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// legacyVersions are the revisions with initialize that we can speak, newest first.
var legacyVersions = []string{VersionLegacy, "2025-06-18", "2025-03-26", "2024-11-05"}

// initializeParams asks for the newest legacy version and declares offers; a
// plain connection offers nothing, since nobody stands behind it to answer.
func initializeParams(client, offers []byte) []byte {
	if offers == nil {
		offers = []byte("{}")
	}
	b := append([]byte(nil), `{"protocolVersion":"`+VersionLegacy+`","capabilities":`...)
	b = append(append(b, offers...), `,"clientInfo":`...)
	b = append(b, client...)
	return append(b, '}')
}

// initializeInfo reads an InitializeResult. The version is empty when the
// server chose none that we know.
func initializeInfo(result []byte) Info {
	in := Info{Era: Legacy}
	raw, _ := wire.Get(result, "protocolVersion")
	if v, ok := wire.Unquote(raw); ok && slices.Contains(legacyVersions, v) {
		in.Version = v
	}
	in.describe(result)
	return in
}

// discoverInfo reads a DiscoverResult; ok is false when it is none, or when the
// server supports no modern version of ours.
func discoverInfo(result []byte) (in Info, ok bool) {
	in = Info{Era: Modern, Version: VersionModern}
	versions, listed := wire.Get(result, "supportedVersions")
	if listed && !holds(versions, VersionModern) {
		return in, false
	}
	in.BothEras = slices.ContainsFunc(legacyVersions, func(v string) bool { return holds(versions, v) })
	caps, has := wire.Get(result, "capabilities")
	if !listed && !has || has && wire.Kindof(caps) != '{' {
		return in, false
	}
	in.describe(result)
	return in, true
}

// maxInfo bounds each thing that a handshake makes us remember.
const maxInfo = 256 << 10

// describe copies what both handshakes say in the same members. Results are
// copied, so that Info does not hold on to a whole message.
func (in *Info) describe(result []byte) {
	in.Capabilities = object(result, "capabilities")
	in.ServerInfo = object(result, "serverInfo")
	if in.ServerInfo == nil {
		meta, _ := wire.Get(result, "_meta")
		in.ServerInfo = object(meta, "io.modelcontextprotocol/serverInfo")
	}
	raw, _ := wire.Get(result, "instructions")
	in.Instructions, _ = wire.Unquote(raw)
	if len(in.Instructions) > maxInfo {
		in.Instructions = strings.ToValidUTF8(in.Instructions[:maxInfo], "")
	}
	in.Instructions = strings.Clone(in.Instructions)
}

// object returns a copy of a member that is an object of a sane size, else nil.
func object(obj []byte, name string) []byte {
	v, ok := wire.Get(obj, name)
	if !ok || wire.Kindof(v) != '{' || len(v) > maxInfo {
		return nil
	}
	return slices.Clone(v)
}

// holds reports whether a raw array has a string.
func holds(arr []byte, s string) (found bool) {
	wire.Elements(arr, func(val []byte) bool {
		v, ok := wire.Unquote(val)
		found = ok && v == s
		return !found
	})
	return found
}
