package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestVariables(t *testing.T) {
	c := compile(t, Settings{}).NewChildren(nil)
	defer c.end()
	environ, closeIt, err := c.Open("srv", Server{})
	if err != nil {
		t.Fatal(err)
	}
	again, _, _ := c.Open("srv", Server{})
	defer closeIt()
	e, err := Compile(Settings{}, environ)
	if err != nil {
		t.Fatal(err)
	}
	if r := route(t, e, "https://x.test", ""); !strings.HasPrefix(r.String(), "http://127.0.0.1:") {
		t.Errorf("got %v", r)
	}
	if slices.Equal(environ, again) {
		t.Error("two children have the same credentials")
	}
	for _, rules := range []Server{{Allow: []string{"a b"}}, {Proxy: "ftp://h"}} {
		if _, _, err := c.Open("srv", rules); err == nil {
			t.Errorf("%+v: no error", rules)
		}
	}
}

func TestNotesAreBounded(t *testing.T) {
	var n counter
	now, told := time.Now(), 0
	for range 100 {
		if tell, _ := n.note(&refusedError{}, now); tell {
			told++
		}
	}
	if told != maxTold {
		t.Errorf("told %d, want %d", told, maxTold)
	}
	if tell, untold := n.note(errBusy, now.Add(tellEvery)); !tell || untold != 100-maxTold {
		t.Errorf("got %v, %d", tell, untold)
	}
	if want := (ChildCounts{Refused: 100, Failed: 1}); n.counts != want {
		t.Errorf("got %+v, want %+v", n.counts, want)
	}
}

func TestRegistryRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		r *registry
		c *conn
	}{
		"a child that has gone": {&registry{}, &conn{child: &child{gone: true}}},
		"the end":               {&registry{ended: true}, &conn{}},
	} {
		near, far := net.Pipe()
		c.c.Conn = near
		if c.r.add(c.c) {
			t.Errorf("%s: added", name)
		}
		if _, err := far.Write([]byte("x")); err == nil {
			t.Errorf("%s: still open", name)
		}
	}
}

func TestScreenerRemembers(t *testing.T) {
	asked := 0
	s := screener{lookup: func(context.Context, string) ([]netip.Addr, error) {
		asked++
		return nil, errors.New("no such host")
	}}
	for range 3 {
		s.addrs(t.Context(), "a.test")
	}
	for i := range maxUnknown {
		s.addrs(t.Context(), fmt.Sprint(i))
	}
	if asked != 1+maxUnknown || len(s.unknown) > maxUnknown {
		t.Errorf("asked %d times, remembers %d", asked, len(s.unknown))
	}
}
