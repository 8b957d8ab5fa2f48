package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Limits of one walk over the pages of a list.
const (
	maxPages   = 1000
	maxEntries = 50_000
	maxListing = 64 << 20 // bytes of all pages of one kind
	maxCursor  = 64 << 10 // bytes of one cursor
)

// listed are the methods whose answers a walker reads. It takes them apart, and each
// entry is checked by itself: one that is nested too deep does not cost the others.
func listed(method string) bool {
	switch method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return true
	}
	return false
}

// A walker reads lists of one server to their end. A fault in one list keeps
// what was read, and never costs the others.
type walker struct {
	conn   conn
	server string
	scrub  func(string) string // takes secrets out of what servers say
	faults []string
	ttl    time.Duration // the shortest that a page of tools had; zero when none had
}

// walk reads everything that the server declares to have. An error means that
// the tools could not be read at all.
func walk(ctx context.Context, server string, c conn, scrub func(string) string) (*Listing, error) {
	w := walker{conn: c, server: server, scrub: scrub}
	l := &Listing{Info: *c.Info()}
	var err error
	if l.Info.Has("tools") || l.Info.Capabilities == nil {
		if l.Tools, err = w.list(ctx, "tools/list", "tools"); err != nil {
			return nil, err
		}
	}
	if l.Info.Has("prompts") {
		l.Prompts = w.optional(ctx, "prompts/list", "prompts")
	}
	if l.Info.Has("resources") {
		l.Resources = w.optional(ctx, "resources/list", "resources")
		l.Templates = w.optional(ctx, "resources/templates/list", "resourceTemplates")
	}
	l.Faults, l.TTL = w.faults, w.ttl
	return l, ctx.Err()
}

// optional reads a list whose failure is only reported.
func (w *walker) optional(ctx context.Context, method, member string) []json.RawMessage {
	out, err := w.list(ctx, method, member)
	if err != nil {
		w.fault(method, "%v", bareReason(err))
	}
	return out
}

// list follows nextCursor to the end. An empty cursor is a cursor; one that was
// already used would bring its page again and ends the walk. Entries that are
// followed by a failure on a later page are kept.
func (w *walker) list(ctx context.Context, method, member string) ([]json.RawMessage, error) {
	var out []json.RawMessage
	var cursor []byte
	size, used := 0, map[[sha256.Size]byte]bool{}
	for page := 1; ; page++ {
		result, err := w.page(ctx, method, cursor)
		if err != nil && page == 1 {
			return nil, err
		}
		if err != nil {
			w.fault(method, "page %d: %v", page, bareReason(err))
			return out, nil
		}
		w.keepFor(method, result)
		entries, _ := wire.Get(result, member)
		wire.Elements(entries, func(v []byte) bool {
			out = append(out, slices.Clone(v))
			return len(out) < maxEntries
		})
		size += len(result)
		next, ok := wire.Get(result, "nextCursor")
		if !ok || wire.Kindof(next) != '"' {
			return out, nil
		}
		sum := sha256.Sum256(next)
		if stop := stopped(len(out), size, page, len(next), used[sum]); stop != "" {
			w.fault(method, "%s", stop)
			return out, nil
		}
		used[sum] = true
		cursor = bytes.Clone(next)
	}
}

// maxTTL bounds what a server may say, in milliseconds.
const maxTTL = 365 * 24 * 3600 * 1000

// keepFor notes how long a page of tools is good. Zero is no hint, and no ban on
// keeping it either.
func (w *walker) keepFor(method string, result []byte) {
	raw, ok := wire.Get(result, "ttlMs")
	if ms, err := strconv.ParseUint(string(raw), 10, 63); ok && err == nil && method == "tools/list" && ms > 0 {
		ttl := time.Duration(min(ms, maxTTL)) * time.Millisecond
		if w.ttl == 0 || ttl < w.ttl {
			w.ttl = ttl
		}
	}
}

// stopped says which limit ends a walk, if any.
func stopped(entries, size, page, cursor int, again bool) string {
	switch {
	case cursor > maxCursor:
		return fmt.Sprintf("stopped: a cursor of %d bytes, at most %d are followed", cursor, maxCursor)
	case again:
		return "stopped: the server repeats a cursor"
	case entries >= maxEntries:
		return fmt.Sprintf("stopped at %d entries", maxEntries)
	case size >= maxListing:
		return fmt.Sprintf("stopped at %d bytes", maxListing)
	case page >= maxPages:
		return fmt.Sprintf("stopped at %d pages", maxPages)
	}
	return ""
}

func (w *walker) page(ctx context.Context, method string, cursor []byte) ([]byte, error) {
	c := Call{Method: method}
	if cursor != nil {
		c.Params = slices.Concat([]byte(`{"cursor":`), cursor, []byte("}"))
	}
	r, err := w.conn.Do(ctx, &c)
	if err != nil {
		return nil, err
	}
	if r.Error != nil {
		return nil, &Error{Server: w.server, Op: method, Kind: Protocol, Err: fmt.Errorf("answered with an error: %s", w.scrub(errorText(r.Error)))}
	}
	if wire.Kindof(r.Result) != '{' {
		return nil, &Error{Server: w.server, Op: method, Kind: Protocol, Err: fmt.Errorf("result is not an object")}
	}
	return r.Result, nil
}

func (w *walker) fault(method, format string, args ...any) {
	w.faults = append(w.faults, method+": "+fmt.Sprintf(format, args...))
}

// errorText returns the message of a raw JSON-RPC error, for people.
func errorText(object []byte) string {
	raw, _ := wire.Get(object, "message")
	text, _ := wire.Unquote(raw)
	code, _ := wire.Get(object, "code")
	return fmt.Sprintf("%.20s %.200q", code, text)
}

// same reports whether two listings offer the same.
func (l *Listing) same(o *Listing) bool {
	if l == nil || o == nil {
		return l == o
	}
	eq := func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }
	return bytes.Equal(l.Info.Capabilities, o.Info.Capabilities) &&
		l.Info.Instructions == o.Info.Instructions &&
		slices.EqualFunc(l.Tools, o.Tools, eq) && slices.EqualFunc(l.Prompts, o.Prompts, eq) &&
		slices.EqualFunc(l.Resources, o.Resources, eq) && slices.EqualFunc(l.Templates, o.Templates, eq)
}
