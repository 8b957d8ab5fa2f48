package egress

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/elazarl/goproxy"
)

func answer(r *http.Request, status int, text string) *http.Response {
	return goproxy.NewResponse(r, "text/plain; charset=utf-8", status, text+"\n")
}

func unknown(r *http.Request) *http.Response {
	resp := answer(r, http.StatusProxyAuthRequired, "mcp-sidecar: the credentials of this proxy are missing or no longer valid")
	resp.Header.Set("Proxy-Authenticate", `Basic realm="mcp-sidecar"`)
	return resp
}

func statusOf(err error) int {
	var refused *refusedError
	switch {
	case errors.As(err, &refused), errors.Is(err, errForeign):
		return http.StatusForbidden
	case errors.Is(err, errBusy), errors.Is(err, errEnded), unplaced(err):
		return http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// unplaced reports whether a connection got no place.
func unplaced(err error) bool { return errors.Is(err, errCrowded) || errors.Is(err, errFull) }

// quiet drops the lines of libraries: they quote what children write.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// ChildCounts count the connections and plain requests of one server's children.
type ChildCounts struct{ Allowed, Refused, Failed uint64 }

const (
	// maxTold is how many lines about one server are logged in a minute.
	maxTold   = 20
	tellEvery = time.Minute
)

// A counter counts for one server, and bounds what is logged about it.
type counter struct {
	mu     sync.Mutex
	counts ChildCounts
	since  time.Time
	told   int
	untold int
}

// Counts returns what the children of a server have done so far.
func (c *Children) Counts(server string) ChildCounts {
	c.mu.Lock()
	n := c.counts[server]
	c.mu.Unlock()
	if n == nil {
		return ChildCounts{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts
}

// note counts an attempt, and logs it unless it went well.
func (c *child) note(ctx context.Context, err error) {
	tell, untold := c.count.note(err, time.Now())
	if !tell {
		return
	}
	attrs := []slog.Attr{slog.String("server", c.server)}
	if untold > 0 {
		attrs = append(attrs, slog.Int("not_logged", untold))
	}
	level, msg := slog.LevelWarn, "egress of a child refused"
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		attrs = append(attrs, slog.String("host", refused.host), slog.String("port", refused.port), slog.String("reason", string(refused.why)))
	case isRefusal(err):
		attrs = append(attrs, slog.String("reason", err.Error()))
	default:
		level, msg = slog.LevelInfo, "egress of a child failed"
		attrs = append(attrs, slog.Any("err", err))
	}
	c.owner.log.LogAttrs(ctx, level, msg, attrs...)
}

// isRefusal reports whether it was we who did not let it.
func isRefusal(err error) bool {
	var refused *refusedError
	return errors.As(err, &refused) || errors.Is(err, errForeign) || unplaced(err)
}

// note reports whether to log, and how many before were not logged.
func (n *counter) note(err error, now time.Time) (tell bool, untold int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err == nil:
		n.counts.Allowed++
		return false, 0
	case isRefusal(err):
		n.counts.Refused++
	default:
		n.counts.Failed++
	}
	if now.Sub(n.since) >= tellEvery {
		n.since, n.told = now, 0
	}
	if n.told >= maxTold {
		n.untold++
		return false, 0
	}
	n.told++
	untold, n.untold = n.untold, 0
	return true, untold
}
