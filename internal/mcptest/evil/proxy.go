package evil

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Behind is a name of loopback that only proxies know: what is reached by it went
// through one.
const Behind = "behind.example"

// proxyFaults are proxies on the way out. They tunnel to loopback only.
func proxyFaults() []Fault {
	bad := func(id, says string, answer func(*Server, net.Conn, *http.Request)) Fault {
		return Fault{ID: id, Says: says, Start: true, serve: proxied(answer)}
	}
	return of(Egress, Proxy, []Fault{
		{ID: "P1a", Says: "is a good proxy", Start: true, Fine: true, serve: proxied(tunnel)},
		{ID: "P1b", Says: "is a good proxy for user evil with password secret", Start: true, Fine: true, serve: proxied(guarded)},
		{ID: "P6a", Says: "does not listen", Start: true, web: webFault{closed: true}},
		bad("P6b", "refuses by 407", refuses("407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"evil\"")),
		bad("P6c", "refuses by 502", refuses("502 Bad Gateway")),
		bad("P6d", "never answers CONNECT", func(_ *Server, c net.Conn, _ *http.Request) { holds(nil, c) }),
		bad("P6e", "answers CONNECT by 200 and goes on with garbage", garbage),
		bad("P6f", "answers CONNECT with 8 MiB of headers", hugeConnect),
		bad("P6g", "ends each connection at once", func(*Server, net.Conn, *http.Request) {}),
		bad("P6h", "answers with what is no HTTP", notHTTP),
		bad("P6i", "needs three seconds for each CONNECT", slowConnect),
		bad("P6j", "refuses by 403 with a page", refuses("403 Forbidden\r\nContent-Type: text/html")),
	})
}

// proxied reads the head of a request, notes it, and has it answered.
func proxied(answer func(*Server, net.Conn, *http.Request)) func(*Server, net.Conn) {
	return func(s *Server, c net.Conn) {
		var raw bytes.Buffer
		r := bufio.NewReader(io.TeeReader(io.LimitReader(c, 64<<10), &raw))
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
		s.Journal.Note(heads, head)
		answer(s, c, req)
	}
}

func refuses(status string) func(*Server, net.Conn, *http.Request) {
	return func(_ *Server, c net.Conn, _ *http.Request) {
		fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: 9\r\nConnection: close\r\n\r\nno access", status)
	}
}

func garbage(_ *Server, c net.Conn, _ *http.Request) {
	io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"+strings.Repeat("\x00garbage\xff", 500))
	holds(nil, c)
}

func hugeConnect(_ *Server, c net.Conn, _ *http.Request) {
	io.WriteString(c, "HTTP/1.1 200 Connection established\r\n")
	line := "X-Evil: " + strings.Repeat("x", 1<<14) + "\r\n"
	for range 8 << 20 >> 14 {
		if _, err := io.WriteString(c, line); err != nil {
			return
		}
	}
	io.WriteString(c, "\r\n")
}

func notHTTP(_ *Server, c net.Conn, _ *http.Request) {
	io.WriteString(c, "SSH-2.0-evil\r\n")
}

func slowConnect(s *Server, c net.Conn, r *http.Request) {
	time.Sleep(3 * time.Second)
	tunnel(s, c, r)
}

// guarded is a tunnel for who knows the password.
func guarded(s *Server, c net.Conn, r *http.Request) {
	if r.Header.Get("Proxy-Authorization") != "Basic ZXZpbDpzZWNyZXQ=" {
		refuses("407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"evil\"")(s, c, r)
		return
	}
	tunnel(s, c, r)
}

// tunnel connects to a host on loopback, or forwards one plain request there.
func tunnel(s *Server, c net.Conn, r *http.Request) {
	if !onLoopback(r.Host) {
		refuses("403 Forbidden")(s, c, r)
		return
	}
	host := strings.Replace(r.Host, Behind, "127.0.0.1", 1)
	if _, _, err := net.SplitHostPort(host); err != nil {
		host += ":80"
	}
	to, err := net.DialTimeout("tcp", host, floodFor)
	if err != nil {
		refuses("502 Bad Gateway")(s, c, r)
		return
	}
	defer to.Close()
	to.SetDeadline(time.Now().Add(hangFor))
	if r.Method == http.MethodConnect {
		io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	} else {
		r.Header.Del("Proxy-Authorization")
		r.Close = true
		if r.Write(to) != nil {
			return
		}
	}
	join(c, to)
}

// join copies both ways until both have ended.
func join(a, b net.Conn) {
	var wg sync.WaitGroup
	wg.Go(func() { pump(a, b) })
	wg.Go(func() { pump(b, a) })
	wg.Wait()
}

func pump(to, from net.Conn) {
	io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

func onLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip := net.ParseIP(host)
	return host == "localhost" || host == Behind || ip != nil && ip.IsLoopback()
}
