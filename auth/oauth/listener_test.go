package oauth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

const labState = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// hit sends one request as it stands, without following anything.
func hit(t *testing.T, method, u string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(labContext(t), method, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// Whatever else comes, the right answer is still awaited, and nothing foreign
// gets into a page.
func TestCallbackHostile(t *testing.T) {
	newLoginLab(t)
	r := &Relay{Name: "lab"}
	d, err := r.listen()
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	d.serve(labState)
	origin := strings.TrimSuffix(d.redirect, "/callback")
	for _, c := range []struct {
		name, method, uri string
		status            int
	}{
		{"wrong state", "GET", "/callback?code=x&state=ABCDEFGHIJKLMNOPQRSTUVWXYA", 400},
		{"prefix of the state", "GET", "/callback?code=x&state=ABC", 400},
		{"no state", "GET", "/callback?code=x", 400},
		{"no query", "GET", "/callback", 400},
		{"state only", "GET", "/callback?state=" + labState, 400},
		{"code twice", "GET", "/callback?code=x&code=y&state=" + labState, 400},
		{"state twice", "GET", "/callback?code=x&state=" + labState + "&state=b", 400},
		{"iss twice", "GET", "/callback?code=x&iss=a&iss=b&state=" + labState, 400},
		{"code and error", "GET", "/callback?code=x&error=e&state=" + labState, 400},
		{"markup in error", "GET", "/callback?error=%3Cscript%3Eevil%3C/script%3E&state=" + labState, 400},
		{"markup in error, no state", "GET", "/callback?error=%3Cscript%3Eevil%3C/script%3E", 400},
		{"huge code", "GET", "/callback?code=" + strings.Repeat("x", maxCode+1) + "&state=" + labState, 400},
		{"huge query", "GET", "/callback?a=" + strings.Repeat("x", maxAnswer) + "&code=x&state=" + labState, 400},
		{"malformed query", "GET", "/callback?code=%zz&state=" + labState, 400},
		{"POST", "POST", "/callback?code=x&state=" + labState, 405},
		{"HEAD", "HEAD", "/callback?code=x&state=" + labState, 405},
		{"root", "GET", "/?code=x&state=" + labState, 404},
		{"below", "GET", "/callback/evil?code=x&state=" + labState, 404},
		{"favicon", "GET", "/favicon.ico", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := hit(t, c.method, origin+c.uri)
			if res.StatusCode != c.status {
				t.Errorf("status %d, want %d", res.StatusCode, c.status)
			}
			if strings.Contains(body, "evil") || strings.Contains(body, "xxx") {
				t.Errorf("the page has what the request said: %.300q", body)
			}
			wantStrict(t, res.Header)
		})
	}
	res, body := hit(t, "GET", origin+"/callback?code=right&state="+labState)
	if res.StatusCode != 200 || strings.Contains(body, "right") {
		t.Errorf("the right one: status %d, page %q", res.StatusCode, body)
	}
	wantStrict(t, res.Header)
	if res, _ := hit(t, "GET", origin+"/callback?code=second&state="+labState); res.StatusCode != http.StatusGone {
		t.Errorf("the second one: status %d, want 410", res.StatusCode)
	}
	if a := <-d.answers; !strings.Contains(a, "code=right") {
		t.Errorf("answer %q, want the right one", a)
	}
}

func wantStrict(t *testing.T, h http.Header) {
	t.Helper()
	for k, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
		"X-Content-Type-Options": "nosniff", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := h.Get(k); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", k, got, want)
		}
	}
}

func TestPageEscapes(t *testing.T) {
	for _, s := range []string{"<script>", `"'&`} {
		w := newRecorder()
		writePage(w, 200, s, s)
		if strings.Contains(w.body.String(), s) {
			t.Errorf("%q is in the page as it stands", s)
		}
	}
}

type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func newRecorder() *recorder                    { return &recorder{header: http.Header{}} }
func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(int)             {}
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// A flood ends in short answers, not in the end of the login.
func TestCallbackFlood(t *testing.T) {
	newLoginLab(t)
	d, err := (&Relay{Name: "lab"}).listen()
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	d.serve(labState)
	d.strays.Store(maxStrays)
	if res, body := hit(t, "GET", d.redirect+"?state=x"); res.StatusCode != http.StatusTooManyRequests || body != "" {
		t.Errorf("status %d with %q, want 429 with nothing", res.StatusCode, body)
	}
	if res, _ := hit(t, "GET", d.redirect+"?code=c&state="+labState); res.StatusCode != 200 {
		t.Errorf("the right one: status %d", res.StatusCode)
	}
	d.conns.Store(maxStrayConns + 2) // the requests above may still be counted out
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if res, err := c.Get(d.redirect); err == nil {
		res.Body.Close()
		t.Error("one connection more than the bound was served")
	}
}

