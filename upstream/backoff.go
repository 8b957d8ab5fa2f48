package upstream

import (
	"math/rand/v2"
	"time"
)

// The pauses between attempts to connect.
const (
	firstPause  = time.Second
	longestWait = 60 * time.Second
	probeEvery  = 300 * time.Second // for what only a person can mend
)

// backoff grows from one second, doubling, to a minute, for ever. Its jitter of
// a fifth keeps many servers of one outage from coming back at one moment.
type backoff struct{ tries int }

// next returns the pause before the next attempt after err.
func (b *backoff) next(err error) time.Duration {
	b.tries++
	if k := KindOf(err); k == Unauthorized || k == Config {
		return jitter(probeEvery)
	}
	return jitter(min(firstPause<<min(b.tries-1, 10), longestWait))
}

func (b *backoff) reset() { b.tries = 0 }

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
