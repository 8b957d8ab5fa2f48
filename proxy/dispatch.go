package proxy

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// An exchange is one message of an agent and what it takes to answer it.
type exchange struct {
	f      *Front
	view   *View
	caller auth.Caller
	modern bool
	msg    wire.Message
	params params
	header http.Header // of the HTTP request; nil on other transports

	scope *scope   // where the id is unique; nil when nowhere
	sess  *session // nil when there is none
	lane  any      // what serial servers tell agents apart by
	out   listener // who hears notifications; nil when nobody does
	job   *job     // of a legacy agent that may hang up; nil otherwise
	tool  string   // that the call is of, where the params are not kept
	safe  bool     // the call does no harm when it is repeated
	waits *nonce   // of the call that waits for the next request; nil when none does
}

// A listener takes what servers say about a request while it runs. Neither
// method blocks or keeps what it is given.
type listener interface {
	// notify hands on a notification, which may be lost if the reader is slow.
	notify(method string, params []byte)
	// deliver hands on a whole message. False means that it will not arrive.
	deliver(msg []byte) bool
}

// join makes x a part of session s.
func (x *exchange) join(s *session) {
	x.sess, x.scope, x.lane = s, &s.scope, s
}

// run answers a request. The reply is silent when the agent cancelled it.
func (x *exchange) run(ctx context.Context) reply {
	if err := x.params.meta.check(); err != nil {
		return failed(x.msg.ID, err, x.modern)
	}
	if x.scope == nil {
		return x.answer(ctx)
	}
	ctx, cancel := x.cancellable(ctx)
	defer cancel()
	key := idKey(x.msg.ID)
	if !x.scope.begin(key, cancel) {
		return failed(x.msg.ID, invalid("a request with this id is in flight"), x.modern)
	}
	r := x.answer(ctx)
	if x.sess != nil {
		x.sess.touch()
	}
	if x.scope.end(key) {
		return reply{}
	}
	return r
}

// cancellable returns a context that the agent can cancel: the job's, when the
// message is all of it.
func (x *exchange) cancellable(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.job != nil && !x.job.batch {
		return ctx, x.job.cancel
	}
	return context.WithCancel(ctx)
}

// answer runs the method, and survives its panic.
func (x *exchange) answer(ctx context.Context) (r reply) {
	defer func() {
		if p := recover(); p != nil {
			r = x.panicked(p)
		}
	}()
	a, err := x.dispatch(ctx)
	if err != nil {
		return failed(x.msg.ID, err, x.modern)
	}
	return a.reply(x.msg.ID)
}

// panicked fails the one request that a fault of ours hit.
func (x *exchange) panicked(p any) reply {
	x.f.counts.panics.Add(1)
	x.f.opt.Log.Error("panic while serving a request", "op", x.word(x.msg.Method),
		"caller", x.caller.ID, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
	return failed(x.msg.ID, &wire.Error{Code: wire.CodeInternal, Message: "internal error"}, x.modern)
}

// dispatch runs the method of a request.
func (x *exchange) dispatch(ctx context.Context) (answer, error) {
	switch x.msg.Method {
	case "tools/call":
		return x.callTool(ctx)
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return x.list(ctx)
	case "prompts/get":
		return x.getPrompt(ctx)
	case "resources/read":
		return x.readResource(ctx)
	case "completion/complete":
		return x.complete(ctx)
	}
	if x.modern {
		if x.msg.Method == "server/discover" {
			return x.discover(), nil
		}
		return x.extension(ctx)
	}
	switch x.msg.Method {
	case "ping":
		return answer{result: emptyObject}, nil
	case "logging/setLevel":
		return x.setLevel()
	case "resources/subscribe":
		return x.subscribe(ctx)
	case "resources/unsubscribe":
		return x.unsubscribe()
	case "initialize":
		return answer{}, invalid("initialize was already done")
	}
	return x.extension(ctx)
}

var emptyObject = []byte("{}")

// accept takes a notification or a response. Whatever it does not know, or
// nobody waits for, it ignores.
func (x *exchange) accept() {
	if x.msg.Kind() == wire.Response && x.sess != nil {
		x.sess.asked.answer(&x.msg)
		return
	}
	if x.msg.Method == "notifications/cancelled" && x.scope != nil && x.params.request != nil {
		x.scope.cancel(idKey(x.params.request))
	}
}

// do carries a call to a server, in turn where the server demands it.
func (x *exchange) do(ctx context.Context, server string, c *upstream.Call) (upstream.Response, error) {
	own, err := x.turn(ctx, server, c)
	if err != nil {
		return upstream.Response{}, err
	}
	defer own.end()
	if x.job != nil {
		if !x.job.send() {
			return upstream.Response{}, context.Canceled
		}
		defer x.job.answered()
	}
	t := upstream.Target{Server: server, Profile: x.view.Profile, Caller: x.caller.ID}
	if x.sess != nil {
		t.Session = x.sess.id
	}
	c.ProgressToken, c.LogLevel = x.params.meta.token, x.logLevel()
	x.trace(c)
	if x.out != nil {
		c.Notify = x.relay
	}
	t.Answers, t.Legacy = x.answers(server), !x.modern
	if c.Capabilities = nil; t.Answers != 0 || x.modern {
		c.Capabilities = x.offered(server)
	}
	c.Capabilities = x.withExtensions(server, c.Capabilities)
	var resp upstream.Response
	if t.Answers != 0 {
		resp, err = x.doAsking(ctx, t, c, own)
	} else {
		resp, err = x.f.opt.Upstreams.Do(ctx, t, c)
	}
	x.expectVisits(server, &resp)
	return resp, err
}

// turn waits until x may call a tool of a server that takes one call at a time
// from one agent; nil is for all others.
func (x *exchange) turn(ctx context.Context, server string, c *upstream.Call) (*turn, error) {
	if c.Method != "tools/call" || x.f.opt.Serial == nil || !x.f.opt.Serial(server) || x.lane == nil {
		return nil, nil
	}
	return x.f.lanes.take(ctx, laneKey{server, x.lane})
}

// logLevel is the level that the server is asked for; empty when the agent
// never said one.
func (x *exchange) logLevel() string {
	if x.modern {
		if l := levelOf(x.params.meta.level); l >= 0 {
			x.f.wish(l)
			return levels[l]
		}
		return ""
	}
	if x.sess != nil {
		if l := x.sess.level.Load(); l >= 0 {
			return levels[l]
		}
	}
	return ""
}

// relay hands on what a server says about a running call.
func (x *exchange) relay(method string, params []byte) {
	switch method {
	case "notifications/progress":
		if x.params.meta.token == nil {
			return
		}
	case "notifications/message":
		if !x.wantsLog(params) {
			return
		}
	default:
		return
	}
	flags, err := wire.Valid(params, x.f.wireLimits())
	if err != nil || wire.Kindof(params) != '{' {
		return
	}
	x.out.notify(method, x.f.clean(params, flags))
}

// wantsLog filters by the level of the request, or of the session.
func (x *exchange) wantsLog(params []byte) bool {
	raw, _ := wire.Get(params, "level")
	l := levelOf(raw)
	if x.modern {
		want := levelOf(x.params.meta.level)
		return want >= 0 && l >= want
	}
	if x.sess != nil {
		return x.sess.wants(l)
	}
	return l >= defaultLevel
}
