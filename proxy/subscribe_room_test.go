package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// However many resources a few callers follow, another one finds room; what one
// follows already takes none.
func TestFollowedAreShared(t *testing.T) {
	w, sub := subWorld(t)
	f := w.front
	n := 0
	watcherOf := func(caller string) *watcher { return &watcher{view: mustView(w), known: [2]string{"", caller}} }
	var all []*watcher
	follow := func(w *watcher, uri string) error {
		return f.follow(context.Background(), w, resource{"files", uri})
	}
	for _, caller := range []string{"a", "b", "c"} {
		had, err := n, error(nil)
		for err == nil {
			w := watcherOf(caller)
			all = append(all, w)
			for i := 0; i < maxSubscriptions && err == nil; i++ {
				if err = follow(w, fmt.Sprint("u", n)); err == nil {
					n++
				}
			}
		}
		if n-had < maxFollowed/10 {
			t.Errorf("%s has room for %d", caller, n-had)
		}
		if want := fmt.Sprintf(`server "files": subscribed to are %d of its resources by this caller, which is the most now; unsubscribe from some`, n-had); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", caller, err)
		}
	}
	late := watcherOf("a")
	all = append(all, late)
	if err := follow(late, "u0"); err != nil {
		t.Errorf("what is followed already: %v", err)
	}
	if follow(late, "new") == nil {
		t.Error("more than a share")
	}
	f.unfollow(late, resource{"files", "u0"})
	f.unfollow(all[0], resource{"files", "u0"})
	next := watcherOf("c")
	all = append(all, next)
	if err := follow(next, "new"); err != nil {
		t.Errorf("after an end: %v", err)
	}
	sub.mu.Lock()
	sub.fail = map[string]error{"files": fmt.Errorf("no")}
	sub.mu.Unlock()
	if d := watcherOf("d"); follow(d, "x") == nil || f.subs.crowds["files"].of["d"] != nil {
		t.Error("what failed holds room")
	}
	for _, w := range all {
		f.dismiss(w)
	}
	w.nobody(sub)
}

// A listen that asks for nothing but resources for which there is no room is told
// why.
func TestListenWithoutRoom(t *testing.T) {
	w, _ := subWorld(t)
	own := map[string]int{}
	c := &crowd{of: map[string]map[string]int{callerFor(w, token).ID: own}, has: map[string]int{}}
	for i := range maxFollowed / 2 {
		own[fmt.Sprint("u", i)], c.has[fmt.Sprint("u", i)] = 1, 1
	}
	w.front.subs.crowds = map[string]*crowd{"files": c}
	r := w.post(listenBody("1", `{"resourceSubscriptions":["file:///a.txt"]}`), modernHeader(listenMethod, "")...)
	if code(r.body) != -32603 || !strings.Contains(r.body, "unsubscribe from some") {
		t.Errorf("got %s", r.body)
	}
	w.listen(t, "2", `{"toolsListChanged":true,"resourceSubscriptions":["file:///a.txt"]}`).want("the rest", ackOf("2", `{"toolsListChanged":true}`))
	if w.front.subs.all != 1 {
		t.Errorf("%d listens are open", w.front.subs.all)
	}
}
