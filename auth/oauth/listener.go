package oauth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	listenHost    = "127.0.0.1" // never another: what comes back is a secret
	maxAnswer     = 16 << 10
	maxCode       = 8 << 10
	maxStrays     = 200 // requests of others that get a page
	maxStrayConns = 64
)

// A landing is where the browser comes back to.
type landing struct {
	redirect string // the URI that the provider is told
	path     string
	port     int
	log      *slog.Logger
	// answers gets the query of the one right request. It is never closed.
	answers chan string

	state  string
	ln     net.Listener
	srv    *http.Server
	served sync.WaitGroup
	taken  atomic.Bool
	strays atomic.Int64
	conns  atomic.Int64
}

// listenLoopback binds the port that the settings demand, or one that would be
// welcome, or any.
func listenLoopback(demanded int, welcome ...int) (*landing, error) {
	if demanded != 0 {
		ln, err := net.Listen("tcp4", net.JoinHostPort(listenHost, strconv.Itoa(demanded)))
		if err != nil {
			return nil, fmt.Errorf("redirect_port %d: %w; free it or choose another", demanded, err)
		}
		return newLanding(ln), nil
	}
	welcome = slices.DeleteFunc(welcome, func(port int) bool { return port == 0 })
	for _, port := range append(welcome, 0) {
		ln, err := net.Listen("tcp4", net.JoinHostPort(listenHost, strconv.Itoa(port)))
		if err == nil {
			return newLanding(ln), nil
		}
	}
	return nil, fmt.Errorf("no port on %s is free", listenHost)
}

func newLanding(ln net.Listener) *landing {
	return &landing{ln: ln, port: ln.Addr().(*net.TCPAddr).Port, answers: make(chan string, 1)}
}

// serve answers until close. Only a request with state is the right one.
func (d *landing) serve(state string) {
	d.state = state
	d.srv = &http.Server{
		Handler:           d,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      5 * time.Second,
		MaxHeaderBytes:    maxAnswer * 2,
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnState:         d.count,
	}
	d.srv.SetKeepAlivesEnabled(false)
	d.served.Add(1)
	go d.run()
}

func (d *landing) run() {
	defer d.served.Done()
	d.srv.Serve(d.ln) // ends with close
}

// count turns away those who come in numbers that no browser comes in.
func (d *landing) count(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		if d.conns.Add(1) > maxStrayConns {
			c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		d.conns.Add(-1)
	}
}

// close lets the page that is being written reach the browser.
func (d *landing) close() {
	if d.srv == nil {
		d.ln.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if d.srv.Shutdown(ctx) != nil {
		d.srv.Close()
	}
	d.served.Wait()
}

// ServeHTTP takes the redirect. A request that is not the right one changes
// nothing: other programs of this machine can send them, too.
func (d *landing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != d.path:
		d.stray(w, http.StatusNotFound, "nothing is here")
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		d.stray(w, http.StatusMethodNotAllowed, "only GET is answered here")
	default:
		d.callback(w, r.URL.RawQuery)
	}
}

func (d *landing) callback(w http.ResponseWriter, query string) {
	q, err := parseAnswer(query)
	if err == nil {
		err = checkAnswer(q, d.state)
	}
	if err != nil {
		d.stray(w, http.StatusBadRequest, err.Error())
		return
	}
	if d.taken.Swap(true) {
		d.stray(w, http.StatusGone, "the login was answered already")
		return
	}
	// What the provider says is shown only once its issuer is checked, and that is
	// done elsewhere.
	if q.Has("error") {
		writePage(w, http.StatusOK, "Not logged in", "The login was refused. The terminal says more. You can close this window.")
	} else {
		writePage(w, http.StatusOK, "Answer received", "The login goes on in the terminal. You can close this window.")
	}
	d.answers <- query
}

func (d *landing) stray(w http.ResponseWriter, status int, why string) {
	n := d.strays.Add(1)
	if n > maxStrays {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	if d.log != nil && n < 20 {
		d.log.Debug("a request that is not the login's answer", "op", "login", "status", status, "reason", why)
	}
	writePage(w, status, "Not the answer to this login", "Refused: "+why+". The login still waits.")
}

func writePage(w http.ResponseWriter, status int, title, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	w.WriteHeader(status)
	title, text = html.EscapeString(title), html.EscapeString(text)
	fmt.Fprintf(w, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>%s</title><h1>%s</h1><p>%s</p></html>\n", title, title, text)
}

// answerParams are those that must not come twice (RFC 6749, section 3.1).
var answerParams = []string{"state", "code", "error", "error_description", "iss"}

var errOtherState = errors.New("the state is not that of this login")

func parseAnswer(query string) (url.Values, error) {
	if len(query) > maxAnswer {
		return nil, fmt.Errorf("the query is longer than %d bytes", maxAnswer)
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the query is malformed")
	}
	return q, nil
}

// checkAnswer reports why a query is no answer to the login with this state. Its
// errors are constant: they go into pages.
func checkAnswer(q url.Values, state string) error {
	if state == "" || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
		return errOtherState
	}
	for _, k := range answerParams {
		if len(q[k]) > 1 {
			return errors.New("the parameter " + k + " comes twice")
		}
	}
	code, fault := q.Get("code"), q.Get("error")
	switch {
	case code == "" && fault == "":
		return errors.New("there is neither code nor error")
	case code != "" && fault != "":
		return errors.New("there are both code and error")
	case len(code) > maxCode:
		return errors.New("the code is too long")
	case fault != "" && !errorWord(fault):
		return errors.New("the error is no error code")
	}
	return nil
}

// errorWord reports whether s can be the code of an error: a word, no prose and
// no markup.
func errorWord(s string) bool {
	return len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool { return !wordRune(r) && !strings.ContainsRune(":/", r) })
}

func wordRune(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '-' || r == '.'
}