func TestListenOnLoopbackOnly(t *testing.T) {
	for _, set := range []auth.OAuth{{}, {RedirectHost: "0.0.0.0"}, {RedirectURI: "https://public.example/cb"}} {
		d, err := (&Relay{Settings: set}).listen()
		if err != nil {
			t.Fatal(err)
		}
		if a := d.ln.Addr().(*net.TCPAddr); !a.IP.Equal(net.IPv4(127, 0, 0, 1)) {
			t.Errorf("listens on %v", a)
		}
		d.close()
	}
}

func TestRedirectURI(t *testing.T) {
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	at := func(s string) string { return strings.ReplaceAll(s, "PORT", strconv.Itoa(port)) }
	for _, c := range []struct {
		name           string
		set            auth.OAuth
		stored         int
		uri, path, err string
	}{
		{"port", auth.OAuth{RedirectPort: port}, 0, "http://127.0.0.1:PORT/callback", "/callback", ""},
		{"stored port", auth.OAuth{}, port, "http://127.0.0.1:PORT/callback", "/callback", ""},
		{"host", auth.OAuth{RedirectPort: port, RedirectHost: "localhost"}, 0, "http://localhost:PORT/callback", "/callback", ""},
		{"host v6", auth.OAuth{RedirectPort: port, RedirectHost: "::1"}, 0, "http://[::1]:PORT/callback", "/callback", ""},
		{"uri", auth.OAuth{RedirectPort: port, RedirectURI: "https://public.example/a/cb?x=1"}, 0, "https://public.example/a/cb?x=1", "/a/cb", ""},
		{"uri without path", auth.OAuth{RedirectURI: "https://public.example"}, port, "https://public.example", "/", ""},
		{"uri of this machine", auth.OAuth{RedirectURI: at("http://localhost:PORT/cb")}, 0, "http://localhost:PORT/cb", "/cb", ""},
		{"bad host", auth.OAuth{RedirectHost: "a/b@c"}, 0, "", "", "redirect_host"},
		{"bad uri", auth.OAuth{RedirectURI: "javascript:alert(1)"}, 0, "", "", "redirect_uri"},
		{"uri with fragment", auth.OAuth{RedirectURI: "https://a.example/#x"}, 0, "", "", "redirect_uri"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := (&Relay{Settings: c.set, Port: c.stored}).listen()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want one of %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			if d.redirect != at(c.uri) || d.path != c.path || d.port != port {
				t.Errorf("got %q, path %q, port %d, want %q, %q, %d", d.redirect, d.path, d.port, at(c.uri), c.path, port)
			}
		})
	}
}

// Hits of another program before the right one do not break the login.
func TestLoginAmidStrays(t *testing.T) {
	lab := newLoginLab(t)
	l := lab.login(auth.OAuth{})
	l.Open = func(u string) error {
		q, _ := url.Parse(u)
		back := q.Query().Get("redirect_uri")
		hit(t, "GET", back+"?code=evil&state=evil")
		hit(t, "GET", back+"?error=access_denied&state=evil")
		hit(t, "POST", back)
		return visit(u)
	}
	if err := l.Run(labContext(t)); err != nil {
		t.Fatal(err)
	}
	lab.noCanary()
}

const sshConn = "SSH_CONNECTION=10.0.0.9 5555 10.0.0.7 2222"

func TestForwardLine(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		want string
	}{
		{"no ssh", []string{"USER=u", sshConn}, ""},
		{"ssh", []string{"USER=u", "SSH_TTY=/dev/pts/0", sshConn}, "ssh -N -L 4711:127.0.0.1:4711 -p 2222 u@10.0.0.7"},
		{"port 22, v6", []string{"SSH_CLIENT=x", "SSH_CONNECTION=fe80::1 1 fe80::2%eth0 22"}, "ssh -N -L 4711:127.0.0.1:4711 fe80::2"},
		{"hostile", []string{"USER=$(x)", "SSH_CLIENT=x", "SSH_CONNECTION=a b 10.0.0.7 ;x"}, "ssh -N -L 4711:127.0.0.1:4711 10.0.0.7"},
	} {
		if got := forwardLine(c.env, 4711); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if h, err := os.Hostname(); err == nil && plainHost(h) {
		if got := forwardLine([]string{"SSH_CLIENT=x"}, 1); got != "ssh -N -L 1:127.0.0.1:1 "+h {
			t.Errorf("without an address: %q", got)
		}
	}
}

func TestLoginOverSSH(t *testing.T) {
	for uri, want := range map[string]bool{"": true, "https://public.example/cb": false} {
		lab := newLoginLab(t)
		l := lab.login(auth.OAuth{RedirectURI: uri, Timeout: time.Second})
		l.Environ = []string{"SSH_CLIENT=x", sshConn}
		ctx, cancel := context.WithCancel(labContext(t))
		l.Open = func(string) error { cancel(); return errors.New("no such program") }
		if err := l.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want canceled", err)
		}
		if got := strings.Contains(lab.out.String(), "ssh -N -L "); got != want {
			t.Errorf("redirect_uri %q: line shown: %v, want %v", uri, got, want)
		}
		if !strings.Contains(lab.out.String(), "/authorize?") || !strings.Contains(lab.out.String(), "no such program") {
			t.Errorf("printed %q", lab.out.String())
		}
	}
}
