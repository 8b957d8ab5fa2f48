package proxy

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Bounds of a name's length: room for a hash at one end, what the protocol
// allows at the other.
const (
	minNameLength = 24
	maxNameLength = 128
)

// Validate reports what is wrong: the key within the settings, and why.
func (l *Limits) Validate(rep func(key, msg string)) {
	for _, n := range []struct {
		key            string
		val, low, high int
	}{
		{"request_bytes", l.RequestBytes, 1 << 10, 1 << 30},
		{"in_flight_bytes", l.InFlightBytes, 1 << 20, math.MaxInt},
		{"answer_bytes", l.AnswerBytes, 1 << 16, 1 << 30},
		{"depth", l.Depth, 16, 1000},
		{"sessions", l.Sessions, 1, 1_000_000},
		{"connections", l.Connections, 1, 1_000_000},
		{"page_bytes", l.PageBytes, 1 << 10, 8 << 20},
		{"stream_queue", l.StreamQueue, 1, 100_000},
		{"replay_bytes", l.ReplayBytes, 1 << 16, replayTotal},
		{"parked", l.Parked, 1, 100_000},
		{"parked_per_caller", l.ParkedPerCaller, 1, 100_000},
	} {
		if n.val != 0 && (n.val < n.low || n.val > n.high) {
			rep(n.key, fmt.Sprintf("must be from %d to %d", n.low, n.high))
		}
	}
	if l.SessionIdle != 0 && l.SessionIdle < time.Second {
		rep("session_idle", "must be at least 1s")
	}
	if l.ParkedTime != 0 && l.ParkedTime < time.Second {
		rep("parked_time", "must be at least 1s")
	}
	if l.InFlightBytes != 0 && l.InFlightBytes < l.RequestBytes {
		rep("in_flight_bytes", "is less than request_bytes")
	}
}

// Validate reports what is wrong: the key within the settings, and why.
// maxLength is the limit of names where the profile has none.
func (p *Profile) Validate(maxLength int, rep func(key, msg string)) {
	if p.MaxNameLength != 0 {
		maxLength = p.MaxNameLength
		if msg := NameLengthFault(maxLength); msg != "" {
			rep("max_name_length", msg)
			return
		}
	}
	if p.Reserve < 0 || maxLength-p.Reserve < minNameLength {
		rep("reserve", fmt.Sprintf("must leave at least %d of the %d characters of a name", minNameLength, maxLength))
	}
	for i, s := range p.Prefer {
		if slices.Contains(p.Prefer[:i], s) {
			rep("prefer", fmt.Sprintf("names %.64q twice", s))
		}
	}
}

// NameLengthFault says what is wrong with a limit of names, or nothing.
func NameLengthFault(n int) string {
	if n < minNameLength || n > maxNameLength {
		return fmt.Sprintf("must be from %d to %d", minNameLength, maxNameLength)
	}
	return ""
}
