package upstream

import "sync/atomic"

// Refusals of questions that reach nobody.
const (
	nothingHere = "this client offers no such method"
	sharedByAll = "nobody is asked outside of a call on a connection that agents share; isolation: per_session helps"
	notInCall   = "nobody is asked outside of a call"
)

// capabilityFor is the client capability that a method needs; empty for unknown ones.
func capabilityFor(method string) string {
	switch method {
	case "sampling/createMessage":
		return "sampling"
	case "elicitation/create":
		return "elicitation"
	case "roots/list":
		return "roots"
	}
	return ""
}

// decline says why a question is asked of nobody. told is set when a person was
// told what would help, which is once per connection.
func (e *env) decline(server string, s *Settings, method string, told *atomic.Bool) string {
	kind := capabilityFor(method)
	apart := s.Isolation != "" && s.Isolation != "shared"
	switch {
	case kind == "":
		return nothingHere
	case !e.declares(kind):
		return "this client did not declare " + kind
	case e.own:
		return notInCall
	}
	if kind == "roots" && !told.Swap(true) {
		text := "the server asks for roots outside of calls; isolation: per_session lets it"
		if apart {
			text = "the server asks for roots where its lists are read, which is for no agent; agents are asked on connections of their own"
		}
		e.logger().Info(text, "server", server, "op", method)
	}
	if apart {
		return notInCall
	}
	return sharedByAll
}
