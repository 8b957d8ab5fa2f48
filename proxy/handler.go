package proxy

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// An inbound is one HTTP request while it is looked at.
type inbound struct {
	w       http.ResponseWriter
	r       *http.Request
	rc      http.ResponseController
	caller  auth.Caller
	view    *View
	forms   forms
	version string // the MCP-Protocol-Version header
	body    body   // of a POST
}

// ServeHTTP serves the MCP endpoints of all views.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	profile, server, ok := place(r.URL)
	if !ok { // before asking who it is: clients look for other things here too
		w.Header().Set("Connection", "close")
		noEndpoint(w)
		return
	}
	caller, err := f.opt.Callers.Identify(r)
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	view, ok := f.opt.Views.View(profile, server)
	if !ok {
		noEndpoint(w)
		return
	}
	if name := repeated(r.Header); name != "" {
		sendError(w, http.StatusBadRequest, nil, mismatch("more than one "+name+" header"))
		return
	}
	in := &inbound{w: w, r: r, rc: *http.NewResponseController(w), caller: caller, view: view, forms: accepted(r.Header)}
	in.version, _ = first(r.Header, hVersion)
	switch r.Method {
	case http.MethodPost:
		f.post(in)
	case http.MethodGet:
		f.listen(in)
	case http.MethodDelete:
		f.delete(in)
	default:
		notAllowed(w)
	}
}

func noEndpoint(w http.ResponseWriter) {
	http.Error(w, "no MCP endpoint here, use /mcp or /mcp/<server>", http.StatusNotFound)
}

func (f *Front) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f.Refused(r, err.Error())
	if ref := (*auth.Refusal)(nil); errors.As(err, &ref) {
		ref.Write(w)
		return
	}
	w.Header().Set("Connection", "close")
	http.Error(w, "the caller cannot be identified", http.StatusUnauthorized)
}

// Refused logs that a request was turned away, at most once a second.
func (f *Front) Refused(r *http.Request, reason string) {
	now := time.Now().Unix()
	if old := f.refusedAt.Load(); old < now && f.refusedAt.CompareAndSwap(old, now) {
		f.opt.Log.Info("request refused", "err", reason, "from", r.RemoteAddr, "op", r.Method)
	}
}

func notAllowed(w http.ResponseWriter) {
	w.Header().Set("Allow", "POST")
	http.Error(w, "this endpoint takes POST, and GET and DELETE within a session", http.StatusMethodNotAllowed)
}

// place reads an exact path: /mcp, /mcp/<server>, either with a slash at its end,
// and the same behind /p/<profile>. Nothing is cleaned or redirected.
func place(u *url.URL) (profile, server string, ok bool) {
	path := u.Path
	if u.RawPath != "" { // an encoding other than the usual one
		path = u.RawPath
	}
	profile = "default"
	if rest, ok := strings.CutPrefix(path, "/p/"); ok {
		i := strings.IndexByte(rest, '/')
		if i <= 0 {
			return "", "", false
		}
		profile, path = rest[:i], rest[i:]
	}
	server, ok = strings.CutPrefix(path, "/mcp")
	switch {
	case !ok:
		return "", "", false
	case server == "" || server == "/":
		return profile, "", true
	case server[0] != '/':
		return "", "", false
	}
	server = strings.TrimSuffix(server[1:], "/")
	if strings.IndexByte(server, '/') >= 0 {
		return "", "", false
	}
	if u.RawPath != "" {
		server, ok = slashed(server)
	}
	return profile, server, ok && server != ""
}

// slashed reads the segment of a server with a slash in its name, which only an
// unusual encoding of the path can carry. One spelling of it is right.
func slashed(segment string) (name string, ok bool) {
	name, err := url.PathUnescape(segment)
	return name, err == nil && strings.Contains(name, "/") && url.PathEscape(name) == segment
}

// post serves one message, or a batch of them.
func (f *Front) post(in *inbound) {
	if why := wrongContent(in.r.Header); why != "" {
		http.Error(in.w, why, http.StatusUnsupportedMediaType)
		return
	}
	if in.forms == 0 {
		http.Error(in.w, "want Accept: application/json, text/event-stream", http.StatusNotAcceptable)
		return
	}
	var err error
	if in.body, err = f.budget.read(in, f.opt.Limits.request()); err != nil {
		sendUnread(in.w, err)
		return
	}
	defer in.body.free()
	if isArray(in.body.b) {
		f.batch(in, in.body.b)
		return
	}
	m, err := wire.ParseAgent(in.body.b, f.wireLimits())
	if err != nil {
		e := (*wire.Error)(nil)
		errors.As(err, &e)
		if id, ok := first(in.r.Header, hSession); ok {
			f.sessions.find(id, in.caller, in.view).rejectAnswer(&m, e)
		}
		sendError(in.w, http.StatusBadRequest, e.ID, e)
		return
	}
	f.message(in, &m)
}

func isArray(b []byte) bool {
	for _, c := range b {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '['
		}
	}
	return false
}

// sendUnread answers a message that could not be taken in.
func sendUnread(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errTooLong):
		sendError(w, http.StatusRequestEntityTooLarge, nil, invalid(err.Error()))
	case errors.Is(err, errNoRoom):
		w.Header().Set("Retry-After", "1")
		sendError(w, http.StatusServiceUnavailable, nil, &wire.Error{Code: wire.CodeInternal, Message: err.Error()})
	default:
		w.Header().Set("Connection", "close")
		sendError(w, http.StatusBadRequest, nil, &wire.Error{Code: wire.CodeParse, Message: "the body did not arrive"})
	}
}

