package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/admin"
	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/auth/oauth"
)

// remoteLogin has browser and listener here, and everything else in the sidecar whose
// admin socket was brought to this machine: no secret comes here but the code, which
// is worth nothing without what the sidecar keeps to itself.
func (p *program) remoteLogin(ctx context.Context, at, name string, f loginFlags) error {
	path, ok := strings.CutPrefix(at, "unix:")
	if !ok {
		return usage(fmt.Errorf("--remote %s: give unix:PATH, the sidecar's admin socket as it was forwarded to here", at))
	}
	found, err := sockets(path)
	switch {
	case err != nil:
		return fmt.Errorf("--remote: %w", err)
	case len(found) != 1:
		return usage(fmt.Errorf("--remote %s: there are %d admin sockets; name one", at, len(found)))
	}
	c := admin.NewClient(found[0])
	var place loginPlace
	if err := c.Do(ctx, http.MethodGet, verb(verbLogin, name), nil, &place); err != nil {
		return err
	}
	r := &oauth.Relay{
		Name: name, Port: place.Port, Out: p.stderr, In: p.stdin, Environ: p.env,
		Settings: auth.OAuth{RedirectPort: place.RedirectPort, RedirectHost: place.RedirectHost, RedirectURI: place.RedirectURI, Timeout: place.Timeout},
	}
	if !f.noBrowser {
		r.Open = oauth.OpenBrowser(p.env)
	}
	answer, err := r.Run(ctx, func(redirect string) (string, error) {
		var to loginURL
		err := c.Do(ctx, http.MethodPost, verb(verbStart, name), loginStart{redirect, f.fresh}, &to)
		return to.URL, err
	})
	if err != nil {
		return err
	}
	var done loginDone
	if err := c.Do(ctx, http.MethodPost, verbFinish, loginAnswer{answer}, &done); err != nil {
		return err
	}
	if done.Server != name {
		return errors.New("the sidecar finished another login")
	}
	p.tellLogin(name, &done.Result)
	return nil
}
