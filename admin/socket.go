package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	maxVerb   = 64 << 10 // bytes of a request
	maxAnswer = 1 << 20
)

// Socket returns the server of the admin socket, where verbs change something. Who
// may open the socket may use them all.
func Socket(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           http.MaxBytesHandler(h, maxVerb),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// Verb answers a request with what do makes of its JSON body, or with an error.
func Verb[In, Out any](do func(r *http.Request, in In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		dec := json.NewDecoder(r.Body)
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil && !errors.Is(err, io.EOF) {
			answer(w, http.StatusBadRequest, refusal{"the request is not understood: " + err.Error()})
			return
		}
		out, err := do(r, in)
		if err != nil {
			answer(w, http.StatusUnprocessableEntity, refusal{err.Error()})
			return
		}
		answer(w, http.StatusOK, out)
	}
}

type refusal struct {
	Error string `json:"error"`
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// A Client speaks to the admin socket of a sidecar.
type Client struct {
	path string
	http http.Client
}

// NewClient returns a client of the socket at a path. It dials nothing.
func NewClient(path string) *Client {
	return &Client{path: path, http: http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do sends in, and reads the answer into out. Both may be nil.
func (c *Client) Do(ctx context.Context, method, verb string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://sidecar"+verb, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err
		}
		return fmt.Errorf("sidecar at %s: %w", c.path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("sidecar at %s: its answer broke off: %w", c.path, err)
	case resp.StatusCode != http.StatusOK:
		return c.refused(resp.StatusCode, raw)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("sidecar at %s: its answer is not understood", c.path)
	}
	return nil
}

func (c *Client) refused(status int, raw []byte) error {
	var r refusal
	if json.Unmarshal(raw, &r) != nil || r.Error == "" {
		return fmt.Errorf("sidecar at %s: answered %d", c.path, status)
	}
	return errors.New(r.Error)
}
