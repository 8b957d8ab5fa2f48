package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// codeURLs is how a server of 2025-11-25 says that a user must visit pages before
// a call can work. The modern era asks instead, and has no such code.
const codeURLs = "-32042"

func wantsURLs(r *upstream.Response) bool {
	return r.Era == upstream.Legacy && isURLError(r.Error)
}

func isURLError(object []byte) bool {
	code, _ := wire.Get(object, "code")
	return string(code) == codeURLs
}

// askURLs asks the agent to have the pages visited that a server's error names.
func (x *exchange) askURLs(ctx context.Context, server string, r *upstream.Response) (outcome, error) {
	data, _ := wire.Get(r.Error, "data")
	list, _ := wire.Get(data, "elicitations")
	var requests []byte
	var err error
	n := 0
	wire.Elements(list, func(e []byte) bool {
		if n++; n > maxInputs {
			err = cannot(server, fmt.Sprintf("more than %d pages to be visited at once", maxInputs))
			return false
		}
		var input []byte
		if input, err = x.urlInput(ctx, server, e, r); err != nil {
			return false
		}
		requests = append(strconv.AppendInt(append(requests, `,"q`...), int64(n), 10), `":`...)
		requests = append(requests, input...)
		return true
	})
	if err != nil {
		return outcome{}, err
	}
	if n == 0 {
		return outcome{}, protocolFault(server, "an error that asks for pages to be visited without saying which")
	}
	requests[0] = '{'
	return x.pauseForURLs(server, append(requests, '}'))
}

// urlInput makes a question of one element of the error's list.
func (x *exchange) urlInput(ctx context.Context, server string, e []byte, r *upstream.Response) ([]byte, error) {
	var s shape
	s.begin(`{`)
	s.member("mode", []byte(`"url"`))
	s.copy(e, "message", "url")
	s.end(`}`)
	in := &inquiry{q: upstream.Question{Server: server, Method: methodElicit, Params: s.out, Flags: r.Flags}}
	if e := x.screen(ctx, in); e != nil {
		return nil, cannot(server, e.Message)
	}
	if in.result != nil {
		return nil, cannot(server, "the page that it wants to be visited is not allowed")
	}
	return appendInput(nil, methodElicit, in.q.Params), nil
}

// pauseForURLs gives the agent the questions and a state that brings them back.
func (x *exchange) pauseForURLs(server string, requests []byte) (outcome, error) {
	if len(requests) > maxStateBody {
		return outcome{}, tooLong(server, fmt.Sprintf("%d bytes of pages to be visited, %d fit", len(requests), maxStateBody))
	}
	return paused(requests, x.f.seal(x.newState(stateURL, server, requests))), nil
}

// resumeURL makes a call again once its pages were visited.
func (x *exchange) resumeURL(ctx context.Context, server string, c *upstream.Call, s *state) (outcome, error) {
	asked := readKeyed(s.body)
	for _, k := range asked {
		if err := x.checkResponse(&k); err != nil {
			return outcome{}, err
		}
	}
	if err := x.spend(s); err != nil {
		return outcome{}, err
	}
	responses, err := x.reviewed(server, asked, x.began(s))
	if err != nil {
		return outcome{}, err
	}
	missing := false
	for _, k := range asked {
		r, ok := wire.Get(responses, k.key)
		missing = missing || !ok
		if action, _ := wire.Get(r, "action"); ok && string(action) != `"accept"` {
			return outcome{}, cannot(server, "the user declined to visit a page")
		}
	}
	if missing {
		return x.pauseForURLs(server, s.body)
	}
	o, err := x.detached(ctx, server, c)
	return x.through(ctx, server, c, o, err)
}

// readKeyed reads inputRequests that we wrote.
func readKeyed(requests []byte) (list []keyed) {
	wire.Each(requests, func(key, val []byte) bool {
		method, _ := wire.Get(val, "method")
		k := keyed{key: string(key)}
		k.method, _ = wire.Unquote(method)
		k.raw, _ = wire.Get(val, "params")
		list = append(list, k)
		return true
	})
	return list
}

// urlsNeeded is the answer to an agent that cannot be asked to visit pages; one
// that says that it can hears that this server may not ask. What the server said
// of the pages stays.
func (x *exchange) urlsNeeded(server string, r *upstream.Response) (answer, error) {
	if x.caps().answers&policy.AnswerURL != 0 {
		return x.trouble(server, unsupportedTrouble, nil)
	}
	message, _ := wire.Get(withMessage(r.Error), "message")
	data, _ := wire.Get(r.Error, "data")
	if wire.Kindof(data) != '{' {
		data = emptyObject
	}
	data = withFront(without(data, "requiredCapabilities"), `"requiredCapabilities":{"elicitation":{"url":{}}},`)
	out := append([]byte(`{"code":-32021,"message":`), message...)
	out = append(append(append(out, `,"data":`...), data...), '}')
	return answer{failure: x.f.clean(out, r.Flags), status: http.StatusBadRequest}, nil
}
