package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// flooding is how many connections somebody keeps open without use: more than there
// are places, or nobody would be in another's way.
const flooding = maxClients + 100

// dialIn connects to the proxy and says nothing.
func dialIn(t *testing.T, proxy *url.URL) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

// ask sends a plain request with the credentials of a proxy's URL, and returns
// the answer with its text.
func ask(t *testing.T, conn net.Conn, as *url.URL, target string) (status int, text string) {
	t.Helper()
	auth := &http.Request{Header: http.Header{}}
	pass, _ := as.User.Password()
	auth.SetBasicAuth(as.User.Username(), pass)
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nProxy-Authorization: %s\r\n\r\n", target, auth.Header.Get("Authorization"))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// settle returns when the proxy has taken in all that was dialled before: it does so
// in their order. What follows is then about connections that are idle, and not
// about how fast this machine accepts them.
func settle(t *testing.T, proxy *url.URL) {
	t.Helper()
	nobody := *proxy
	nobody.User = url.UserPassword("nobody", "x")
	if status, _ := ask(t, dialIn(t, proxy), &nobody, "http://example.com/"); status != http.StatusProxyAuthRequired {
		t.Fatalf("a stranger: got %d", status)
	}
}

// counts are the strangers, and what children hold.
func (r *registry) counts() (strangers, owned int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.strangers.Len(), r.owned
}

func TestFloods(t *testing.T) {
	for name, flood := range map[string]struct {
		size int
		idle func(t *testing.T, a *url.URL)
	}{
		"strangers": {flooding, func(t *testing.T, a *url.URL) { dialIn(t, a) }},
		"wrong credentials": {2 * maxStrangers, func(t *testing.T, a *url.URL) {
			wrong := *a
			wrong.User = url.UserPassword(a.User.Username(), "wrong")
			if status, _ := ask(t, dialIn(t, a), &wrong, "http://example.com/"); status != http.StatusProxyAuthRequired {
				t.Fatalf("got %d", status)
			}
		}},
		"another child": {flooding, func(t *testing.T, a *url.URL) {
			if status, text := ask(t, dialIn(t, a), a, "http://other.test/"); status != http.StatusForbidden &&
				(status != http.StatusServiceUnavailable || !strings.Contains(text, "this process has 256 connections")) {
				t.Fatalf("got %d %q", status, text)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNursery(t, Settings{})
			_, a, _ := n.child(t, Server{Allow: []string{}})
			_, b, _ := n.child(t, Server{Allow: []string{"example.com"}})
			for range flood.size {
				flood.idle(t, a)
			}
			settle(t, a)
			start := time.Now()
			if status, text := ask(t, dialIn(t, b), b, "http://example.com/"); status != http.StatusOK {
				t.Errorf("another child: %d %q", status, text)
			}
			if d := time.Since(start); d > time.Second {
				t.Errorf("another child waited %v", d)
			}
			if strangers, owned := n.c.open.counts(); strangers > maxStrangers || owned > maxChildConns+1 {
				t.Errorf("%d strangers, %d of children", strangers, owned)
			}
			n.stop()
			if strangers, owned := n.c.open.counts(); strangers != 0 || owned != 0 || len(n.c.open.conns) != 0 {
				t.Errorf("left: %d strangers, %d of children", strangers, owned)
			}
			if lines := strings.Count(n.log.String(), "\n"); lines > 2*maxTold {
				t.Errorf("%d lines", lines)
			}
		})
	}
}

// TestFloodGoesOn holds that who has credentials gets in while others come and come.
func TestFloodGoesOn(t *testing.T) {
	n := newNursery(t, Settings{})
	_, b, _ := n.child(t, Server{Allow: []string{"example.com"}})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			conn, err := net.Dial("tcp", b.Host)
			if err != nil {
				continue
			}
			defer conn.Close()
			if i == flooding {
				return
			}
		}
	}()
	for range 20 {
		if status, text := ask(t, dialIn(t, b), b, "http://example.com/"); status != http.StatusOK {
			t.Errorf("got %d %q", status, text)
		}
	}
	close(stop)
	<-ended
}

// TestStrangersTime holds that a connection says whose it is or goes, and that one
// which said so stays.
func TestStrangersTime(t *testing.T) {
	n := newNursery(t, Settings{})
	n.c.open.patience = 300 * time.Millisecond
	_, a, _ := n.child(t, Server{Allow: []string{}})
	known, silent, wrong := dialIn(t, a), dialIn(t, a), dialIn(t, a)
	nobody := *a
	nobody.User = url.UserPassword("nobody", "x")
	ask(t, wrong, &nobody, "http://example.com/")
	ask(t, known, a, "http://example.com/")
	for name, conn := range map[string]net.Conn{"silent": silent, "wrong": wrong} {
		if _, err := conn.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if status, _ := ask(t, known, a, "http://example.com/"); status != http.StatusForbidden {
		t.Errorf("a known one: %d", status)
	}
}

func TestConnectionIsOneChilds(t *testing.T) {
	n := newNursery(t, Settings{})
	_, a, _ := n.child(t, Server{Allow: []string{"example.com"}})
	_, b, _ := n.child(t, Server{Allow: []string{"example.com"}})
	conn := dialIn(t, a)
	if status, _ := ask(t, conn, a, "http://example.com/"); status != http.StatusOK {
		t.Fatalf("got %d", status)
	}
	if status, text := ask(t, conn, b, "http://example.com/"); status != http.StatusForbidden || !strings.Contains(text, "belongs to another process") {
		t.Errorf("got %d %q", status, text)
	}
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection stays: %v", err)
	}
	if got, want := n.c.Counts("srv"), (ChildCounts{Allowed: 1, Refused: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	n.stop()
	if log := n.log.String(); !strings.Contains(log, `level=WARN msg="egress of a child refused" server=srv reason="this connection belongs to another process"`) {
		t.Errorf("log: %s", log)
	}
}

// TestPlacesOfChildren is a table of who may have one connection more.
func TestPlacesOfChildren(t *testing.T) {
	for _, tt := range []struct {
		name          string
		of, all       int
		gone, evicted bool
		want          error
	}{
		{name: "free"},
		{name: "the child has its share", of: maxChildConns, want: errCrowded},
		{name: "one below", of: maxChildConns - 1},
		{name: "all places are taken", of: assured, all: maxClients, want: errFull},
		{name: "all are taken, by others", of: assured - 1, all: maxClients},
		{name: "the child has gone", gone: true, want: errEnded},
		{name: "the connection has gone", evicted: true, want: errEnded},
	} {
		near, far := net.Pipe()
		r, c := &registry{owned: tt.all, patience: time.Minute}, &conn{Conn: near}
		if !r.admit(c) {
			t.Fatal("not admitted")
		}
		if tt.evicted {
			c.Close()
		}
		ch := &child{clients: tt.of, gone: tt.gone}
		if _, err := r.own(c, ch); err != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		c.Close()
		if ch.clients != tt.of || r.owned != tt.all || r.strangers.Len() != 0 {
			t.Errorf("%s: %d, %d, %d are left", tt.name, ch.clients, r.owned, r.strangers.Len())
		}
		far.Close()
	}
}
