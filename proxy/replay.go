package proxy

import (
	"bytes"
	"container/list"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// replayTime is how long a stream can be fetched after its end.
	replayTime = 5 * time.Minute
	// replayTotal bounds what all sessions keep, in bytes.
	replayTotal = 64 << 20
	// recordWeight and eventWeight are what a record and an event cost besides
	// their messages, about.
	recordWeight, eventWeight = 512, 64
	// replayBatch is how many events are fetched from a record at once.
	replayBatch = 64
	// expiryPause is the least time between two looks for old records.
	expiryPause = 10 * time.Second
)

// replays keep what was sent on the streams of sessions, for agents that lose a
// connection and ask for the rest. When there is too much, the oldest goes first,
// of the caller that has most.
type replays struct {
	each, total int // bytes: of one session, and of all

	mu    sync.Mutex
	of    map[string]*rack // by caller
	bytes int
	timer *time.Timer // runs while some record waits for its end
}

// A rack holds records by their state, the oldest first. It is guarded by the
// replays that it belongs to.
type rack struct {
	by    [3]list.List
	bytes int
}

// States of a record.
const (
	streamRuns    = iota
	streamOver    // all that was kept is there
	streamReduced // likewise over, with an error in place of the answer
)

// recorded are the records of one session. The zero value is empty, of nobody.
type recorded struct {
	caller  string
	tag     string // begins the ids of the session's events
	last    uint64
	streams map[uint64]*record
	rack
}

// A record is what was sent on one stream.
type record struct {
	p       *replays
	of      *recorded
	number  uint64
	prefix  string // of the ids of its events
	request []byte // the id of the request that it answers; nil when there is no such
	news    bool   // of a GET stream

	state    int
	places   [2]*list.Element // in of's rack, and in its caller's; nil once it is forgotten
	events   []event
	cut      uint64 // number of the last event that was given up
	lost     uint64 // of those, the last request that waited
	last     uint64 // number of the last event
	answered bool   // that is the answer
	bytes    int
	since    time.Time     // when it ended
	more     chan struct{} // closed when something comes; nil while nobody waits
	reader   *reader       // who writes it to the agent; nil when nobody does
	unread   time.Time     // since when nobody does
}

type event struct {
	n   uint64
	msg []byte
	ask bool // it is a request whose answer is waited for
}

// A reader is a connection that a stream is written to. There is one at a time.
type reader struct {
	taken chan struct{} // closed when another one takes over
	kick  func()        // ends a write that hangs; runs before a handler returns only
}

func newReader(kick func()) *reader { return &reader{make(chan struct{}), kick} }

// open begins the record of a stream of a session. request is nil for a stream
// that answers no single request.
func (p *replays) open(of *recorded, request []byte, news bool, rd *reader) *record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of.tag == "" {
		of.tag, of.streams = rand.Text()[:8], map[uint64]*record{}
	}
	of.last++
	r := &record{p: p, of: of, number: of.last, request: bytes.Clone(request), news: news, reader: rd}
	kind := ""
	if news {
		kind = "g"
	}
	r.prefix = of.tag + "-" + kind + strconv.FormatUint(r.number, 10) + "-"
	of.streams[r.number] = r
	p.move(r, streamRuns)
	p.weigh(r, recordWeight)
	p.relieve(r)
	return r
}

// find returns the stream and the number that the id of an event names. r is nil
// for a GET stream that is no longer known; ok is false for all else that is not,
// and where a request is missing behind the event that a server waits for.
func (p *replays) find(of *recorded, id string) (r *record, n uint64, ok bool) {
	tag, rest, _ := strings.Cut(id, "-")
	stream, num, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseUint(num, 10, 64)
	number, news := strings.CutPrefix(stream, "g")
	k, kerr := strconv.ParseUint(number, 10, 64)
	if err != nil || kerr != nil {
		return nil, 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r = of.streams[k]; r == nil || of.tag != tag || r.news != news || n > r.last || n < r.lost && r.state == streamRuns {
		return nil, 0, news
	}
	return r, n, true
}

// drop forgets all records of a session.
func (p *replays) drop(of *recorded) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range of.streams {
		p.forget(r)
	}
}

