package upstream

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A hall notes which of some agents hear of each update, as the front does.
type hall struct {
	agents map[string]Target

	mu    sync.Mutex
	heard []string
}

func (h *hall) notify(from Origin, method string, params []byte) {
	if method != updateMethod {
		return
	}
	var who []string
	for name, t := range h.agents {
		theirs := from.Isolation == "" || from.Isolation == t.Session || from.Isolation == t.Caller
		if theirs && (from.Hears == nil || from.Hears(t)) {
			who = append(who, name)
		}
	}
	slices.Sort(who)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, strings.Join(who, " "))
}

// take returns who heard of each update since, in order.
func (h *hall) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.heard
	h.heard = nil
	return out
}

func (h *hall) want(t *testing.T, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, h.take()); diff != "" {
		t.Errorf("%s: who hears (-want +got)\n%s", what, diff)
	}
}

// twoCallers are agents of two callers. Those with an f can fill in forms, those with an
// m are of the newer era and have no session.
func twoCallers() *hall {
	form := policy.AnswerForm
	return &hall{agents: map[string]Target{
		"A": {Session: "a", Caller: "A", Legacy: true}, "Af": {Session: "af", Caller: "A", Legacy: true, Answers: form},
		"Am": {Caller: "A"}, "Amf": {Caller: "A", Answers: form},
		"B": {Session: "b", Caller: "B", Legacy: true}, "Bf": {Session: "bf", Caller: "B", Legacy: true, Answers: form},
	}}
}

const updateOfX = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x"}}`

// update has each of some processes say that x changed.
func (c *cast) update(procs ...int) {
	for _, n := range procs {
		c.all()[n].send([]byte(updateOfX))
		synctest.Wait()
	}
}

// An agent hears of a resource from the process of its calls, once, and from the
// shared one while there is none.
func TestUpdatesOfPool(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{caps: subscribeCaps}
		st := newStage(t, c, nil)
		defer st.stop()
		who := twoCallers()
		st.opt.OnNotify = who.notify
		if err := st.Subscribe(t.Context(), "a", "x"); err != nil {
			t.Fatal(err)
		}
		const all = "A Af Am Amf B Bf"
		c.update(0)
		who.want(t, "one process", all)
		st.beginOf("A", "af", "quick").in(t)
		c.update(0, 1)
		who.want(t, "A has one too", "A Am B Bf", "Af Amf")
		st.beginOf("B", "bf", "quick").in(t)
		c.update(0, 1, 2)
		who.want(t, "so has B", "A Am B", "Af Amf", "Bf")
		c.all()[1].close()
		synctest.Wait()
		c.update(0, 2)
		who.want(t, "A's has ended", "A Af Am Amf B", "Bf")
		st.Unsubscribe("a", "x")
		time.Sleep(time.Second)
		c.update(0, 2)
		who.want(t, "nobody subscribes", all, "")
	})
}

// What one process refuses to tell of, the shared one tells.
func TestUpdatesRefusedApart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{caps: subscribeCaps}
		st := newStage(t, c, nil)
		defer st.stop()
		who := twoCallers()
		st.opt.OnNotify = who.notify
		st.beginOf("A", "af", "quick").in(t)
		refuses := c.all()[1]
		refuses.early = func(m *wire.Message) (string, string) {
			if m.Method == "resources/subscribe" {
				return "", "no"
			}
			return "", ""
		}
		if err := st.Subscribe(t.Context(), "a", "x"); err != nil {
			t.Fatal(err)
		}
		c.update(0, 1)
		who.want(t, "refused", "A Af Am Amf B Bf", "")
	})
}

// A process that is nobody's yet tells nobody.
func TestUpdatesOfNobodysProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		st := newStage(t, &cast{}, nil)
		defer st.stop()
		s := st.byName["a"]
		hears := s.hearers(newOwner(s, askRoute), []byte(`{"uri":"x"}`))
		for name, agent := range twoCallers().agents {
			if hears(agent) {
				t.Errorf("%s hears", name)
			}
		}
	})
}

// With isolation every agent has a process, where its own calls run.
func TestUpdatesOfIsolated(t *testing.T) {
	for mode, want := range map[string][]string{
		"per_session": {"Am Amf B Bf", "A", "Af"},
		"per_caller":  {"B Bf", "A Am", "Af Amf"},
	} {
		inBubble(t, func(t *testing.T) {
			c := &cast{caps: subscribeCaps}
			st := newStage(t, c, func(s *Settings) { s.Isolation = mode })
			defer st.stop()
			who := twoCallers()
			st.opt.OnNotify = who.notify
			if err := st.Subscribe(t.Context(), "a", "x"); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"A", "Af"} {
				st.beginCall(who.agents[name], &Call{Method: "tools/call", Name: "quick"}).in(t)
			}
			c.update(0, 1, 2)
			who.want(t, mode, want...)
			st.EndSession("af")
			time.Sleep(time.Second)
			c.update(0)
			if mode == "per_session" {
				who.want(t, "its session is over", "Af Am Amf B Bf")
			}
		})
	}
}

// home knows where calls run, whatever decides that.
func TestHome(t *testing.T) {
	for _, mode := range []string{"shared", "per_session", "per_caller"} {
		for _, versions := range []string{"", `"2026-07-28"`, `"2026-07-28","2025-11-25"`} {
			inBubble(t, func(t *testing.T) {
				early := func(m *wire.Message) (string, string) {
					if m.Method == "server/discover" && versions != "" {
						return `{"resultType":"complete","supportedVersions":[` + versions + `],"capabilities":{"tools":{}}}`, ""
					}
					return "", ""
				}
				w := newSetWorld(t, map[string]*script{"a": {early: early}}, Options{}, func(_ string, s *Settings) { s.Isolation = mode })
				defer w.stop()
				w.AwaitFirst(t.Context(), time.Minute, "a")
				for name, agent := range twoCallers().agents {
					agent.Server = "a"
					w.wantHome(t, fmt.Sprintf("%s [%s] %s", mode, versions, name), agent)
				}
			})
		}
	}
}

func (w *setWorld) wantHome(t *testing.T, what string, agent Target) {
	t.Helper()
	r, err := w.Do(t.Context(), agent, &Call{Method: "tools/call", Name: "x", Params: []byte(`{"name":"x"}`)})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	s := w.byName["a"]
	ran := s.whose(r.Via)
	got, want := s.home(agent), houseOf(ran.route, agent.Caller)
	if ran != s.plain {
		want, _ = ran.house()
	}
	if got != want {
		t.Errorf("%s: home is %+v, but the call ran in %+v", what, got, want)
	}
}
