package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// saidAfter is what a record holds behind event n.
func saidAfter(r *record, n uint64) (all []string) {
	next, _, _ := r.after(n)
	for _, e := range next {
		all = append(all, string(e.msg))
	}
	return all
}

func chatter(n int) []byte {
	return wire.AppendNotification(nil, "notifications/progress", json.RawMessage(`{"x":"`+strings.Repeat("x", n)+`"}`))
}

func questionOf(id string) []byte {
	return wire.AppendRequest(nil, []byte(id), "roots/list", []byte("{}"))
}

// What one caller's streams say costs no other caller anything: who has most makes
// room.
func TestReplayRoomIsShared(t *testing.T) {
	p := &replays{each: 1 << 30, total: 100 << 10}
	one, two := &recorded{caller: "a"}, &recorded{caller: "b"}
	b := p.open(two, []byte("1"), false, nil)
	b.add(chatter(10))
	b.add(questionOf(`"q1"`))
	for i := range 20 {
		r := p.open(one, []byte("1"), false, nil)
		for range 20 {
			r.add(chatter(1 << 10))
		}
		if i%2 == 0 {
			r.finish(&reply{head: chatter(1 << 10)})
		}
	}
	if got := saidAfter(b, 0); len(got) != 2 {
		t.Errorf("b's stream has left %q", got)
	}
	if p.bytes > p.total || p.bytes < p.total*9/10 {
		t.Errorf("%d bytes are kept", p.bytes)
	}
	sum := 0
	for _, s := range p.of {
		sum += s.bytes
	}
	if sum != p.bytes || p.of["a"].bytes != one.bytes || p.of["b"].bytes != two.bytes {
		t.Errorf("%d bytes in all, %d of the callers", p.bytes, sum)
	}
	for _, of := range []*recorded{one, two} {
		p.drop(of)
	}
	if p.bytes != 0 || len(p.of) != 0 {
		t.Errorf("%d bytes of %d callers are left", p.bytes, len(p.of))
	}
	if p.timer != nil {
		p.timer.Stop()
	}
}

// A question that waits is the last that a stream loses, and is not lost in
// silence. When it is answered, it is like all else.
func TestReplayKeepsQuestions(t *testing.T) {
	open := func(each int) (*replays, *recorded, *record) {
		p, of := &replays{each: each, total: 1 << 30}, &recorded{caller: "a"}
		r := p.open(of, []byte("1"), false, nil)
		r.add(questionOf(`"q1"`))
		return p, of, r
	}
	t.Run("notifications go first", func(t *testing.T) {
		p, of, r := open(4 << 10)
		r.add(questionOf(`"q2"`))
		r.settle([]byte(`"q2"`))
		for range 20 {
			r.add(chatter(1 << 10))
		}
		got := saidAfter(r, 0)
		if len(got) < 3 || got[0] != string(questionOf(`"q1"`)) || got[1] != string(chatter(1<<10)) {
			t.Errorf("left are %d: %.80q", len(got), got)
		}
		if _, _, ok := p.find(of, string(r.id(0))); !ok {
			t.Error("what is left cannot be fetched")
		}
		for i := 1; i < len(r.events); i++ {
			if r.events[i].n <= r.events[i-1].n {
				t.Errorf("event %d comes behind %d", r.events[i].n, r.events[i-1].n)
			}
		}
	})
	t.Run("a lost one is told of", func(t *testing.T) {
		p, of, r := open(recordWeight + 10*eventWeight)
		for i := range 20 {
			r.add(questionOf(fmt.Sprintf(`"q%d"`, i+2)))
		}
		if _, _, ok := p.find(of, string(r.id(0))); ok {
			t.Error("a stream without its first questions is fetched")
		}
		if _, _, ok := p.find(of, string(r.id(r.lost))); !ok {
			t.Error("an agent that has what is lost cannot go on")
		}
		r.finish(&reply{head: []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)})
		if _, _, ok := p.find(of, string(r.id(0))); !ok {
			t.Error("the answer cannot be fetched, though no question waits any more")
		}
		p.timer.Stop()
	})
	t.Run("as wire writes them", func(t *testing.T) {
		if !isRequest(questionOf(`1`)) || isRequest(chatter(1)) || !bytes.HasPrefix(questionOf(`1`), requestHead) {
			t.Error("requests are taken for notifications")
		}
	})
}

// Over HTTP: an agent that would miss a question is refused.
func TestReplayWithoutAQuestion(t *testing.T) {
	behind(t, 8, func(w *world, l *pipeListener) {
		s := openSession(w, "2025-11-25")
		c, r := begun(t, w, l, s, 1)
		c.hangUp()
		rec := s.replay.streams[1]
		for i := range 100 {
			rec.add(wire.AppendRequest(nil, []byte(fmt.Sprint(i)), "roots/list", json.RawMessage(`{"x":"`+strings.Repeat("x", 1<<10)+`"}`)))
		}
		got := listenTo(t, l, resumed(s.id, c.last))
		if got.resp.StatusCode != 400 {
			t.Errorf("got %s", got.resp.Status)
		}
		got.hangUp()
		r.show("{}")
	}, func(o *Options) { o.Limits.ReplayBytes = 64 << 10 })
}
