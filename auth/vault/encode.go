package vault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	version = 1
	maxFile = 1 << 20 // bytes
)

// A file is what is on disk. Server and Updated can be read without the key.
type file struct {
	Version int             `json:"version"`
	Server  string          `json:"server"`
	Updated time.Time       `json:"updated"`
	Deleted bool            `json:"deleted,omitempty"` // hides the seed's
	Entry   json.RawMessage `json:"entry,omitempty"`   // or, with a key:
	Key     string          `json:"key,omitempty"`     // which key that is
	Sealed  []byte          `json:"sealed,omitempty"`
}

func (v *Vault) encode(e *Entry, now time.Time) ([]byte, error) {
	if bad := e.bad(); bad != nil {
		return nil, fmt.Errorf("what cannot be kept as text or time: %s", strings.Join(bad, ", "))
	}
	entry, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("what cannot be kept: %T", err) // the text may quote what is kept
	}
	f := file{Version: version, Server: e.Server, Updated: now, Entry: entry}
	if v.Key != nil {
		f.Entry, f.Key, f.Sealed = nil, keyID(v.Key), seal(v.Key, fileName(e.Server), entry)
	}
	b, err := json.Marshal(f)
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("they take more than %d bytes", maxFile)
	}
	return b, err
}

// decodeFile returns the names of the fields that are wrong. Only the version
// counts when that is newer than ours.
func decodeFile(b []byte) (f file, bad []string) {
	switch bad = members(b, field{"version", &f.Version}); {
	case bad == nil && f.Version > version:
		return f, nil
	case bad == nil && f.Version != version:
		bad = []string{"version"}
	case bad != nil && bad[0] == everything:
		return f, bad
	}
	return f, append(bad, members(b, field{"server", &f.Server}, field{"updated", &f.Updated}, field{"deleted", &f.Deleted},
		field{"entry", &f.Entry}, field{"key", &f.Key}, field{"sealed", &f.Sealed})...)
}

// decodeEntry returns the names of the fields that are wrong.
func decodeEntry(b []byte) (e *Entry, bad []string) {
	e = &Entry{}
	var client json.RawMessage
	bad = members(b, field{"server", &e.Server}, field{"url", &e.URL}, field{"issuer", &e.Issuer}, field{"access", &e.Access},
		field{"type", &e.Type}, field{"refresh", &e.Refresh}, field{"scope", &e.Scope}, field{"expiry", &e.Expiry},
		field{"client", &client}, field{"provider", &e.Provider}, field{"refused_document", &e.RefusedDocument})
	if client != nil {
		c := &Client{}
		for _, name := range members(client, field{"id", &c.ID}, field{"secret", &c.Secret}, field{"auth_method", &c.AuthMethod},
			field{"secret_expires", &c.SecretExpires}, field{"redirect_uris", &c.RedirectURIs}, field{"kind", &c.Kind}, field{"issuer", &c.Issuer}) {
			bad = append(bad, "client."+name)
		}
		e.Client = c
	}
	return e, slices.Compact(slices.Sorted(slices.Values(append(bad, e.bad()...))))
}

// everything stands for a text that is no JSON object.
const everything = "everything"

type field struct {
	name string
	into any
}

// members reads members of a JSON object, and returns the names of those that are
// of another kind. What is missing or null stays as it is. The errors of the JSON
// package are not passed on: they quote.
func members(b []byte, fields ...field) (bad []string) {
	var all map[string]json.RawMessage
	if !utf8.Valid(b) || json.Unmarshal(b, &all) != nil || all == nil {
		return []string{everything}
	}
	for _, f := range fields {
		raw, ok := all[f.name]
		if ok && !bytes.Equal(raw, []byte("null")) && json.Unmarshal(raw, f.into) != nil {
			bad = append(bad, f.name)
		}
	}
	return bad
}

// bad returns the names of the fields that cannot be kept, or sent.
func (e *Entry) bad() (names []string) {
	check := func(ok bool, name string) {
		if !ok {
			names = append(names, name)
		}
	}
	check(plain(e.URL), "url")
	check(plain(e.Issuer), "issuer")
	check(plain(e.Access), "access")
	check(plain(e.Type), "type")
	check(plain(e.Refresh), "refresh")
	check(plain(e.Scope), "scope")
	check(keepable(e.Expiry), "expiry")
	check(e.Provider == nil || json.Valid(e.Provider), "provider")
	if c := e.Client; c != nil {
		check(plain(c.ID) && c.ID != "", "client.id")
		check(plain(c.Secret), "client.secret")
		check(plain(c.AuthMethod), "client.auth_method")
		check(keepable(c.SecretExpires), "client.secret_expires")
		check(!slices.ContainsFunc(c.RedirectURIs, func(s string) bool { return !plain(s) }), "client.redirect_uris")
		check(plain(c.Kind), "client.kind")
		check(plain(c.Issuer), "client.issuer")
	}
	return names
}

// plain text has nothing that would end a line of a header.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// keepable times can be written as RFC 3339 has them.
func keepable(t time.Time) bool {
	_, err := t.MarshalText()
	return err == nil
}
