package upstream

import (
	"cmp"
	"time"
)

// What holds where nothing is configured.

// InForce returns a copy that says of the server's life, breaker and queue what holds
// where nothing is set.
func (s *Settings) InForce() Settings {
	c := *s
	c.Lifecycle, c.Breaker = s.lifecycle(), s.breaker()
	c.KeepaliveInterval, c.KeepaliveTimeout = s.keepalive()
	c.MaxQueue, c.QueueWait = s.queue()
	c.MaxInFlightBytes = int(s.inFlight())
	return c
}

func (s *Settings) lifecycle() Lifecycle {
	l := s.Lifecycle
	l.IdleTimeout = cmp.Or(s.IdleTimeout, l.IdleTimeout)
	l.MaxLifetime = cmp.Or(s.MaxLifetime, l.MaxLifetime)
	l.ConnectRetries = cmp.Or(l.ConnectRetries, 3)
	l.ReconnectRetries = cmp.Or(l.ReconnectRetries, 5)
	l.RetryPause = cmp.Or(l.RetryPause, time.Second)
	l.RetryPauseMax = max(cmp.Or(l.RetryPauseMax, time.Minute), l.RetryPause)
	l.ProbeInterval = cmp.Or(l.ProbeInterval, 5*time.Minute)
	l.WakeWait = cmp.Or(l.WakeWait, 15*time.Second)
	l.StopGrace = cmp.Or(l.StopGrace, 2*time.Second)
	return l
}

func (s *Settings) breaker() Breaker {
	b := s.Breaker
	b.Failures = cmp.Or(b.Failures, 3)
	b.Open = cmp.Or(b.Open, time.Minute)
	b.ProbeTimeout = cmp.Or(b.ProbeTimeout, 10*time.Second)
	return b
}

func (s *Settings) keepalive() (every, limit time.Duration) {
	return cmp.Or(s.KeepaliveInterval, 3*time.Minute), cmp.Or(s.KeepaliveTimeout, 30*time.Second)
}

func (s *Settings) queue() (most int, wait time.Duration) {
	return max(cmp.Or(s.MaxQueue, 256), 0), cmp.Or(s.QueueWait, 30*time.Second)
}

func (s *Settings) inFlight() int64 {
	return int64(max(cmp.Or(s.MaxInFlightBytes, 128<<20), s.maxMessage()))
}
