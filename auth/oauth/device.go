package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	grantDevice     = "urn:ietf:params:oauth:grant-type:device_code"
	defaultInterval = 5 * time.Second
	maxInterval     = 5 * time.Minute
	slowerBy        = 5 * time.Second
	maxUserCode     = 100
)

// A deviceAnswer is what the device authorization endpoint says (RFC 8628,
// section 3.2). The code is secret.
type deviceAnswer struct {
	Code     string          `json:"device_code"`
	UserCode string          `json:"user_code"`
	URI      string          `json:"verification_uri"`
	URL      string          `json:"verification_url"` // what some say instead, from a draft
	Complete string          `json:"verification_uri_complete"`
	Expires  json.RawMessage `json:"expires_in"`
	Interval json.RawMessage `json:"interval"`
}

// device is the login for machines without a browser.
func (l *Login) device(ctx context.Context) error {
	old, err := l.stored(ctx)
	if err != nil {
		return err
	}
	p, err := l.discover(ctx)
	if err != nil {
		return err
	}
	if err := l.offersDevice(p); err != nil {
		return err
	}
	c, err := l.identify(ctx, p, old, "", []string{grantDevice, "refresh_token"})
	if err != nil {
		return err
	}
	scope := l.scope(p, old)
	t, err := l.deviceToken(ctx, p, c, scope)
	if err != nil {
		return l.refused(ctx, p, c, err)
	}
	return l.keep(ctx, p, c, scope, t)
}

func (l *Login) offersDevice(p *Provider) error {
	grants := p.Meta.GrantTypesSupported
	if p.Meta.DeviceAuthorizationEndpoint == "" || len(grants) > 0 && !slices.Contains(grants, grantDevice) {
		return l.errorf("%q offers no device flow; log in with --flow browser", p.Issuer)
	}
	return nil
}

// deviceToken has the person approve elsewhere, and waits for that.
func (l *Login) deviceToken(ctx context.Context, p *Provider, c *Client, scope string) (*Token, error) {
	ctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	began := time.Now()
	a, err := l.askDevice(ctx, p, c, scope)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithDeadline(ctx, began.Add(a.life(l.patience())))
	defer stop()
	if err := l.showDevice(a, time.Until(began.Add(a.life(l.patience())))); err != nil {
		return nil, err
	}
	return l.poll(ctx, a.interval(), func() (*Token, error) {
		return askToken(ctx, l.Server, p, c, url.Values{"grant_type": {grantDevice}, "device_code": {a.Code}})
	})
}

func (l *Login) patience() time.Duration {
	if l.Server.Settings.Timeout > 0 {
		return l.Server.Settings.Timeout
	}
	return defaultPatience
}

func (l *Login) askDevice(ctx context.Context, p *Provider, c *Client, scope string) (*deviceAnswer, error) {
	form := url.Values{"resource": {resourceOf(l.Server, p)}}
	setScope(form, scope)
	raw, err := l.postDevice(ctx, p, c, form)
	if err != nil {
		return nil, err
	}
	a := &deviceAnswer{}
	if err := decode(raw, a); err != nil || a.Code == "" || a.UserCode == "" {
		return nil, l.errorf("the device authorization endpoint of %q gave no device code", p.Issuer)
	}
	if a.URI == "" {
		a.URI = a.URL
	}
	return a, nil
}

// postDevice asks as at the token endpoint (RFC 8628, section 3.1).
func (l *Login) postDevice(ctx context.Context, p *Provider, c *Client, form url.Values) ([]byte, error) {
	to, err := l.Server.Endpoint(p.Meta.DeviceAuthorizationEndpoint)
	if err != nil {
		return nil, l.errorf("the device authorization endpoint of %q %w", p.Issuer, err)
	}
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if err := authenticate(l.Server, p, c, form, h); err != nil {
		return nil, l.errorf("%w", err)
	}
	if ua := l.Server.Settings.UserAgent; ua != "" {
		h.Set("User-Agent", ua)
	}
	a, err := post(ctx, l.Server.HTTP, to, form, h)
	if err != nil {
		return nil, l.errorf("device authorization endpoint of %q: %w", p.Issuer, quiet(err, secretsOf(form, c, h)))
	}
	if a.status/100 == 2 {
		return a.body, nil
	}
	_, fault := a.token(time.Now())
	fault.Server, fault.Origin = l.Server.Name, originOf(to)
	fault.clean(secretsOf(form, c, h))
	return nil, fmt.Errorf("device authorization: %w", fault)
}

