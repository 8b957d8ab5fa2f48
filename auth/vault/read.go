package vault

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"
)

// A kept is what one directory has of a server.
type kept struct {
	state   state
	updated time.Time
	entry   *Entry // of sound
}

type state int

const (
	absent state = iota
	sound
	deleted // marked so
	damaged
	newer // of a later version of this program
)

// current returns what counts of what Dir and Seed have.
func (v *Vault) current(server string) (kept, error) {
	if err := errors.Join(checkName(server), v.checkKey()); err != nil {
		return kept{}, err
	}
	own := kept{}
	there, err := v.checkDir()
	if err == nil && there {
		own, err = v.read(v.Dir, server)
	}
	if err != nil {
		return kept{}, err
	}
	if own.state == newer { // the seed's tokens may be those that it was refreshed with
		return own, nil
	}
	seed, err := v.readSeed(server)
	settled := own.state == sound || own.state == deleted
	switch {
	case settled && (err != nil || seed.state != sound || !seed.updated.After(own.updated)):
		return own, nil
	case err != nil:
		return kept{}, err
	case seed.state == absent:
		return own, nil
	}
	return seed, nil
}

// readSeed returns what Seed has.
func (v *Vault) readSeed(server string) (kept, error) {
	if v.Seed == "" {
		return kept{}, nil
	}
	path := filepath.Join(v.Seed, fileName(server))
	b, _, err := readForeign(path)
	return v.weigh(path, server, b, err)
}

// read returns what dir, which is ours, has.
func (v *Vault) read(dir, server string) (kept, error) {
	path := filepath.Join(dir, fileName(server))
	b, err := v.readOwn(path)
	return v.weigh(path, server, b, err)
}

// weigh tells what was read. Also with ErrKey it says when that was saved.
func (v *Vault) weigh(path, server string, b []byte, err error) (kept, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return kept{}, nil
	case errors.Is(err, errUnfit):
		return v.damage(path, server, []string{everything}), nil
	case err != nil:
		return kept{}, err
	}
	f, bad := decodeFile(b)
	if bad == nil && f.Version > version {
		v.warn("credentials were saved by a newer version of this program and count as absent", "server", server, "path", path)
		return kept{state: newer}, nil
	}
	if bad == nil && f.Server != server {
		bad = []string{"server"}
	}
	if bad != nil {
		return v.damage(path, server, bad), nil
	}
	if f.Deleted {
		return kept{state: deleted, updated: f.Updated}, nil
	}
	return v.open(path, f)
}

// open returns the entry in a file.
func (v *Vault) open(path string, f file) (kept, error) {
	plain := []byte(f.Entry)
	if f.Sealed != nil {
		if v.Key == nil || f.Key != keyID(v.Key) {
			return kept{updated: f.Updated}, &keyError{path}
		}
		var ok bool
		if plain, ok = unseal(v.Key, fileName(f.Server), f.Sealed); !ok {
			return v.damage(path, f.Server, []string{"sealed"}), nil
		}
	}
	e, bad := decodeEntry(plain)
	if bad == nil && e.Server != f.Server {
		bad = []string{"entry.server"}
	}
	if bad != nil {
		return v.damage(path, f.Server, bad), nil
	}
	e.Updated = f.Updated
	return kept{state: sound, updated: f.Updated, entry: e}, nil
}

func (v *Vault) damage(path, server string, fields []string) kept {
	v.warn("credentials are damaged and count as absent", "server", server, "path", path, "fields", fields)
	return kept{state: damaged}
}

// A keyError is ErrKey with the file that it is about.
type keyError struct{ path string }

func (e *keyError) Error() string { return e.path + ": " + ErrKey.Error() }
func (e *keyError) Unwrap() error { return ErrKey }

// serversIn adds the servers that a directory has files of. Those whose files'
// names hold only a digest are named in the file.
func serversIn(dir string, into map[string]bool) error {
	names, err := list(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		server, ok := serverOf(name)
		if !ok && filepath.Ext(name) == fileSuffix {
			b, _, err := readForeign(filepath.Join(dir, name))
			f, bad := decodeFile(b)
			server, ok = f.Server, err == nil && bad == nil && checkName(f.Server) == nil && fileName(f.Server) == name
		}
		if ok {
			into[server] = true
		}
	}
	return nil
}
