// Package vault keeps OAuth credentials on disk: a directory for each profile, a
// file for each server.
//
// Files are 0600 in a directory 0700, and are replaced whole or not at all. What
// is not sound counts as absent, and the log names the fields and never what is in
// them. What belongs to somebody else, or is a symbolic link, is refused.
package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A Vault is the directory of one profile's credentials. Its methods may be
// called concurrently, and by several processes. Save and Delete replace a file
// and know of no order: who reads in order to write holds Lock meanwhile.
type Vault struct {
	// Dir is made, 0700, when something is first saved.
	Dir string
	// Seed, if set, is a directory that is only read: a mounted Kubernetes secret
	// with files as Save writes them. Of its entry of a server and the one in Dir,
	// the one that was saved last counts.
	Seed string
	// Key, if set, encrypts what is kept; 32 bytes. What was kept before without a
	// key is still read.
	Key []byte
	// Log may be nil.
	Log *slog.Logger
}

// An Entry is all that is kept for one server. However it is printed, that shows
// no secrets.
type Entry struct {
	Server string `json:"server"`
	URL    string `json:"url,omitempty"`
	// Issuer is whose the tokens are.
	Issuer  string    `json:"issuer,omitempty"`
	Access  string    `json:"access,omitempty"`
	Type    string    `json:"type,omitempty"`
	Refresh string    `json:"refresh,omitempty"`
	Scope   string    `json:"scope,omitempty"`
	Expiry  time.Time `json:"expiry,omitzero"` // of Access; zero: not known
	// Client is nil when none is known.
	Client *Client `json:"client,omitempty"`
	// Provider is the authorization server's metadata, as whoever keeps it wants it.
	Provider json.RawMessage `json:"provider,omitempty"`
	// RefusedDocument is true when the issuer refused the client id metadata document.
	RefusedDocument bool `json:"refused_document,omitempty"`
	// Updated is set by Load. Save writes the time of its own.
	Updated time.Time `json:"-"`
}

// A Client is who we are to one issuer.
type Client struct {
	ID            string    `json:"id"`
	Secret        string    `json:"secret,omitempty"`
	AuthMethod    string    `json:"auth_method,omitempty"`
	SecretExpires time.Time `json:"secret_expires,omitzero"`
	RedirectURIs  []string  `json:"redirect_uris,omitempty"`
	Kind          string    `json:"kind,omitempty"`
	Issuer        string    `json:"issuer,omitempty"`
}

var (
	// ErrKey says that a file is sealed with a key that we do not have. Such a file
	// is never changed, except by Delete.
	ErrKey = errors.New("sealed with a key that we do not have: give the key that it was saved with, or log out to drop it")
	// ErrRefused says that a file or directory is not one that we would have made.
	ErrRefused = errors.New("refused")
)

// Load returns what is kept for a server, and nil when that is nothing, or not
// sound. Whoever compares stamps takes the Stamp before.
func (v *Vault) Load(server string) (*Entry, error) {
	k, err := v.current(server)
	if err != nil {
		return nil, fmt.Errorf("credentials of %q: %w", server, err)
	}
	return k.entry, nil
}

// Save replaces what is kept for e's server. It does not keep e. After an error
// what was there before is still there.
func (v *Vault) Save(e *Entry) error {
	if err := v.save(e); err != nil {
		return fmt.Errorf("credentials of %q: not saved: %w", e.Server, err)
	}
	return nil
}

func (v *Vault) save(e *Entry) error {
	if err := errors.Join(checkName(e.Server), v.checkKey()); err != nil {
		return err
	}
	if err := v.makeDir(); err != nil {
		return err
	}
	own, err := v.read(v.Dir, e.Server)
	if err != nil {
		return err
	}
	b, err := v.encode(e, v.now(e.Server))
	if err != nil {
		return err
	}
	if own.state == newer {
		if err := v.keepNewer(e.Server); err != nil {
			return err
		}
	}
	return v.replace(fileName(e.Server), b)
}

