package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

// A Relay shows a person the way to an authorization server, and takes the
// answer on this machine. Who began the login may be elsewhere.
type Relay struct {
	// Name of the server, for what is printed.
	Name string
	// Settings give redirect_port, redirect_host, redirect_uri and timeout.
	Settings auth.OAuth
	// Port is tried when the settings name none. If zero, or busy, any will do.
	Port int
	// Out, In, Open and Environ are as in Login.
	Out     io.Writer
	In      io.Reader
	Open    func(url string) error
	Environ []string
	// Log may be nil.
	Log *slog.Logger

	mu sync.Mutex // of Out: the paste-back writes, too
}

// Write is to Out, one at a time.
func (r *Relay) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Out == nil {
		return len(b), nil
	}
	return r.Out.Write(b)
}

// Run listens for the redirect, has start begin the login with the redirect URI
// and give the URL to visit, and returns the query that the provider answered
// with. Its state is that of the URL; everything else is for who began.
func (r *Relay) Run(ctx context.Context, start func(redirect string) (string, error)) (string, error) {
	d, err := r.listen()
	if err != nil {
		return "", err
	}
	defer d.close()
	raw, err := start(d.redirect)
	if err != nil {
		return "", err
	}
	visit, err := parseBrowsable(raw)
	if err != nil {
		return "", fmt.Errorf("server %s: login: URL to visit: %w", r.Name, err)
	}
	state := visit.Query().Get("state")
	if len(state) < 20 {
		return "", fmt.Errorf("server %s: login: the URL to visit has no state of sufficient length", r.Name)
	}
	d.serve(state)
	r.show(visit, d)
	return r.wait(ctx, d, state)
}

func (r *Relay) printf(format string, args ...any) {
	fmt.Fprintf(r, format, args...)
}

func (r *Relay) timeout() time.Duration {
	if r.Settings.Timeout > 0 {
		return r.Settings.Timeout
	}
	return defaultPatience
}

// show tells the person what to do. The URL is always printed: it may be that no
// browser comes up, or the wrong one.
func (r *Relay) show(visit *url.URL, d *landing) {
	r.printf("To log in to %s, visit:\n\n  %s\n\n", r.Name, visit)
	if r.Open != nil {
		if err := r.Open(visit.String()); err != nil {
			r.printf("No browser could be opened: %v\n", err)
		}
	}
	if line := forwardLine(r.Environ, d.port); line != "" && isLoopback(d.redirect) {
		r.printf("Over SSH, run this where the browser is, before you visit:\n\n  %s\n\n", line)
	}
	if r.In != nil {
		r.printf("Or paste the redirect URL here, or type skip: ")
	}
}

// wait takes the first answer, from the browser or the terminal.
func (r *Relay) wait(ctx context.Context, d *landing, state string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	p := newPaster(r.In, r, state)
	defer p.end()
	defer cancel()
	p.start(ctx)
	select {
	case a := <-d.answers:
		if r.In != nil {
			r.printf("\n")
		}
		return a, nil
	case a := <-p.answers:
		if a.err != nil {
			return "", fmt.Errorf("server %s: login: %w", r.Name, a.err)
		}
		return a.query, nil
	case <-ctx.Done():
		return "", r.gaveUp(ctx.Err(), d)
	}
}

func (r *Relay) gaveUp(cause error, d *landing) error {
	if !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("server %s: login: %w", r.Name, cause)
	}
	hint := ""
	if u, err := url.Parse(d.redirect); err == nil && u.Hostname() == listenHost {
		hint = "; if the browser was not sent back, try oauth.redirect_host: localhost (some providers' firewalls refuse 127.0.0.1)"
	}
	return fmt.Errorf("server %s: login: no answer within %s (oauth.timeout)%s: %w", r.Name, r.timeout(), hint, os.ErrDeadlineExceeded)
}

// listen opens the port that the redirect goes to.
func (r *Relay) listen() (*landing, error) {
	d, err := listenLoopback(r.Settings.RedirectPort, r.uriPort(), r.Port)
	if err != nil {
		return nil, fmt.Errorf("server %s: login: %w", r.Name, err)
	}
	d.log = r.Log
	if err := r.address(d); err != nil {
		d.close()
		return nil, fmt.Errorf("server %s: login: %w", r.Name, err)
	}
	return d, nil
}

// uriPort is that of a redirect_uri on this machine: what else would it be for.
func (r *Relay) uriPort() int { return loopbackPort([]string{r.Settings.RedirectURI}) }

// address gives a listener its redirect URI.
func (r *Relay) address(d *landing) error {
	d.path = "/callback"
	if r.Settings.RedirectURI == "" {
		host := r.Settings.RedirectHost
		if host == "" {
			host = listenHost
		}
		if !plainHost(host) {
			return fmt.Errorf("redirect_host: %.80q is not a host name", host)
		}
		d.redirect = "http://" + net.JoinHostPort(host, strconv.Itoa(d.port)) + d.path
		return nil
	}
	u, err := url.Parse(r.Settings.RedirectURI)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || !plainHost(u.Hostname()) || u.User != nil || u.Fragment != "" {
		return errors.New("redirect_uri: not an http or https URL without user and fragment")
	}
	d.redirect, d.path = r.Settings.RedirectURI, u.Path
	if d.path == "" {
		d.path = "/"
	}
	return nil
}

// loopbackPort is the port of the first URI that points to this machine.
func loopbackPort(uris []string) int {
	for _, s := range uris {
		if !isLoopback(s) {
			continue
		}
		if u, err := url.Parse(s); err == nil {
			if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
				return int(n)
			}
		}
	}
	return 0
}

// LoopbackURI reports whether a redirect URI is on the machine of whoever uses it.
func LoopbackURI(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Scheme == "http" && u.User == nil && u.Fragment == "" && loopbackHost(u.Hostname())
}

// isLoopback reports whether a URI names this machine.
func isLoopback(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && loopbackHost(u.Hostname())
}

// forwardLine is the command that brings a port of this machine to the one that
// the person sits at, or nothing when there is no SSH session.
func forwardLine(environ []string, port int) string {
	if !overSSH(environ) {
		return ""
	}
	line := fmt.Sprintf("ssh -N -L %d:%s:%d ", port, listenHost, port)
	if f := strings.Fields(lookup(environ, "SSH_CONNECTION")); len(f) == 4 && f[3] != "22" && decimal(f[3]) {
		line += "-p " + f[3] + " "
	}
	if user := lookup(environ, "USER"); user != "" && plainHost(user) {
		line += user + "@"
	}
	return line + sshHost(environ)
}

// sshHost is the address under which the person reached this machine.
func sshHost(environ []string) string {
	if f := strings.Fields(lookup(environ, "SSH_CONNECTION")); len(f) == 4 {
		if a, err := netip.ParseAddr(f[2]); err == nil && !a.IsLoopback() {
			return a.WithZone("").String()
		}
	}
	if h, err := os.Hostname(); err == nil && plainHost(h) {
		return h
	}
	return "HOST"
}

func decimal(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}
