package upstream

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// What agents choose does not stay with us, nor does it reach a server's limits.
func TestHTTPNameBound(t *testing.T) {
	f := newFake(t, &fakeHTTP{modern: true, call: serve(200, `{"jsonrpc":"2.0","id":%s,"result":{}}`)})
	c := dialed(t, resolved(t, f.URL, nil), env{})
	for _, tt := range []struct {
		name string
		fits bool
		text string
	}{
		{strings.Repeat("u", maxNameValue), true, ""},
		{strings.Repeat("u", maxNameValue+1), false, "a name of 8193 bytes does not fit the Mcp-Name header, at most 8192"},
		{strings.Repeat("u", 9<<20), false, "a name of 9437184 bytes"},
		{strings.Repeat("é", 3000), true, ""},
		{strings.Repeat("é", 3500), false, "does not fit the Mcp-Name header, at most 8192"},
	} {
		before := len(f.got("tools/call"))
		_, err := c.Do(t.Context(), &Call{Method: "tools/call", Name: tt.name})
		if sent := len(f.got("tools/call")) - before; (err == nil) != tt.fits || (sent == 1) != tt.fits {
			t.Fatalf("%d bytes: got %v, sent %d times", len(tt.name), err, sent)
		}
		if err != nil && (KindOf(err) != TooLarge || !strings.Contains(err.Error(), tt.text)) {
			t.Errorf("%d bytes: got %v", len(tt.name), err)
		}
	}
	s := c.session.Load()
	for k := range s.made {
		if len(k.method)+len(k.name) > maxKeptName {
			t.Errorf("a name of %d bytes is kept", len(k.name))
		}
	}
	if c.Do(t.Context(), toolCall("short")); s.made[target{"tools/call", "short"}] == nil {
		t.Error("a short name is not kept")
	}
}

// Names matter to the modern era only.
func TestHTTPNameUnbound(t *testing.T) {
	f := newFake(t, &fakeHTTP{legacy: true, call: serve(200, `{"jsonrpc":"2.0","id":%s,"result":{}}`)})
	c := dialed(t, resolved(t, f.URL, nil), env{})
	if _, err := c.Do(t.Context(), &Call{Method: "tools/call", Name: strings.Repeat("u", 2*maxNameValue)}); err != nil {
		t.Error(err)
	}
}

// An endpoint that grows with each permanent redirect would grow for ever.
func TestHTTPLocationBound(t *testing.T) {
	f := newFake(t, &fakeHTTP{modern: true, any: func(w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method == "tools/call" && len(r.URL.Path) < 20*maxLocation {
			w.Header().Set("Location", "./"+strings.Repeat("x", maxLocation/4)+"/")
			w.WriteHeader(http.StatusPermanentRedirect)
			return true
		}
		return false
	}})
	c := dialed(t, resolved(t, f.URL+"/mcp/", nil), env{})
	for range 20 {
		if _, err := c.Do(t.Context(), toolCall("x")); KindOf(err) != Config {
			t.Fatalf("got %v", err)
		}
	}
	if n := len(c.endpoint.Load().Path); n > maxLocation {
		t.Errorf("the endpoint has %d bytes", n)
	}
}

// A large event on a stream that lasts does not keep its room.
func TestEventReaderShrinks(t *testing.T) {
	var in bytes.Buffer
	for i := range 3 {
		fmt.Fprintf(&in, "data: %d%s\n\ndata: small %d\n\n", i, strings.Repeat("x", 2*keptScratch), i)
	}
	r := newEventReader(&in, nil, 4<<20, 1<<30)
	for i := range 3 {
		ev, err := r.next()
		if err != nil || len(ev.data) != 2*keptScratch+1 || ev.data[0] != byte('0'+i) {
			t.Fatalf("%d: got %d bytes, %v", i, len(ev.data), err)
		}
		r.shrink()
		if i == 2 && len(r.buf) > keptScratch {
			t.Errorf("the buffer has %d bytes", len(r.buf))
		}
		if ev, err = r.next(); err != nil || string(ev.data) != fmt.Sprint("small ", i) {
			t.Fatalf("got %.20q, %v", ev.data, err)
		}
		r.shrink()
	}
	if _, err := r.next(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// What a handshake says is kept for the connection's life.
func TestInfoBound(t *testing.T) {
	long := strings.Repeat("é", maxInfo)
	in := initializeInfo([]byte(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{"x":"` + long + `"}},"serverInfo":{"name":"` + long + `"},"instructions":"a` + long + `"}`))
	if in.Capabilities != nil || in.ServerInfo != nil || len(in.Instructions) != maxInfo-1 || in.Version != "2025-06-18" {
		t.Errorf("got %d, %d, %d bytes", len(in.Capabilities), len(in.ServerInfo), len(in.Instructions))
	}
}

// The standing stream drops what is too large, and goes on.
func TestStandingStreamBound(t *testing.T) {
	f := newFake(t, &fakeHTTP{legacy: true, get: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":%q}}\n\n", strings.Repeat("x", maxNotice))
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}})
	var e env
	ch := heardNotes(&e)
	dialed(t, resolved(t, f.URL, nil), e)
	if got := waitNote(t, ch); got != "notifications/tools/list_changed " {
		t.Errorf("got %.60q", got)
	}
}
