package proxy

import "sync/atomic"

const (
	// waitingBytes bounds the notifications that wait for one slow reader.
	waitingBytes = 1 << 20
	// waitingLogs bounds the log messages that one session may lag behind, and
	// waitingLogBytes what they weigh in all.
	waitingLogs     = 64
	waitingLogBytes = 256 << 10
	// maxLog bounds one log message outside of calls.
	maxLog = 64 << 10
)

// A mailbox holds messages for one reader, bounded in number and in bytes. A
// message weighs until its reader is done with it.
type mailbox struct {
	out   chan []byte
	max   int64
	bytes atomic.Int64
}

func newMailbox(messages int, bytes int64) *mailbox {
	return &mailbox{out: make(chan []byte, messages), max: bytes}
}

// put leaves a message; false means that there is no room. It never blocks.
func (m *mailbox) put(b []byte) bool {
	if m.bytes.Add(int64(len(b))) > m.max {
		m.done(b)
		return false
	}
	select {
	case m.out <- b:
		return true
	default:
		m.done(b)
		return false
	}
}

// done gives the room of a message back.
func (m *mailbox) done(b []byte) { m.bytes.Add(-int64(len(b))) }
