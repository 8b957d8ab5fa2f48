package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/admin"
	"github.com/mcp-sidecar/mcp-sidecar/auth/oauth"
	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// adminName is the admin socket's in the state directory. Of several sidecars that
// share that, the later ones put their process id before it.
const adminName = "admin.sock"

func socketDir(state string) string { return filepath.Join(state, "run") }

// The verbs of the admin socket that are about logins.
const (
	verbLogin  = "/v1/logins/{server}"
	verbStart  = verbLogin + "/start"
	verbTaken  = verbLogin + "/taken"
	verbFinish = "/v1/login/finish"
)

func verb(v, server string) string {
	return strings.Replace(v, "{server}", url.PathEscape(server), 1)
}

// A loginPlace is where a server's logins are answered, for who listens there.
type loginPlace struct {
	RedirectPort int           `json:"redirect_port,omitempty"`
	RedirectHost string        `json:"redirect_host,omitempty"`
	RedirectURI  string        `json:"redirect_uri,omitempty"`
	Timeout      time.Duration `json:"timeout,omitempty"` // nanoseconds
	Port         int           `json:"port,omitempty"`    // of the registration that is kept
}

type loginStart struct {
	RedirectURI string `json:"redirect_uri"`
	Fresh       bool   `json:"fresh,omitempty"`
}

type loginURL struct {
	URL string `json:"url"`
}

type loginAnswer struct {
	Answer string `json:"answer"` // the query of the redirect
}

type loginDone struct {
	Server string       `json:"server"`
	Result oauth.Result `json:"result"`
}

// bindAdmin opens the admin socket. A sidecar without one works, too.
func (r *running) bindAdmin() {
	if r.cfg.StateDir == "" {
		return
	}
	dir := socketDir(r.cfg.StateDir)
	err := os.MkdirAll(dir, 0o700)
	_, _ = sockets(dir) // which removes what others left behind
	for _, name := range []string{adminName, fmt.Sprintf("%d-%s", os.Getpid(), adminName)} {
		path := filepath.Join(dir, name)
		if err != nil {
			break
		}
		if len(path) > maxSocketPath {
			err = fmt.Errorf("%s has %d bytes, a unix socket's path at most %d", path, len(path), maxSocketPath)
			break
		}
		l, lerr := listenUnix(path)
		if lerr == nil {
			r.admin = admin.Socket(r.verbs())
			r.start(r.admin, l)
			return
		}
		if name != adminName {
			err = unwrapOp(lerr)
		}
	}
	r.log.Warn("no admin socket: other commands cannot reach this sidecar", "err", err)
}

func (r *running) verbs() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+verbLogin, admin.Verb(r.whereLogin))
	mux.HandleFunc("POST "+verbStart, admin.Verb(r.startLogin))
	mux.HandleFunc("POST "+verbTaken, admin.Verb(r.loginTaken))
	mux.HandleFunc("POST "+verbFinish, admin.Verb(r.finishLogin))
	return mux
}

// adminTime bounds one verb.
const adminTime = 2 * time.Minute

func (r *running) whereLogin(req *http.Request, _ struct{}) (*loginPlace, error) {
	l, _, err := r.loginAt(req.PathValue("server"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(req.Context(), adminTime)
	defer cancel()
	port, err := l.StoredPort(ctx)
	o := &l.Server.Settings
	return &loginPlace{o.RedirectPort, o.RedirectHost, o.RedirectURI, o.Timeout, port}, err
}

func (r *running) startLogin(req *http.Request, in loginStart) (*loginURL, error) {
	l, rs, err := r.loginAt(req.PathValue("server"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(req.Context(), adminTime)
	defer cancel()
	status, h, err := rs.Unauthorized(ctx, r.egress)
	if err != nil {
		return nil, err
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		l.Challenge = oauth.ParseChallenge(status, h)
	}
	l.Redirect, l.Fresh, l.Flow = in.RedirectURI, in.Fresh, oauth.FlowBrowser
	if !oauth.LoopbackURI(in.RedirectURI) && in.RedirectURI != l.Server.Settings.RedirectURI {
		return nil, fmt.Errorf("redirect_uri: neither on the machine that asks nor what oauth.redirect_uri says")
	}
	pending, err := l.Start(ctx)
	if err != nil {
		return nil, err
	}
	r.log.Info("login begun over the admin socket", "server", l.Server.Name)
	return &loginURL{pending.URL()}, r.keepPending(pending)
}

func (r *running) finishLogin(req *http.Request, in loginAnswer) (*loginDone, error) {
	pending, err := oauth.ReadPending(r.pendingDir(), in.Answer)
	if err != nil {
		return nil, err
	}
	l, _, err := r.loginAt(pending.Server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(req.Context(), adminTime)
	defer cancel()
	if err := l.Finish(ctx, pending, in.Answer); err != nil {
		return nil, err
	}
	r.log.Info("logged in over the admin socket", "server", l.Server.Name)
	r.loops.Go(func() { r.takeUp(l.Server.Name) })
	return &loginDone{l.Server.Name, l.Result}, nil
}

// loginTaken is told that there are other credentials.
func (r *running) loginTaken(req *http.Request, _ struct{}) (*struct{}, error) {
	name := req.PathValue("server")
	r.loops.Go(func() { r.takeUp(name) })
	return &struct{}{}, nil
}

// takeUp connects with other credentials, sooner than the server would be looked at.
func (r *running) takeUp(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.wake(ctx, name); err != nil {
		r.log.Debug("not connected after a login", "server", name, "err", err)
	}
}

// loginAt is a login at a server of the running configuration.
func (a *app) loginAt(name string) (*oauth.Login, *upstream.Resolved, error) {
	s := find(a.cfg, name)
	switch {
	case s == nil || off(s.Settings.Enabled):
		return nil, nil, fmt.Errorf("the sidecar has no server %q", name)
	case s.Err != nil:
		return nil, nil, s.Err
	case s.Settings.Auth != "oauth":
		return nil, nil, fmt.Errorf("server %q has no auth: oauth, so there is no login", name)
	case !personal(s):
		return nil, nil, fmt.Errorf("server %q gets its tokens by oauth.grant: %s, so nobody logs in", name, s.Settings.OAuth.Grant)
	}
	r, err := s.Settings.Resolve(name, defaultProfile, a.cfg.Vars(name, defaultProfile), a.environ)
	if err == nil {
		err = r.Leaves(a.egress, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	v, err := a.vault(defaultProfile)
	if err != nil {
		return nil, nil, err
	}
	return &oauth.Login{Server: a.authorized(r), Vault: v}, r, nil
}

func find(cfg *config.Config, name string) *config.Server {
	for i := range cfg.Servers {
		if cfg.Servers[i].Name == name {
			return &cfg.Servers[i]
		}
	}
	return nil
}

// sockets are the admin sockets of a state directory, or the one that path is.
func sockets(path string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []string{path}, nil
	}
	all, err := filepath.Glob(filepath.Join(path, "*"+adminName))
	return slices.DeleteFunc(all, func(s string) bool { return !answers(s) }), err
}

// answers reports whether somebody listens on a socket. One that a sidecar left behind
// is removed.
func answers(path string) bool {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return true
	}
	_ = removeStale(path)
	return false
}

// tellTaken lets sidecars that run know of a login. They would find it by themselves,
// a little later.
func (p *program) tellTaken(ctx context.Context, cfg *config.Config, name string) {
	if cfg.StateDir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	found, _ := sockets(socketDir(cfg.StateDir))
	for _, path := range found {
		_ = admin.NewClient(path).Do(ctx, http.MethodPost, verb(verbTaken, name), nil, nil)
	}
}
