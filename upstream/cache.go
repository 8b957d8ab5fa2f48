package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of the cache.
const (
	cacheVersion  = 1
	maxCacheFile  = 128 << 20 // bytes; a longer file counts as absent
	maxCacheFiles = 500       // the oldest make room
	cacheSuffix   = ".lists.json"
)

// A Cache keeps on disk what servers listed last, unfiltered, so that one that
// starts with its first call is known before. Entries are told apart by what is
// started or dialled, and by era; credentials are neither in the key nor in the
// file. A file that cannot be read, or is damaged, counts as absent, and the log says
// so. A nil Cache is empty and keeps nothing.
type Cache struct {
	// Dir is made when something is first stored.
	Dir string
	// Log hears of what could not be stored or read. If nil, it is discarded.
	Log *slog.Logger

	mu sync.Mutex // one writer
}

// A cached is one file. Its lists are the servers' own bytes.
type cached struct {
	Version   int
	Server    string
	Era       Era
	Written   time.Time
	TTL       time.Duration `json:",omitempty"`
	Info      Info
	Tools     [][]byte
	Prompts   [][]byte
	Resources [][]byte
	Templates [][]byte
}

// cacheKey is the name of a server's file, without the era.
func (s *server) cacheKey() string {
	c := s.settings
	h := sha256.New()
	for _, part := range slices.Concat([]string{s.name, c.Builtin, c.Command, c.Cwd, c.URL, c.Transport, c.Protocol}, c.Args) {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

func (c *Cache) file(s *server, e Era) string {
	era := "legacy"
	if e == Modern {
		era = "modern"
	}
	return filepath.Join(c.Dir, s.cacheKey()+"."+era+cacheSuffix)
}

// load returns what a server listed in the era that it was last met in; nil when
// that is not known, or too old by the server's own word.
func (c *Cache) load(s *server) *Listing {
	if c == nil {
		return nil
	}
	var best *cached
	for _, e := range []Era{Legacy, Modern} {
		p := s.settings.protocol()
		if e == Legacy && p == ModernOnly || e == Modern && p == LegacyOnly {
			continue
		}
		path := c.file(s, e)
		got, err := readCached(path)
		if err == nil && (got.Server != s.name || got.Era != e) {
			err = errOtherCache
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			c.warn("kept lists of a server cannot be used, so it starts at once", "server", s.name, "path", path, "err", bareCause(err))
		case best == nil || got.Written.After(best.Written):
			best = got
		}
	}
	if best == nil || best.TTL > 0 && time.Since(best.Written) >= best.TTL || best.empty() {
		return nil
	}
	return best.listing()
}

// empty lists have nothing by which a call could ever start the server.
func (k *cached) empty() bool {
	return len(k.Tools)+len(k.Prompts)+len(k.Resources)+len(k.Templates) == 0
}

var (
	errOtherCache  = errors.New("it is of another server or era")
	errCacheKind   = errors.New("it is no regular file")
	errCacheSize   = fmt.Errorf("it is longer than %d bytes", maxCacheFile)
	errCacheOthers = errors.New("others may write to it")
	errCacheText   = errors.New("it is damaged")
)

// readCached returns an error for what is no sound file of this version, and
// fs.ErrNotExist also for one of another version, which is none of ours.
func readCached(path string) (*cached, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nofollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errCacheKind
	case info.Size() > maxCacheFile:
		return nil, errCacheSize
	case !ownFile(info):
		return nil, errCacheOthers
	}
	b, err := io.ReadAll(io.LimitReader(f, maxCacheFile+1))
	if err != nil {
		return nil, err
	}
	return parseCached(b)
}

func parseCached(b []byte) (*cached, error) {
	var got cached
	switch err := json.Unmarshal(b, &got); {
	case len(b) > maxCacheFile:
		return nil, errCacheSize
	case err != nil:
		return nil, errCacheText // the cause would quote what servers sent
	case got.Version != cacheVersion:
		return nil, fs.ErrNotExist
	}
	for _, list := range [][][]byte{got.Tools, got.Prompts, got.Resources, got.Templates} {
		if len(list) > maxEntries || slices.ContainsFunc(list, func(v []byte) bool { return !json.Valid(v) }) {
			return nil, errCacheText
		}
	}
	return &got, nil
}

func (k *cached) listing() *Listing {
	return &Listing{Info: k.Info, TTL: k.TTL, Tools: raws(k.Tools), Prompts: raws(k.Prompts), Resources: raws(k.Resources), Templates: raws(k.Templates)}
}

func raws(in [][]byte) []json.RawMessage {
	out := make([]json.RawMessage, len(in))
	for i, b := range in {
		out[i] = b
	}
	return out
}

func plainBytes(in []json.RawMessage) [][]byte {
	out := make([][]byte, len(in))
	for i, b := range in {
		out[i] = b
	}
	return out
}

// store keeps a listing of a server that starts with its first call. It is whole or
// not there at all, also after a crash.
func (c *Cache) store(s *server, l *Listing) {
	if c == nil || !s.settings.remembered() {
		return
	}
	k := cached{
		Version: cacheVersion, Server: s.name, Era: l.Info.Era, Written: time.Now(), TTL: l.TTL, Info: l.Info,
		Tools: plainBytes(l.Tools), Prompts: plainBytes(l.Prompts), Resources: plainBytes(l.Resources), Templates: plainBytes(l.Templates),
	}
	k.Info.PID = 0
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.write(c.file(s, l.Info.Era), &k); err != nil {
		c.warn("what a server lists was not kept, so it starts at once next time", "server", s.name, "err", err)
	}
}

func (c *Cache) warn(msg string, facts ...any) {
	if c.Log != nil {
		c.Log.Warn(msg, facts...)
	}
}

func (c *Cache) write(path string, k *cached) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if len(b) > maxCacheFile {
		return fmt.Errorf("its lists take more than %d bytes", maxCacheFile)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		c.prune()
	}
	f, err := os.CreateTemp(c.Dir, ".lists-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// prune makes room for one more file.
func (c *Cache) prune() {
	entries, err := os.ReadDir(c.Dir)
	if err != nil || len(entries) < maxCacheFiles {
		return
	}
	type aged struct {
		name string
		at   time.Time
	}
	var files []aged
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), cacheSuffix) {
			files = append(files, aged{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b aged) int { return a.at.Compare(b.at) })
	for _, f := range files[:max(0, len(files)-maxCacheFiles+1)] {
		os.Remove(filepath.Join(c.Dir, f.name))
	}
}
