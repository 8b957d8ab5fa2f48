package mcptest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The tools of a lab, whose effects outlast a call:
//
//	wait       waits for n milliseconds and notes when that is cancelled
//	cancelled  tells how often that was so
//	grow       adds a tool, of a name that no other process adds, and tells that the list changed
//	touch      tells that the lab's document changed
//	job        runs as a task where the client wants that
const (
	labTools = `{"name":"wait","inputSchema":{"type":"object"}},{"name":"cancelled","inputSchema":{"type":"object"}},` +
		`{"name":"grow","inputSchema":{"type":"object"}},{"name":"touch","inputSchema":{"type":"object"}},` +
		`{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`

	listsChanged    = "notifications/tools/list_changed"
	resourceUpdated = "notifications/resources/updated"
	tasksExtension  = "io.modelcontextprotocol/tasks"
	relatedTask     = "io.modelcontextprotocol/related-task"
)

// A lab is the state behind those tools.
type lab struct {
	mu        sync.Mutex
	cancelled int
	grown     int
	jobs      int
	running   map[string]chan struct{} // by raw request id; closed by a cancellation
	listens   map[*listen]bool
	watched   map[string]bool // by resources/subscribe
	line      func(msg string)
}

// A listen is one subscriptions/listen of the modern era.
type listen struct {
	id   string
	want []byte // the notifications member
	send func(msg string)
}

func (l *lab) begin(id string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		l.running = map[string]chan struct{}{}
	}
	c := make(chan struct{})
	l.running[id] = c
	return c
}

func (l *lab) end(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, id)
}

// cancel takes notifications/cancelled: of a call, or of a listen over stdio.
func (l *lab) cancel(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.running[id]; c != nil {
		close(c)
		delete(l.running, id)
	}
	for s := range l.listens {
		if s.id == id {
			delete(l.listens, s)
		}
	}
}

// labTool answers a call of one of the lab's tools. gone is closed when the
// client hung up.
func (u *Upstream) labTool(m *Message, modern bool, gone <-chan struct{}) (member string, ok bool) {
	if !u.Lab || m.Method != "tools/call" {
		return "", false
	}
	switch nameOf(m.Params) {
	case "wait":
		return u.labWait(m, modern, gone), true
	case "cancelled":
		u.lab.mu.Lock()
		defer u.lab.mu.Unlock()
		return told(modern, []string{strconv.Itoa(u.lab.cancelled)}), true
	case "grow":
		u.lab.mu.Lock()
		u.lab.grown++
		u.lab.mu.Unlock()
		u.announce(listsChanged, "{}", "toolsListChanged", "")
		return told(modern, []string{"grown"}), true
	case "touch":
		u.announce(resourceUpdated, `{"uri":`+quote(u.doc())+`}`, "", u.doc())
		return told(modern, []string{"touched"}), true
	case "job":
		return u.labJob(m, modern), true
	}
	return "", false
}

// doc is the URI of the lab's only resource.
func (u *Upstream) doc() string {
	if u.Doc == "" {
		return "lab://doc"
	}
	return u.Doc
}

func (u *Upstream) labWait(m *Message, modern bool, gone <-chan struct{}) string {
	n, _ := strconv.Atoi(string(Member(Member(m.Params, "arguments"), "n")))
	stop := u.lab.begin(string(m.ID))
	defer u.lab.end(string(m.ID))
	select {
	case <-time.After(time.Duration(n) * time.Millisecond):
		return told(modern, []string{"waited"})
	case <-stop:
	case <-gone:
	}
	u.lab.mu.Lock()
	defer u.lab.mu.Unlock()
	u.lab.cancelled++
	return failure(-32603, "cancelled")
}

// labList are the tools of the lab.
func (u *Upstream) labList() []string {
	u.lab.mu.Lock()
	defer u.lab.mu.Unlock()
	out := []string{labTools}
	for i := range u.lab.grown {
		out = append(out, fmt.Sprintf(`{"name":"grown-%d-%d","inputSchema":{"type":"object"}}`, os.Getpid(), i+1))
	}
	return out
}

