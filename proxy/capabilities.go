package proxy

import (
	"bytes"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// capabilities are what an agent declared that it can do.
type capabilities struct {
	raw     []byte // the object; nil when there is none
	answers policy.Answers
}

// readCapabilities reads a raw capabilities object. What its version does not
// have, an agent cannot do.
func readCapabilities(raw []byte, version string) (c capabilities) {
	if wire.Kindof(raw) != '{' {
		return c
	}
	c.raw = raw
	if s, ok := object(raw, "sampling"); ok {
		c.answers |= policy.AnswerSampling
		if _, ok := object(s, "tools"); ok && version >= "2025-11-25" {
			c.answers |= policy.AnswerSamplingTools
		}
	}
	if e, ok := object(raw, "elicitation"); ok && version >= "2025-06-18" {
		c.answers |= elicitationModes(e, version)
	}
	if _, ok := object(raw, "roots"); ok {
		c.answers |= policy.AnswerRoots
	}
	return c
}

// elicitationModes reads the modes; an object without any means forms, as it
// did before there were modes.
func elicitationModes(e []byte, version string) (a policy.Answers) {
	_, form := object(e, "form")
	_, url := object(e, "url")
	url = url && version >= "2025-11-25"
	if form || !url {
		a |= policy.AnswerForm
	}
	if url {
		a |= policy.AnswerURL
	}
	return a
}

func object(obj []byte, name string) ([]byte, bool) {
	v, ok := wire.Get(obj, name)
	return v, ok && wire.Kindof(v) == '{'
}

// caps returns what the agent can do: in its session, or by this request.
func (x *exchange) caps() capabilities {
	switch {
	case x.modern:
		return readCapabilities(x.params.meta.caps, versionModern)
	case x.sess != nil:
		return x.sess.caps
	}
	return capabilities{}
}

// declared are the capabilities in the parameters of initialize.
func (x *exchange) declared(version string) capabilities {
	return readCapabilities(bytes.Clone(x.params.caps), version)
}

// viewer is the kind of agents that the agent of x is of.
func (x *exchange) viewer() upstream.Viewer {
	return upstream.Viewer{Answers: x.caps().answers != 0, Legacy: !x.modern}
}

// snapshot is what the agent of x sees.
func (x *exchange) snapshot() Snapshot { return x.view.of(x.viewer()) }
