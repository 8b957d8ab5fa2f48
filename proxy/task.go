package proxy

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/internal/seal"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Tasks come in two kinds that have only their names in common: those of version
// 2025-11-25, which an agent asks for, and the extension of the modern era, in
// which the server decides. Both pass between ends of one era.
//
// The ids that agents see are sealed: they say which server has the task and over
// which connection it was made, so that no table is kept, and they are worth
// nothing to any other caller.

// sealedTask is the kind of sealed value that a task id is.
const sealedTask = 't'

// maxTaskID bounds a server's own id in bytes: sealed, it must fit a header.
const maxTaskID = 4 << 10

const (
	tasksExtension = metaPrefix + "tasks"
	relatedTask    = metaPrefix + "related-task"
	immediate      = metaPrefix + "model-immediate-response"
)

// A task is what a sealed id holds.
type task struct {
	server string
	via    string // the connection on which it was made
	id     string // the server's own
}

// taskBound is what a task id works for: one caller in one view, in one era.
func (x *exchange) taskBound() []byte {
	era := "legacy"
	if x.modern {
		era = "modern"
	}
	return []byte(x.caller.ID + "\x00" + x.view.Key + "\x00" + era)
}

func (x *exchange) sealTask(t task) string {
	b := binary.AppendUvarint(nil, uint64(len(t.server)))
	b = binary.AppendUvarint(append(b, t.server...), uint64(len(t.via)))
	b = append(append(b, t.via...), t.id...)
	return x.f.opt.Sealer.Seal(sealedTask, x.taskBound(), b)
}

// openTask reads an id. One of another caller or view looks like an unknown one,
// and so does one of a server that the view no longer shows.
func (x *exchange) openTask(token string) (t task, werr *wire.Error) {
	b, err := x.f.opt.Sealer.Open(sealedTask, x.taskBound(), token)
	if errors.Is(err, seal.ErrOtherInstance) {
		return t, badParams("the task is of another instance of mcp-sidecar")
	}
	if err != nil {
		return t, unknown("task", token)
	}
	var ok1, ok2 bool
	t.server, b, ok1 = cutText(b)
	t.via, b, ok2 = cutText(b)
	t.id = string(b)
	info := x.snapshot().Info(t.server)
	if !ok1 || !ok2 || info == nil || (info.Era == upstream.Modern) != x.modern {
		return task{}, unknown("task", token)
	}
	return t, nil
}

// cutText reads a text with its length before it.
func cutText(b []byte) (text string, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, false
	}
	end := size + int(n)
	return string(b[size:end]), b[end:], true
}

// taskMethod serves tasks/<verb>. There is no tasks/list: a server's list would
// show what other callers run.
func (x *exchange) taskMethod(ctx context.Context, verb string) (answer, error) {
	verbs := []string{"get", "result", "cancel"}
	if x.modern {
		verbs = []string{"get", "update", "cancel"}
	}
	if !slices.Contains(verbs, verb) || !x.hasTasks() {
		return answer{}, noMethod(x.msg.Method)
	}
	if x.modern && !hasExtension(x.params.meta.caps, tasksExtension) {
		return answer{}, needsTasks()
	}
	token, ok := wire.Unquote(x.params.taskID)
	if !ok {
		return answer{}, badParams(x.msg.Method + " lacks taskId")
	}
	t, err := x.openTask(token)
	if err != nil {
		return answer{}, err
	}
	return x.askTask(ctx, t, token, verb)
}

// askTask carries a request about a task to where the task is. tasks/result may
// take as long as a tool call.
func (x *exchange) askTask(ctx context.Context, t task, token, verb string) (answer, error) {
	if verb == "update" {
		if err := x.reviewInputs(t); err != nil {
			return answer{}, err
		}
	}
	c := &upstream.Call{
		Method: x.msg.Method, Name: t.id, Params: x.params.forTask(t.id),
		Via: t.via, Safe: verb == "get",
	}
	resp, err := x.do(ctx, t.server, c)
	if err == nil && x.modern && verb == "get" {
		err = x.taskInputs(ctx, t, &resp)
	}
	switch {
	case upstream.KindOf(err) == upstream.Gone:
		return answer{}, badParams(x.cleanText(fmt.Sprintf("the task is lost: server %q ended the connection that ran it", t.server)))
	case err != nil:
		return x.troubled(ctx, t.server, err)
	}
	if resp.Result != nil {
		resp.Result = x.withToken(resp.Result, t, token, "")
		inner, _ := wire.Get(resp.Result, "result")
		content, _ := wire.Get(inner, "content")
		x.remember(t.server, content)
	}
	return x.deliver(t.server, resp)
}

// forTask returns the parameters as the task's server gets them. What a request
// about a task answers is for the server, not for us.
func (p *params) forTask(id string) []byte {
	from, to, _ := wire.Find(p.raw, "taskId")
	return p.withoutMeta(nil, []wire.Edit{{From: from, To: to, With: wire.AppendQuote(nil, id)}})
}

