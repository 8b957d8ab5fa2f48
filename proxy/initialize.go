package proxy

import (
	"errors"
	"net/http"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// initialize opens the session of a legacy agent over HTTP, whichever version
// its header names.
func (f *Front) initialize(in *inbound, x *exchange) {
	if id, ok := first(in.r.Header, hSession); ok && f.sessions.find(id, in.caller, in.view) != nil {
		sendError(in.w, http.StatusBadRequest, x.msg.ID, invalid("initialize was already done in this session"))
		return
	}
	version, err := x.askedVersion()
	if err != nil {
		sendError(in.w, http.StatusBadRequest, x.msg.ID, err)
		return
	}
	s, serr := f.sessions.open(in.caller, in.view, version, x.declared(version))
	if errors.Is(serr, errSessions) {
		in.w.Header().Set("Retry-After", "30")
		sendError(in.w, http.StatusServiceUnavailable, x.msg.ID,
			&wire.Error{Code: wire.CodeInternal, Message: "too many sessions, see limits.sessions"})
		return
	}
	f.met(s.view, s.viewer())
	in.w.Header().Set(hSession, s.id)
	a := answer{result: x.handshake(version)}
	st := newStream(in.w, in.rc, in.forms, 0, &f.counts)
	st.finish(a.reply(x.msg.ID))
}

// askedVersion reads the one thing that initialize must say.
func (x *exchange) askedVersion() (string, *wire.Error) {
	if err := x.params.meta.check(); err != nil {
		return "", err
	}
	v, ok := wire.Unquote(x.params.protocol)
	if !ok {
		return "", badParams("initialize lacks protocolVersion")
	}
	return negotiate(v), nil
}

// handshake returns the result of initialize.
func (x *exchange) handshake(version string) []byte {
	snap := x.snapshot()
	out := wire.AppendQuote([]byte(`{"protocolVersion":`), version)
	out = x.appendExtensions(x.appendCapabilities(append(out, ','), snap), snap, version)
	out = append(append(append(out, `,"serverInfo":`...), x.f.serverInfo()...), instructions(snap)...)
	return append(out, '}')
}

// met lets servers know early that an agent has come which can answer.
func (f *Front) met(v *View, who upstream.Viewer) {
	if who.Answers && f.opt.AgentCanAnswer != nil {
		f.opt.AgentCanAnswer(v.Profile, who)
	}
}

// discover returns the result of server/discover.
func (x *exchange) discover() answer {
	x.f.met(x.view, x.viewer())
	snap := x.snapshot()
	out := x.appendCapabilities([]byte(`{"supportedVersions":`+versionsJSON+`,`), snap)
	out = x.appendExtensions(out, snap, versionModern)
	out = append(out, instructions(snap)...)
	return answer{result: append(append(out, x.f.hints()...), '}')}
}

// hints are the last members of a result that may be cached, with their comma.
func (f *Front) hints() []byte {
	out := append([]byte(nil), `,"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":`...)
	return append(append(out, f.serverInfo()...), '}')
}

func (f *Front) serverInfo() []byte {
	out := wire.AppendQuote([]byte(`{"name":"mcp-sidecar","version":`), f.opt.Version)
	return append(out, '}')
}

func instructions(s Snapshot) []byte {
	if s.Instructions() == "" {
		return nil
	}
	return wire.AppendQuote([]byte(`,"instructions":`), s.Instructions())
}

// appendCapabilities appends what the view offers, or may come to offer: the
// agent does not ask again.
func (x *exchange) appendCapabilities(dst []byte, s Snapshot) []byte {
	dst = append(dst, `"capabilities":{`...)
	n := len(dst)
	for _, c := range [...]string{"tools", "prompts", "resources", "completions", "logging"} {
		if !mayOffer(s, c) {
			continue
		}
		if len(dst) > n {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), c...), `":{`...)
		if c != "completions" && c != "logging" {
			dst = append(dst, `"listChanged":true`...)
		}
		if c == "resources" && x.f.opt.Subscriber != nil {
			dst = append(dst, `,"subscribe":true`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// mayOffer reports whether a view offers a capability, or may come to: as long as
// no server has listed, it may be all of them.
func mayOffer(s Snapshot, capability string) bool {
	return capability == "tools" || s == Snapshot(nothing) || s.Has(capability)
}
