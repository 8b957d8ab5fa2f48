package upstream

import (
	"math/rand/v2"
	"time"
)

// A backoff is the budget of one connection's attempts: pauses that double up to a
// bound, and then a probe now and then, for ever. Its jitter of a fifth keeps many
// servers of one outage from coming back at one moment. What is proven to work
// begins a new one.
type backoff struct {
	life  Lifecycle
	tries int
	lived bool // there was a connection
}

func newBackoff(l Lifecycle) *backoff { return &backoff{life: l} }

// connected is called with each connection.
func (b *backoff) connected() { b.lived = true }

// next returns the pause before the next attempt after err.
func (b *backoff) next(err error) time.Duration {
	b.tries++
	if b.parked() || hopelessKind(err) {
		return jitter(b.life.ProbeInterval)
	}
	return jitter(min(b.life.RetryPause<<min(b.tries-1, 20), b.life.RetryPauseMax))
}

// parked reports whether the attempts are used up.
func (b *backoff) parked() bool {
	most := b.life.ConnectRetries
	if b.lived {
		most = b.life.ReconnectRetries
	}
	return b.tries > max(most, 0)
}

// state is what a server is in after err.
func (b *backoff) state(err error) State {
	switch {
	case KindOf(err) == Unauthorized:
		return NeedsLogin
	case KindOf(err) == Config:
		return Failed
	case b.parked():
		return Parked
	}
	return Failed
}

func (b *backoff) reset() { b.tries = 0 }

// hopelessKind is true for what only a person can mend.
func hopelessKind(err error) bool {
	k := KindOf(err)
	return k == Unauthorized || k == Config
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