// id is that of the event n.
func (r *record) id(n uint64) []byte { return strconv.AppendUint([]byte(r.prefix), n, 10) }

// add keeps a message, and returns its number.
func (r *record) add(msg []byte) uint64 {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.put(msg)
	r.p.relieve(r)
	return r.last
}

func (r *record) put(msg []byte) {
	r.last++
	if r.places[0] == nil {
		return // its session has ended
	}
	r.events = append(r.events, event{r.last, msg, isRequest(msg)})
	r.p.weigh(r, len(msg)+eventWeight)
	r.wake()
}

// isRequest tells requests from notifications, as wire writes them. For answers it
// does not matter.
func isRequest(msg []byte) bool { return bytes.HasPrefix(msg, requestHead) }

var requestHead = []byte(`{"jsonrpc":"2.0","id":`)

// settle notes that the answer to a request is not waited for any more.
func (r *record) settle(id []byte) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	for i := range r.events {
		e := &r.events[i]
		if rest, ok := bytes.CutPrefix(e.msg, requestHead); ok && bytes.HasPrefix(rest, id) {
			e.ask = false
		}
	}
}

func (r *record) wake() {
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// finish ends the stream with an answer, whose number it returns; nil is none.
func (r *record) finish(answer *reply) uint64 {
	var msg []byte
	whole := true
	if answer != nil {
		if whole = answer.size() <= r.p.each; whole {
			msg = oneLine(answer.append(make([]byte, 0, answer.size())))
		} else {
			msg = r.failure()
		}
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if msg != nil {
		r.put(msg)
		r.answered = true
	}
	r.end(whole)
	r.p.relieve(r)
	return r.last
}

// failure stands for an answer that was not kept.
func (r *record) failure() []byte {
	return wire.AppendError(nil, r.request, wire.CodeInternal, "the answer is no longer kept, see limits.replay_bytes", nil)
}

func (r *record) end(whole bool) {
	if r.places[0] == nil {
		return
	}
	state := streamOver
	if !whole {
		state = streamReduced
	}
	r.since = time.Now()
	r.p.move(r, state)
	r.wake()
	if r.p.timer == nil {
		r.p.timer = time.AfterFunc(replayTime, r.p.expire)
	}
}

// attach makes rd the reader of r, and sends away the one before. A GET stream
// that had ended goes on.
func (r *record) attach(rd *reader) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.dismiss()
	r.reader = rd
	if r.news && r.places[0] != nil {
		r.p.move(r, streamRuns)
	}
}

// dismiss sends the reader away; p.mu is held.
func (r *record) dismiss() {
	if old := r.reader; old != nil {
		close(old.taken)
		old.kick()
	}
}

// leave ends what attach began. A GET stream ends with its reader.
func (r *record) leave(rd *reader) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.reader == rd {
		r.unattended()
	}
}

// evict is leave at our wish: rd is told.
func (r *record) evict(rd *reader) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.reader == rd {
		r.dismiss()
		r.unattended()
	}
}

// unattended notes that nobody reads r; p.mu is held.
func (r *record) unattended() {
	r.reader, r.unread = nil, time.Now()
	if r.news {
		r.end(true)
	}
}

// away is how long nobody has read r; zero while somebody does.
func (r *record) away() time.Duration {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.reader != nil {
		return 0
	}
	return time.Since(r.unread)
}

// read reports whether somebody reads r.
func (r *record) read() bool {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.reader != nil
}

// after returns the next events behind n. When there are none, over says whether
// there never will be, else more is closed when there are.
func (r *record) after(n uint64) (next []event, over bool, more <-chan struct{}) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	for i, e := range r.events {
		if e.n > n {
			rest := r.events[i:]
			return append(next, rest[:min(len(rest), replayBatch)]...), false, nil
		}
	}
	if r.state != streamRuns || r.places[0] == nil {
		return nil, true, nil
	}
	if r.more == nil {
		r.more = make(chan struct{})
	}
	return nil, false, r.more
}
