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

func (r *record) racks() [2]*rack { return [2]*rack{&r.of.rack, r.p.rack(r.of.caller)} }

// rack is that of a caller.
func (p *replays) rack(caller string) *rack {
	s := p.of[caller]
	if s == nil {
		if p.of == nil {
			p.of = map[string]*rack{}
		}
		s = new(rack)
		p.of[caller] = s
	}
	return s
}

func (p *replays) weigh(r *record, n int) {
	r.bytes += n
	p.bytes += n
	for _, s := range r.racks() {
		s.bytes += n
	}
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
	if p.rack(r.of.caller).empty() {
		delete(p.of, r.of.caller)
	}
	delete(r.of.streams, r.number)
	r.events = nil
	r.wake()
}

// empty reports whether nothing is on a rack.
func (s *rack) empty() bool {
	for i := range s.by {
		if s.by[i].Len() > 0 {
			return false
		}
	}
	return true
}

// relieve makes room for what r got: in its session, then among all.
func (p *replays) relieve(r *record) {
	for r.of.bytes > p.each && p.lighten(&r.of.rack) {
	}
	for p.bytes > p.total && p.lighten(p.heaviest()) {
	}
}

// heaviest is the rack of the caller that has most: no caller's streams cost
// another one its own.
func (p *replays) heaviest() *rack {
	most := new(rack)
	for _, s := range p.of {
		if s.bytes > most.bytes {
			most = s
		}
	}
	return most
}

// lighten gives up the least useful thing on a rack: what the stream that ended
// first said, at last its answer; then even the word that such an answer is gone;
// then what a running stream said first, and requests that wait for an answer at the
// very last. False means that there is nothing left.
func (p *replays) lighten(s *rack) bool {
	if e := s.by[streamOver].Front(); e != nil {
		if r := e.Value.(*record); len(r.events) > 1 {
			p.behead(r, 0)
		} else {
			p.reduce(r)
		}
		return true
	}
	if e := s.by[streamReduced].Front(); e != nil {
		p.forget(e.Value.(*record))
		return true
	}
	return p.shorten(s, false) || p.shorten(s, true)
}

// shorten gives up what a running stream said first; requests only with asks.
func (p *replays) shorten(s *rack, asks bool) bool {
	for e := s.by[streamRuns].Front(); e != nil; e = e.Next() {
		r := e.Value.(*record)
		for i := range r.events {
			if asks || !r.events[i].ask {
				p.behead(r, i)
				return true
			}
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
	r.events = []event{{n: r.last, msg: msg}}
	p.move(r, streamReduced)
}

// behead gives up the event at i, which only requests are before.
func (p *replays) behead(r *record, i int) {
	e := r.events[i]
	p.weigh(r, -len(e.msg)-eventWeight)
	r.cut = max(r.cut, e.n)
	if e.ask {
		r.lost = max(r.lost, e.n)
	}
	copy(r.events[1:i+1], r.events[:i])
	r.events[0] = event{}
	r.events = r.events[1:]
}

// expire forgets what ended too long ago, and comes back for the rest.
func (p *replays) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := time.Duration(math.MaxInt64)
	for _, s := range p.of {
		left = min(left, p.outdated(s, streamOver), p.outdated(s, streamReduced))
	}
	if p.timer = nil; left < math.MaxInt64 {
		p.timer = time.AfterFunc(max(left, expiryPause), p.expire)
	}
}

// outdated forgets the old ones of a list, and returns when the next is due.
func (p *replays) outdated(s *rack, state int) time.Duration {
	for {
		e := s.by[state].Front()
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