// showDevice prints where to go and what to type.
func (l *Login) showDevice(a *deviceAnswer, life time.Duration) error {
	visit, err := browsable(a.URI)
	if err != nil {
		return l.errorf("the device authorization endpoint's verification_uri: %w", err)
	}
	if l.Out == nil {
		return nil
	}
	fmt.Fprintf(l.Out, "To log in to %s, visit on any device:\n\n  %s\n\nand enter the code:\n\n  %s\n\n",
		l.Server.Name, visit, graphic(a.UserCode, maxUserCode))
	if whole, err := browsable(a.Complete); err == nil {
		fmt.Fprintf(l.Out, "Or visit this, where the code is filled in:\n\n  %s\n\n", whole)
	}
	fmt.Fprintf(l.Out, "Waiting for the approval, up to %s.\n", life.Round(time.Second))
	return nil
}

// poll asks for the token at the provider's pace (RFC 8628, section 3.5).
func (l *Login) poll(ctx context.Context, every time.Duration, ask func() (*Token, error)) (*Token, error) {
	for {
		if err := pause(ctx, every); err != nil {
			return nil, l.deviceEnd(err)
		}
		t, err := ask()
		if err == nil {
			return t, nil
		}
		if ctx.Err() != nil {
			return nil, l.deviceEnd(ctx.Err())
		}
		slower, goOn := slacken(every, err)
		if !goOn {
			return nil, l.deviceEnd(err)
		}
		every = min(slower, maxInterval)
	}
}

// slacken is the interval after an error, if that is not the end.
func slacken(every time.Duration, err error) (time.Duration, bool) {
	var te *TokenError
	if errors.As(err, &te) {
		switch {
		case te.Code == "authorization_pending":
			return every, true
		case te.Code == "slow_down":
			return every + slowerBy, true
		}
		return 2 * every, te.Status >= 500 || te.Status == 429
	}
	var ne net.Error
	timedOut := errors.As(err, &ne) && ne.Timeout() || errors.Is(err, context.DeadlineExceeded)
	return 2 * every, timedOut
}

func (l *Login) deviceEnd(err error) error {
	var te *TokenError
	switch {
	case errors.As(err, &te) && te.Code == "access_denied":
		return l.errorf("the login was refused on the other device: %w", err)
	case errors.As(err, &te) && te.Code == "expired_token", errors.Is(err, context.DeadlineExceeded):
		return l.errorf("nobody approved in time; start anew (oauth.timeout is %s): %w", l.patience(), err)
	case errors.Is(err, context.Canceled):
		return l.errorf("%w", err)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// life is how long the code is good for, but never longer than patience.
func (a *deviceAnswer) life(patience time.Duration) time.Duration {
	if n := lenientSeconds(a.Expires); n > 0 {
		return min(n, patience)
	}
	return patience
}

func (a *deviceAnswer) interval() time.Duration {
	if n := lenientSeconds(a.Interval); n > 0 {
		return min(max(n, time.Second), maxInterval)
	}
	return defaultInterval
}

// lenientSeconds reads a number of seconds, also one in quotes or with a
// fraction; 0 when it is none, or absurd.
func lenientSeconds(raw json.RawMessage) time.Duration {
	var f float64
	if json.Unmarshal([]byte(strings.Trim(string(raw), `"`)), &f) != nil || f <= 0 || f > 1e9 {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}