// announce tells what happened outside of any call, in the way of each era.
func (u *Upstream) announce(method, params, flag, uri string) {
	msg := `{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`
	u.lab.mu.Lock()
	line, watched := u.lab.line, uri == "" || u.lab.watched[uri]
	var modern []*listen
	for s := range u.lab.listens {
		if s.wants(flag, uri) {
			modern = append(modern, s)
		}
	}
	u.lab.mu.Unlock()
	for _, s := range modern {
		s.send(tagged(method, params, s.id))
	}
	if watched && line != nil {
		line(msg)
	}
	if watched {
		u.Push(msg)
	}
}

func (s *listen) wants(flag, uri string) bool {
	if uri == "" {
		return string(Member(s.want, flag)) == "true"
	}
	return strings.Contains(string(Member(s.want, "resourceSubscriptions")), quote(uri))
}

func tagged(method, params, id string) string {
	meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}`
	if params != "{}" {
		meta += ","
	}
	return `{"jsonrpc":"2.0","method":"` + method + `","params":{` + meta + params[1:] + `}`
}

// listen begins a subscriptions/listen and returns what ends it.
func (u *Upstream) listen(m *Message, send func(string)) (end func()) {
	s := &listen{id: string(m.ID), want: Member(m.Params, "notifications"), send: send}
	send(tagged("notifications/subscriptions/acknowledged", `{"notifications":`+string(s.want)+`}`, s.id))
	u.lab.mu.Lock()
	defer u.lab.mu.Unlock()
	if u.lab.listens == nil {
		u.lab.listens = map[*listen]bool{}
	}
	u.lab.listens[s] = true
	return func() {
		u.lab.mu.Lock()
		defer u.lab.mu.Unlock()
		delete(u.lab.listens, s)
	}
}

func (u *Upstream) listenHTTP(w http.ResponseWriter, r *http.Request, m *Message) {
	w.Header().Set("Content-Type", "text/event-stream")
	var mu sync.Mutex
	end := u.listen(m, func(msg string) {
		mu.Lock()
		defer mu.Unlock()
		io.WriteString(w, Event(msg))
		http.NewResponseController(w).Flush()
	})
	defer end()
	<-r.Context().Done()
	end()
	mu.Lock() // nobody writes any more once we return
	defer mu.Unlock()
}

// watch takes resources/subscribe and unsubscribe.
func (u *Upstream) watch(m *Message) {
	u.lab.mu.Lock()
	defer u.lab.mu.Unlock()
	if u.lab.watched == nil {
		u.lab.watched = map[string]bool{}
	}
	u.lab.watched[Text(m.Params, "uri")] = m.Method == "resources/subscribe"
}

// labJob is a call that becomes a task if the client can follow one.
func (u *Upstream) labJob(m *Message, modern bool) string {
	caps := Member(Member(m.Params, "_meta"), "io.modelcontextprotocol/clientCapabilities")
	u.lab.mu.Lock()
	u.lab.jobs++
	id := fmt.Sprintf("job-%d", u.lab.jobs)
	u.lab.mu.Unlock()
	task := `"taskId":"` + id + `","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z",`
	switch {
	case modern && Member(Member(caps, "extensions"), tasksExtension) != nil:
		return `"result":{"resultType":"task",` + task + `"ttlMs":60000,"pollIntervalMs":10}`
	case !modern && Member(m.Params, "task") != nil:
		return `"result":{"task":{` + task + `"ttl":60000,"pollInterval":10}}`
	}
	return told(modern, []string{"job done"})
}

// task answers the methods about tasks.
func (u *Upstream) task(m *Message, modern bool) string {
	id := Text(m.Params, "taskId")
	if !strings.HasPrefix(id, "job-") {
		return failure(-32602, "no such task: "+id)
	}
	state := `"taskId":` + quote(id) + `,"status":"completed","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:01Z"`
	done := `"content":[{"type":"text","text":"job done"}]`
	switch {
	case modern && m.Method == "tasks/get":
		return result(true, state+`,"ttlMs":60000,"result":{`+done+`}`)
	case modern:
		return result(true, "")
	case m.Method == "tasks/result":
		return result(false, done+`,"_meta":{"`+relatedTask+`":{"taskId":`+quote(id)+`}}`)
	}
	return result(false, state+`,"ttl":60000`)
}
