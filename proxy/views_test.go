package proxy

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// viewers are the kinds of agents, by what they see in these tests.
var viewers = map[string]upstream.Viewer{
	"modern": {}, "modern-asked": {Answers: true}, "legacy": {Legacy: true}, "legacy-asked": {Answers: true, Legacy: true},
}

// showEach gives a view another snapshot for each kind of agents, with one tool
// that says whose it is.
func (w *world) showEach(tools map[string]string) {
	snap := func(kind string) Snapshot {
		return aggregate.Build(aggregate.View{Name: "default", OwnNames: true, Sources: []aggregate.Source{{Server: "files", Listing: listing(tools[kind])}}}, nil)
	}
	others := map[upstream.Viewer]Snapshot{}
	for kind, who := range viewers {
		if kind != "modern" {
			others[who] = snap(kind)
		}
	}
	w.keeper.Update("default", "", snap("modern"), others)
}

// What an agent lists depends on its era and on whether it can be asked.
func TestViewOfEachKind(t *testing.T) {
	var met, waited []upstream.Viewer
	w := newWorld(t, func(o *Options) {
		o.AgentCanAnswer = func(_ string, who upstream.Viewer) { met = append(met, who) }
		o.ListWait = func(_ context.Context, _ string, who upstream.Viewer) { waited = append(waited, who) }
	})
	w.showEach(map[string]string{"modern": "modern", "modern-asked": "modern-asked", "legacy": "legacy", "legacy-asked": "legacy-asked"})
	const list, caps = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"elicitation":{}}`
	asked := w.webAgent("2025-11-25", caps)
	modern := modernBody("1", "tools/list", "{}")
	for kind, body := range map[string]httpReply{
		"modern":       w.post(modern, modernHeader("tools/list", "")...),
		"modern-asked": w.post(strings.Replace(modern, `clientCapabilities":{}`, `clientCapabilities":`+caps, 1), modernHeader("tools/list", "")...),
		"legacy":       w.post(list, "Mcp-Session-Id", w.open("2025-11-25")),
		"legacy-asked": w.post(list, "Mcp-Session-Id", asked.session),
	} {
		if got := pageOf(t, body.body).names; !slices.Equal(got, []string{kind}) {
			t.Errorf("%s: it lists %v", kind, got)
		}
		if !slices.Contains(waited, viewers[kind]) {
			t.Errorf("%s: no list waited for what it sees", kind)
		}
	}
	if !slices.Equal(met, []upstream.Viewer{viewers["legacy-asked"]}) {
		t.Errorf("met %+v, want the one whose handshake said that it can answer", met)
	}
}

// Only those are told of a change who see it.
func TestChangeForOneKind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, _ *pipeListener) {
		tools := map[string]string{"modern": "a", "modern-asked": "a", "legacy": "a", "legacy-asked": "a"}
		w.showEach(tools)
		view, _ := w.keeper.View("default", "")
		asks := capabilities{answers: policy.AnswerForm}
		sessions := map[string]*session{
			"legacy":       newSession("x", auth.Caller{}, view, "2025-11-25", capabilities{}),
			"legacy-asked": newSession("y", auth.Caller{}, view, "2025-11-25", asks),
		}
		watchers := map[string]*watcher{"legacy": &sessions["legacy"].watcher, "legacy-asked": &sessions["legacy-asked"].watcher}
		for _, kind := range []string{"modern", "modern-asked"} {
			watchers[kind] = &watcher{view: view, kinds: [3]bool{true, true, true}}
			if kind == "modern-asked" {
				watchers[kind].answers = policy.AnswerForm
			}
			watchers[kind].watch()
		}
		for changed := range viewers {
			tools[changed] = "b"
			w.showEach(tools)
			time.Sleep(time.Second)
			synctest.Wait()
			for kind, k := range watchers {
				var told int
				k.tell(func([]byte) error { told++; return nil })
				if told == 1 != (kind == changed) {
					t.Errorf("%s changed: %s was told %d times", changed, kind, told)
				}
			}
		}
	})
}
