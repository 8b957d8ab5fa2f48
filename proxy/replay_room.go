package proxy

import (
	"math"
	"time"
)

// move puts a record on another list of both its racks. The lock is held here
// and below.
func (p *replays) move(r *record, state int) {
	for i, s := range r.racks() {
		if r.places[i] != nil {
			s.by[r.state].Remove(r.places[i])
		}
		r.places[i] = s.by[state].PushBack(r)
	}
	r.state = state
}

func (r *record) racks() [2]*rack { return [2]*rack{&r.of.rack, &r.p.rack} }

func (p *replays) weigh(r *record, n int) {
	r.bytes += n
	r.of.bytes += n
	p.bytes += n
}

// forget removes a record. Its stream may go on, without being kept.
func (p *replays) forget(r *record) {
	if r.places[0] == nil {
		return
	}
	for i, s := range r.racks() {
		s.by[r.state].Remove(r.places[i])
		r.places[i] = nil
	}
	p.weigh(r, -r.bytes)
	delete(r.of.streams, r.number)
	r.events = nil
	r.wake()
}

// relieve makes room for what r got: in its session, then among all.
func (p *replays) relieve(r *record) {
	for r.of.bytes > p.each && p.lighten(&r.of.rack) {
	}
	for p.bytes > p.total && p.lighten(&p.rack) {
	}
}

// lighten gives up the least useful thing on a rack: what the stream that ended
// first said, at last its answer; then even the word that such an answer is gone;
// then what a running stream said first. False means that there is nothing left.
func (p *replays) lighten(s *rack) bool {
	if e := s.by[streamOver].Front(); e != nil {
		if r := e.Value.(*record); len(r.events) > 1 {
			p.behead(r)
		} else {
			p.reduce(r)
		}
		return true
	}
	if e := s.by[streamReduced].Front(); e != nil {
		p.forget(e.Value.(*record))
		return true
	}
	for e := s.by[streamRuns].Front(); e != nil; e = e.Next() {
		if r := e.Value.(*record); len(r.events) > 0 {
			p.behead(r)
			return true
		}
	}
	return false
}

// reduce leaves nothing of a stream but an error in place of its answer, which
// ends the wait of an agent that asks for it.
func (p *replays) reduce(r *record) {
	if r.request == nil || !r.answered {
		p.forget(r)
		return
	}
	msg := r.failure()
	p.weigh(r, recordWeight+eventWeight+len(msg)-r.bytes)
	r.events = []event{{r.last, msg}}
	p.move(r, streamReduced)
}

// behead gives up the oldest event.
func (p *replays) behead(r *record) {
	p.weigh(r, -len(r.events[0].msg)-eventWeight)
	r.events[0] = event{}
	r.events = r.events[1:]
}

// expire forgets what ended too long ago, and comes back for the rest.
func (p *replays) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := min(p.outdated(streamOver), p.outdated(streamReduced))
	if p.timer = nil; left < math.MaxInt64 {
		p.timer = time.AfterFunc(max(left, expiryPause), p.expire)
	}
}

// outdated forgets the old ones of a list, and returns when the next is due.
func (p *replays) outdated(state int) time.Duration {
	for {
		e := p.by[state].Front()
		if e == nil {
			return math.MaxInt64
		}
		r := e.Value.(*record)
		if left := replayTime - time.Since(r.since); left > 0 {
			return left
		}
		p.forget(r)
	}
}