func sendError(w http.ResponseWriter, status int, id []byte, e *wire.Error) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = jsonType, noStore
	w.WriteHeader(status)
	w.Write(wire.AppendError(nil, id, e.Code, e.Message, e.Data))
}

// message serves one message in the era that it belongs to.
func (f *Front) message(in *inbound, m *wire.Message) {
	p := readParams(m.Params)
	modern := isModern(m, &p, in.version)
	if modern && m.Kind() == wire.Response {
		sendError(in.w, http.StatusBadRequest, nil, invalid("responses cannot be posted in "+versionModern))
		return
	}
	x := &exchange{f: f, view: in.view, caller: in.caller, modern: modern, msg: *m, params: p, header: in.r.Header}
	if modern {
		f.stateless(in, x)
		return
	}
	if m.Method == "initialize" && m.ID != nil {
		f.initialize(in, x)
		return
	}
	if f.legacy(in, x) {
		f.serve(in, x)
	}
}

// stateless serves a message of 2026-07-28. What sessions need is ignored.
func (f *Front) stateless(in *inbound, x *exchange) {
	if x.msg.Kind() == wire.Notification {
		in.w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := checkModern(&x.msg, &x.params, in.r.Header); err != nil {
		sendError(in.w, http.StatusBadRequest, x.msg.ID, err)
		return
	}
	if err := x.params.meta.check(); err != nil {
		sendError(in.w, http.StatusBadRequest, x.msg.ID, err)
		return
	}
	if x.msg.Method == listenMethod {
		f.subscription(in, x)
		return
	}
	x.lane = laneOf(in.r)
	f.serve(in, x)
}

// legacy finds the session of a message of an older version, and answers when
// there is none; false means answered. Messages without a session id are served
// too: there are agents that never open one.
func (f *Front) legacy(in *inbound, x *exchange) bool {
	if in.version != "" && in.version != negotiate(in.version) {
		sendError(in.w, http.StatusBadRequest, x.msg.ID, unsupported(in.version))
		return false
	}
	id, ok := first(in.r.Header, hSession)
	if !ok {
		x.lane = laneOf(in.r)
		return true
	}
	s := f.sessions.find(id, in.caller, in.view)
	if s == nil {
		noSession(in.w, x.msg.ID)
		return false
	}
	x.join(s)
	return true
}

// noSession says it in the words that agents look for to connect anew.
func noSession(w http.ResponseWriter, id []byte) {
	sendError(w, http.StatusNotFound, id, invalid("session not found: it ended, or the sidecar restarted; initialize again"))
}

// serve runs a message and writes its answer. A legacy agent that hangs up does
// not cancel what a server works on; a modern one does.
func (f *Front) serve(in *inbound, x *exchange) {
	if x.msg.Kind() != wire.Request {
		x.accept()
		in.w.WriteHeader(http.StatusAccepted)
		return
	}
	ctx := in.r.Context()
	st := newStream(in.w, in.rc, in.forms, f.opt.Limits.queue(), &f.counts)
	x.out = st
	if !x.modern {
		j := &job{strays: &f.strays, caller: in.caller.ID, out: st}
		ctx = j.begin(ctx)
		defer j.end()
		x.job = j
		f.keep(st, in, x.sess, x.msg.ID)
	}
	r := x.run(ctx)
	gone := ctx.Err() != nil // afterwards it may hang up because it has the answer
	err := f.send(st, in.caller.ID, r)
	if x.waits != nil && (gone || err != nil || st.flush() != nil) {
		f.parking.unheard(*x.waits)
	}
}

// send writes the answer, within what all answers may take that are not read yet.
func (f *Front) send(st *stream, caller string, r reply) error {
	defer f.outbox.enter(caller, r.size(), st.giveUp)()
	err := st.finish(r)
	if st.slow.Load() {
		f.counts.slow.Add(1)
		f.opt.Log.Info("answer given up", "caller", caller, "bytes", r.size(), "err", errSlow)
	}
	return err
}

// batch serves an array of messages, which only sessions of 2025-03-26 may send.
func (f *Front) batch(in *inbound, b []byte) {
	id, _ := first(in.r.Header, hSession)
	s := f.sessions.find(id, in.caller, in.view)
	switch {
	case id != "" && s == nil && in.version != versionModern:
		noSession(in.w, nil)
		return
	case s == nil || s.version != versionBatches:
		sendError(in.w, http.StatusBadRequest, nil, invalid("batches are not served"))
		return
	}
	parts, err := splitBatch(b, f.wireLimits())
	if err != nil {
		sendError(in.w, http.StatusBadRequest, nil, err)
		return
	}
	st := newStream(in.w, in.rc, in.forms, f.opt.Limits.queue(), &f.counts)
	j := &job{strays: &f.strays, caller: in.caller.ID, out: st, batch: true}
	ctx := j.begin(in.r.Context())
	defer j.end()
	x := &exchange{f: f, view: in.view, caller: in.caller, out: st, job: j, header: in.r.Header}
	x.join(s)
	f.keep(st, in, s, nil)
	all := x.each(ctx, parts, f.wireLimits())
	if all != nil {
		f.send(st, in.caller.ID, reply{head: all})
		return
	}
	st.finish(reply{status: http.StatusAccepted})
}
