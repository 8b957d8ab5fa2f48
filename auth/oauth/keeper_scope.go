package oauth

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const insufficientScope = "insufficient_scope"

// A step is how often a server wanted the same scopes again.
type step struct {
	seen []string // the credentials that it found wanting
	last time.Time
}

const (
	// maxSteps is how many logins one set of scopes is worth.
	maxSteps = 3
	// stepMemory is how long attempts belong together.
	stepMemory = time.Hour
	// maxStepSets bounds how many sets of scopes are remembered.
	maxStepSets = 32
)

// stepUp answers a server that wants more scopes than a token has: together with
// those that it has, lest a login lose them.
func (k *Keeper) stepUp(ctx context.Context, h *held, used string, c Challenge) (bool, error) {
	named := strings.Fields(c.Scope)
	slices.Sort(named)
	enough := k.tried(strings.Join(named, " "), used, h.grant)
	c.Scope = union(h.scope(), c.Scope)
	if enough {
		l := h.login(fmt.Sprintf("the server still wants more after %d attempts with scope %q", maxSteps, redact(c.Scope, nil)), c)
		l.Permanent, l.Command = true, ""
		return false, l
	}
	if !h.grant {
		return false, h.login(fmt.Sprintf("it wants scope %q", redact(c.Scope, nil)), c)
	}
	k.mu.Lock()
	k.widened = c.Scope
	k.mu.Unlock()
	return k.force(ctx, used, c)
}

// tried counts the credentials that were too weak for a set of scopes. It returns
// true when enough have been tried. Credentials are told apart by who wrote them: a
// refresh of ours grants no more than before, so it is no attempt.
func (k *Keeper) tried(scope, used string, grant bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, with := time.Now(), fmt.Sprint(k.foreign)
	if grant {
		with = used
	}
	s := k.steps[scope]
	if s == nil {
		if len(k.steps) >= maxStepSets {
			clear(k.steps)
		}
		s = &step{}
		k.steps[scope] = s
	}
	if now.Sub(s.last) > stepMemory && len(s.seen) <= maxSteps {
		s.seen = nil
	}
	s.add(with)
	s.last = now
	return len(s.seen) > maxSteps
}

func (s *step) add(with string) {
	if len(s.seen) <= maxSteps && !slices.Contains(s.seen, with) {
		s.seen = append(s.seen, with)
	}
}

// maxScopes bounds how many scopes one login asks for.
const maxScopes = 200

// union keeps the order, and every scope once.
func union(a, b string) string {
	var all []string
	for _, s := range strings.Fields(a + " " + b) {
		if len(all) < maxScopes && visible(s) && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return strings.Join(all, " ")
}