// now is the time to save something under. It is after that of the seed's entry,
// whose clock may be ahead of ours: a refresh token that was spent must not be
// taken for the newer one.
func (v *Vault) now(server string) time.Time {
	now := time.Now().UTC().Round(0)
	seed, _ := v.quiet().readSeed(server)
	if !now.After(seed.updated) {
		now = seed.updated.Add(time.Nanosecond)
	}
	return now
}

// keepNewer puts a file of a later version of this program by, once.
func (v *Vault) keepNewer(server string) error {
	path := v.path(server)
	err := os.Link(path, path+backupSuffix)
	switch {
	case errors.Is(err, os.ErrExist):
		v.warn("credentials of a newer version are replaced; earlier ones are still kept", "server", server, "path", path+backupSuffix)
		return nil
	case err != nil:
		return fmt.Errorf("the file of a newer version cannot be put by, move it away: %w", err)
	}
	v.warn("credentials of a newer version are put by and replaced", "server", server, "path", path+backupSuffix)
	return nil
}

// Delete drops what is kept for a server, also when it cannot be read. The seed's
// entry is hidden until the seed has one that was saved later. The lock's file
// stays: somebody may be waiting for it.
func (v *Vault) Delete(server string) error {
	if err := v.remove(server); err != nil {
		return fmt.Errorf("credentials of %q: not deleted: %w", server, err)
	}
	return nil
}

func (v *Vault) remove(server string) error {
	if err := checkName(server); err != nil {
		return err
	}
	seed, err := v.quiet().readSeed(server)
	if seed.state != absent || err != nil {
		return v.bury(server)
	}
	if there, err := v.checkDir(); err != nil || !there {
		return err
	}
	v.sweep()
	for _, suffix := range []string{"", backupSuffix} {
		if err := os.Remove(v.path(server) + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return syncDir(v.Dir)
}

// bury leaves a mark in Dir that hides the seed's entry.
func (v *Vault) bury(server string) error {
	b, err := json.Marshal(file{Version: version, Server: server, Updated: v.now(server), Deleted: true})
	if err != nil {
		return err
	}
	if err := v.makeDir(); err != nil {
		return err
	}
	if err := os.Remove(v.path(server) + backupSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return v.replace(fileName(server), b)
}

// Names returns the servers that something is kept for, sorted, also what Load
// cannot read.
func (v *Vault) Names() ([]string, error) {
	there, err := v.checkDir()
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	if there {
		err = serversIn(v.Dir, names)
	}
	if v.Seed != "" && err == nil {
		err = serversIn(v.Seed, names)
	}
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	q := v.quiet()
	maps.DeleteFunc(names, func(server string, _ bool) bool {
		k, err := q.current(server)
		return err == nil && (k.state == absent || k.state == deleted)
	})
	return slices.Sorted(maps.Keys(names)), nil
}

// A Stamp tells apart what is kept for a server at two times. Stamps are
// compared with ==.
type Stamp struct{ own, seed mark }

type mark struct {
	mtime, size int64
	inode       uint64
}

// Stamp looks at the files and does not read them. It is zero when there are none.
func (v *Vault) Stamp(server string) Stamp {
	s := Stamp{own: markOf(os.Lstat(v.path(server)))}
	if v.Seed != "" {
		s.seed = markOf(os.Stat(filepath.Join(v.Seed, fileName(server)))) // Kubernetes mounts links
	}
	return s
}

func (v *Vault) path(server string) string { return filepath.Join(v.Dir, fileName(server)) }

// quiet is the vault without its log, for a second look at the same files.
func (v *Vault) quiet() *Vault {
	q := *v
	q.Log = nil
	return &q
}

func (v *Vault) warn(msg string, facts ...any) {
	if v.Log != nil {
		v.Log.Warn(msg, facts...)
	}
}
