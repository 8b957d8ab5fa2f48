package proxy

import (
	"fmt"
	"strings"
	"testing"
)

func TestFirstServerKeepsItsLink(t *testing.T) {
	var l links
	k := linkKey{"c", "v"}
	l.add(k, "u", "first")
	l.add(k, "u", "second")
	if s, _ := l.find(k, "u"); s != "first" {
		t.Errorf("got %q", s)
	}
	for i := range 3 * maxLinks {
		l.add(k, fmt.Sprint(i), "second")
	}
	if s, _ := l.find(k, "u"); s != "first" {
		t.Errorf("after a flood of another server: %q", s)
	}
	if _, ok := l.find(k, fmt.Sprint(3*maxLinks-1)); !ok {
		t.Error("the newest link is gone")
	}
	if s := l.shelf(k); len(s.owner) != maxLinks+1 || len(s.given["second"].uris) != maxLinks {
		t.Errorf("%d links", len(s.owner))
	}
}

func TestLinksAreBoundedInBytes(t *testing.T) {
	var l links
	k := linkKey{"c", "v"}
	for i := range 100 {
		l.add(k, fmt.Sprint(i, strings.Repeat("x", maxURI-10)), "s")
	}
	g := l.shelf(k).given["s"]
	if g.bytes > maxLinkBytes || len(g.uris) != 8 || len(l.shelf(k).owner) != 8 {
		t.Errorf("%d links of %d bytes", len(g.uris), g.bytes)
	}
}

// A caller with links in many views loses its own ones first.
func TestShelvesAreBounded(t *testing.T) {
	var l links
	l.add(linkKey{"a", "v"}, "u", "s")
	for i := range 2 * maxShelves {
		l.add(linkKey{"b", fmt.Sprint(i)}, "u", "s")
	}
	if len(l.shelves) != maxShelves {
		t.Errorf("%d shelves", len(l.shelves))
	}
	for _, tt := range []struct {
		k    linkKey
		kept bool
	}{
		{linkKey{"a", "v"}, true},
		{linkKey{"b", "0"}, false},
		{linkKey{"b", fmt.Sprint(2*maxShelves - 1)}, true},
	} {
		if _, ok := l.find(tt.k, "u"); ok != tt.kept {
			t.Errorf("%v: kept is %v, want %v", tt.k, ok, tt.kept)
		}
	}
}
