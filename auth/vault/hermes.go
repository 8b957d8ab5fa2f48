package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// An Imported says what ImportHermes did for one server. It holds no secrets.
type Imported struct {
	Server string
	// Parts of what is in the vault now: tokens, client, document refusal. If
	// empty, nothing was.
	Parts []string
	// Skipped are reasons, each with what was not copied.
	Skipped []string
}

// importWait bounds the wait for each server's lock.
const importWait = 10 * time.Second

// ImportHermes copies from a Hermes mcp-tokens directory what that has of the named
// servers, and changes nothing there. What the vault has already stays. Hermes does
// not write down which URL its tokens are for, so Entry.URL is empty.
//
// Hermes goes on to use its files. Where the issuer gives a new refresh token with
// each use, only one of both keeps its login.
func ImportHermes(dir string, v *Vault, names []string) ([]Imported, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: no directory", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	shared := map[string][]string{}
	for _, name := range names {
		shared[hermesName(name)] = append(shared[hermesName(name)], name)
	}
	var all []Imported
	for _, name := range names {
		h := hermes{path: filepath.Join(dir, hermesName(name)), report: Imported{Server: name}}
		if same := shared[hermesName(name)]; len(same) > 1 {
			h.skip("everything", fmt.Sprintf("Hermes keeps %q in the same files, and they do not say whose they are: log in to each", same))
		} else if err := h.copy(v); err != nil {
			return append(all, h.report), fmt.Errorf("import: %w", err)
		}
		all = append(all, h.report)
	}
	return all, nil
}

// hermesName is the base of Hermes' file names for a server.
func hermesName(server string) string {
	mapped := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) {
			return r
		}
		return '_'
	}, server)
	runes := []rune(strings.Trim(mapped, "_"))
	if len(runes) == 0 {
		return "default"
	}
	return string(runes[:min(len(runes), 128)])
}

// A hermes is the import of one server.
type hermes struct {
	path   string // without suffixes
	report Imported
}

func (h *hermes) skip(what, why string) {
	h.report.Skipped = append(h.report.Skipped, what+": "+why)
}

// copy returns an error when the vault cannot be used at all.
func (h *hermes) copy(v *Vault) error {
	e := &Entry{Server: h.report.Server}
	var parts []string
	if h.tokens(e) {
		parts = append(parts, "tokens")
	}
	if h.client(e) {
		parts = append(parts, "client")
	}
	if _, err := os.Lstat(h.path + ".cimd-off"); err == nil {
		e.RefusedDocument = true
		parts = append(parts, "document refusal")
	}
	h.exactIssuer(e)
	if e.Access == "" && e.Refresh == "" && e.Client == nil {
		h.skip("everything", "there are no tokens and no client to copy")
		return nil
	}
	return h.save(v, e, parts)
}

func (h *hermes) save(v *Vault, e *Entry, parts []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), importWait)
	defer cancel()
	unlock, err := v.Lock(ctx, e.Server)
	if err != nil {
		return err
	}
	defer unlock()
	switch was, err := v.Load(e.Server); {
	case err != nil:
		h.skip("everything", err.Error())
		return nil
	case was != nil && (was.Access != "" || was.Refresh != ""):
		h.skip("everything", "there are credentials already: log out first to take those of Hermes")
		return nil
	}
	if err := v.Save(e); err != nil {
		return err
	}
	h.report.Parts = parts
	return nil
}

// read returns the fields of one file; ok is false when it is of no use, and the
// report says why.
func (h *hermes) read(suffix, what string, fields ...field) (info fs.FileInfo, ok bool) {
	b, info, err := readForeign(h.path + suffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		h.skip(what, "there is no "+filepath.Base(h.path)+suffix)
		return nil, false
	case err != nil:
		h.skip(what, err.Error())
		return nil, false
	}
	if bad := members(b, fields...); bad != nil {
		h.skip(what, "damaged: "+strings.Join(bad, ", "))
		return nil, false
	}
	return info, true
}

func (h *hermes) tokens(e *Entry) bool {
	got := Entry{Type: "Bearer"}
	var at, in seconds
	info, ok := h.read(fileSuffix, "tokens", field{"access_token", &got.Access}, field{"token_type", &got.Type}, field{"refresh_token", &got.Refresh},
		field{"scope", &got.Scope}, field{"hermes_issuer", &got.Issuer}, field{"expires_at", &at}, field{"expires_in", &in})
	if !ok {
		return false
	}
	bad := got.bad()
	if got.Access == "" {
		bad = append(bad, "access_token")
	}
	if bad != nil {
		h.skip("tokens", "damaged: "+strings.Join(bad, ", "))
		return false
	}
	e.Access, e.Type, e.Refresh, e.Scope, e.Issuer = got.Access, got.Type, got.Refresh, got.Scope, got.Issuer
	switch {
	case at > 0:
		e.Expiry = at.since(time.Unix(0, 0))
	case in > 0:
		e.Expiry = in.since(info.ModTime())
	}
	return true
}

func (h *hermes) client(e *Entry) bool {
	var c Client
	var expires seconds
	_, ok := h.read(".client.json", "client", field{"client_id", &c.ID}, field{"client_secret", &c.Secret}, field{"issuer", &c.Issuer},
		field{"client_secret_expires_at", &expires}, field{"token_endpoint_auth_method", &c.AuthMethod}, field{"redirect_uris", &c.RedirectURIs})
	if !ok {
		return false
	}
	if bad := (&Entry{Client: &c}).bad(); bad != nil {
		h.skip("client", "damaged: "+strings.Join(bad, ", "))
		return false
	}
	c.Kind = "registered"
	if strings.HasPrefix(c.ID, "https://") {
		c.Kind = "document"
	}
	if expires > 0 {
		c.SecretExpires = expires.since(time.Unix(0, 0))
	}
	if c.Issuer == "" {
		c.Issuer = e.Issuer
	}
	e.Client = &c
	return true
}

// exactIssuer writes the issuer as its own metadata does: Hermes cuts a slash at
// the end off, and issuers are compared byte by byte. Where Hermes noted none, that
// of the metadata is the one it used.
func (h *hermes) exactIssuer(e *Entry) {
	var exact string
	if _, ok := h.read(".meta.json", "metadata", field{"issuer", &exact}); !ok || exact == "" || !plain(exact) {
		return
	}
	h.skip("metadata", "it is found anew; only the issuer was taken")
	targets := []*string{&e.Issuer}
	if e.Client != nil {
		targets = append(targets, &e.Client.Issuer)
	}
	for _, t := range targets {
		if *t == "" || strings.TrimRight(*t, "/") == strings.TrimRight(exact, "/") {
			*t = exact
		}
	}
}

// seconds are a count of them, as a number or as text; 0 for what is none.
type seconds float64

// maxSeconds is a time that nobody means: the year 9000.
const maxSeconds = 221_845_392_000

// UnmarshalJSON takes every value: a bad time is no reason to drop a token.
func (s *seconds) UnmarshalJSON(b []byte) error {
	text := string(b)
	_ = json.Unmarshal(b, &text)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= maxSeconds) {
		n = 0
	}
	*s = seconds(n)
	return nil
}

func (s seconds) since(t time.Time) time.Time {
	whole := int64(s)
	return time.Unix(t.Unix()+whole, int64((float64(s)-float64(whole))*1e9)+int64(t.Nanosecond())).UTC()
}