// hasTasks reports whether some server of the view has tasks of x's kind, or may
// turn out to.
func (x *exchange) hasTasks() bool {
	for _, info := range x.snapshot().Servers() {
		if info == nil || offersTasks(info) && (info.Era == upstream.Modern) == x.modern {
			return true
		}
	}
	return false
}

// offersTasks reports whether tool calls of a server can become tasks.
func offersTasks(info *upstream.Info) bool {
	if info == nil {
		return false
	}
	if info.Era == upstream.Modern {
		return hasExtension(info.Capabilities, tasksExtension)
	}
	tasks, _ := wire.Get(info.Capabilities, "tasks")
	requests, _ := wire.Get(tasks, "requests")
	tools, _ := wire.Get(requests, "tools")
	call, ok := wire.Get(tools, "call")
	return ok && string(call) != "null"
}

func needsTasks() *wire.Error {
	return &wire.Error{
		Code:    wire.CodeMissingCapability,
		Message: "Missing required client capability",
		Data:    []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
	}
}

// dropTask takes the wish for a task out of a tool call to a server that knows
// none, or another kind of them: the call then runs at once.
func (x *exchange) dropTask(server string) {
	info := x.snapshot().Info(server)
	switch {
	case info == nil:
	case x.modern && (info.Era == upstream.Modern || !offersTasks(info)):
		return // it knows no such parameter
	case !x.modern && info.Era == upstream.Legacy && offersTasks(info) && x.atLeast("2025-11-25"):
		return
	}
	from, to, _ := wire.FindMember(x.params.raw, "task")
	x.params = readParams(wire.Splice(nil, x.params.raw, wire.Edit{From: from, To: to}))
}

// atLeast reports whether a legacy agent speaks a version or a later one; one
// without a session is believed to.
func (x *exchange) atLeast(version string) bool { return x.sess == nil || x.sess.version >= version }

// startsTask reports whether the answer to a tool call is a task, of the kind
// that the agent of x asked for.
func (x *exchange) startsTask(kind []byte, r *upstream.Response) bool {
	if x.msg.Method != "tools/call" || (r.Era == upstream.Modern) != x.modern {
		return false
	}
	if x.modern {
		return string(kind) == `"task"` && hasExtension(x.params.meta.caps, tasksExtension)
	}
	if x.params.task == nil {
		return false
	}
	_, ok := object(r.Result, "task")
	return ok
}

var errTaskID = fmt.Errorf("a task without an id of 1 to %d bytes", maxTaskID)

// newTask answers with a task that a server made, under an id of ours.
func (x *exchange) newTask(server string, r upstream.Response) (answer, error) {
	holder, member := r.Result, ""
	if !x.modern {
		holder, _ = wire.Get(r.Result, "task")
		member = "task"
	}
	raw, _ := wire.Get(holder, "taskId")
	id, ok := wire.Unquote(raw)
	if !ok || id == "" || len(id) > maxTaskID {
		return x.trouble(server, troubles[upstream.Protocol], errTaskID)
	}
	t := task{server: server, via: r.Via, id: id}
	out := x.withToken(r.Result, t, x.sealTask(t), member)
	if x.modern {
		out = without(out, "inputRequests") // they come, screened, when the agent asks for the state
	}
	return answer{result: x.f.cleanKeeping(out, r.Flags, x.keptMeta())}, nil
}

// withToken puts the agent's id for a task in place of the server's wherever a
// result names it: on top or in the object called member, and in _meta.
func (x *exchange) withToken(result []byte, t task, token, member string) []byte {
	var edits []wire.Edit
	spot := func(path ...string) {
		from, to := 0, len(result)
		for _, name := range path {
			a, b, ok := wire.Find(result[from:to], name)
			if !ok {
				return
			}
			from, to = from+a, from+b
		}
		id, ok := wire.Unquote(result[from:to])
		if !ok {
			return
		}
		with := token
		if id != t.id {
			with = x.sealTask(task{server: t.server, via: t.via, id: clip(id, maxTaskID)})
		}
		edits = append(edits, wire.Edit{From: from, To: to, With: wire.AppendQuote(nil, with)})
	}
	if member == "" {
		spot("taskId")
	} else {
		spot(member, "taskId")
	}
	spot("_meta", relatedTask, "taskId")
	slices.SortFunc(edits, func(a, b wire.Edit) int { return cmp.Compare(a.From, b.From) })
	return wire.Splice(nil, result, edits...)
}

// keptMeta says which reserved keys of _meta are kept in what x is answered; nil
// when none are.
func (x *exchange) keptMeta() func(key string) bool {
	if !x.modern && (x.params.task != nil || x.msg.Method == "tasks/result") {
		return isTaskMeta
	}
	return nil
}

func isTaskMeta(key string) bool { return key == relatedTask || key == immediate }

// isTask reports whether a method is about tasks, and which.
func isTask(method string) (verb string, ok bool) { return strings.CutPrefix(method, "tasks/") }
