package upstream

import (
	"fmt"
	"time"
)

// Bounds of how a connection lives and is made again.
const (
	maxRetries     = 1000
	maxQueueCap    = 100_000
	maxFailures    = 1000
	minProbe       = time.Second
	leastPause     = 10 * time.Millisecond
	minInFlight    = 1 << 20
	longestCadence = 7 * 24 * time.Hour
)

// lifecycle checks the numbers of a connection's life, of its queue and breaker.
func (c *check) lifecycle() {
	s, l := c.s, &c.s.Lifecycle
	c.upTo("connect_retries", l.ConnectRetries, maxRetries, "lifecycle")
	c.upTo("reconnect_retries", l.ReconnectRetries, maxRetries, "lifecycle")
	c.lasts("retry_pause", l.RetryPause, leastPause, "lifecycle")
	c.lasts("retry_pause_max", l.RetryPauseMax, leastPause, "lifecycle")
	c.lasts("probe_interval", l.ProbeInterval, minProbe, "lifecycle")
	c.lasts("wake_wait", l.WakeWait, leastPause, "lifecycle")
	c.lasts("stop_grace", l.StopGrace, leastPause, "lifecycle")
	if l.RetryPauseMax > 0 && l.RetryPause > l.RetryPauseMax {
		c.bad("is more than retry_pause_max", "lifecycle", "retry_pause")
	}
	c.upTo("failures", s.Breaker.Failures, maxFailures, "breaker")
	c.lasts("open", s.Breaker.Open, minProbe, "breaker")
	c.lasts("probe_timeout", s.Breaker.ProbeTimeout, leastPause, "breaker")
	c.upTo("max_queue", s.MaxQueue, maxQueueCap)
	c.lasts("queue_wait", s.QueueWait, leastPause)
	c.lasts("keepalive_timeout", s.KeepaliveTimeout, leastPause)
	c.within("max_in_flight_bytes", s.MaxInFlightBytes, minInFlight, 1<<40)
}

// upTo checks a number whose negative value means none.
func (c *check) upTo(key string, n, most int, parent ...string) {
	if n > most {
		c.bad(fmt.Sprintf("must be at most %d", most), append(parent, key)...)
	}
}

// lasts checks a time whose zero is that nobody set it.
func (c *check) lasts(key string, d, least time.Duration, parent ...string) {
	switch {
	case d < 0 || d > 0 && d < least:
		c.bad(fmt.Sprintf("must be at least %v", least), append(parent, key)...)
	case d > longestCadence:
		c.bad(fmt.Sprintf("must be at most %v", longestCadence), append(parent, key)...)
	}
}
