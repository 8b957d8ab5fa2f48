package policy

import "time"

const (
	// window is what max_rpm counts requests in.
	window = time.Minute
	// comes is how long a caller counts as one that comes.
	comes = time.Hour
	// maxLoops bounds the conversations whose tool rounds are remembered.
	maxLoops = 256
)

// A rate is the sampling requests of the last window. The zero value is empty.
type rate struct {
	recent []came
	last   [2]came // the last two callers that came, the latest first
}

type came struct {
	caller string
	at     time.Time
}

// note enters that a caller came.
func (r *rate) note(caller string, now time.Time) {
	if r.last[0].caller != caller {
		r.last[1] = r.last[0]
	}
	r.last[0] = came{caller, now}
	old := 0
	for old < len(r.recent) && now.Sub(r.recent[old].at) >= window {
		old++
	}
	r.recent = r.recent[:copy(r.recent, r.recent[old:])]
}

// several reports whether another caller came lately.
func (r *rate) several(now time.Time) bool {
	return !r.last[1].at.IsZero() && now.Sub(r.last[1].at) < comes
}

func (r *rate) has(caller string) (n int) {
	for _, c := range r.recent {
		if c.caller == caller {
			n++
		}
	}
	return n
}

// admit takes a place in the window. A caller that is not alone has as many as it
// leaves free at most, so that the next one finds some. Where there is none, most
// is the bound that was met, and shared is true if it is the caller's.
func (a *Asker) admit(caller string, now time.Time) (most int, shared, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &a.rate
	r.note(caller, now)
	limit := a.sampling.maxRPM()
	free := limit - len(r.recent)
	if free <= 0 {
		return limit, false, false
	}
	if r.several(now) || a.Several != nil && a.Several() {
		if has := r.has(caller); has >= free {
			return has, true, false
		}
	}
	r.recent = append(r.recent, came{caller, now})
	return limit, false, true
}

// loops are the answers with tool calls in a row, by caller and conversation: what
// one caller's agents say is no part of another's. The zero value is empty.
type loops struct {
	m map[string]map[uint64]int
	n int
}

func (l *loops) of(caller string, conversation uint64) int { return l.m[caller][conversation] }

// add counts one more. Where there are too many conversations, the caller that has
// most loses one, whichever: max_rpm bounds what is lost by it.
func (l *loops) add(caller string, conversation uint64) {
	if _, known := l.m[caller][conversation]; !known {
		if l.n >= maxLoops {
			l.shed()
		}
		if l.m == nil {
			l.m = map[string]map[uint64]int{}
		}
		if l.m[caller] == nil {
			l.m[caller] = map[uint64]int{}
		}
		l.n++
	}
	l.m[caller][conversation]++
}

func (l *loops) shed() {
	most := ""
	for caller, own := range l.m {
		if len(own) > len(l.m[most]) {
			most = caller
		}
	}
	for some := range l.m[most] {
		l.drop(most, some)
		return
	}
}

func (l *loops) drop(caller string, conversation uint64) {
	own := l.m[caller]
	if _, known := own[conversation]; !known {
		return
	}
	l.n--
	if delete(own, conversation); len(own) == 0 {
		delete(l.m, caller)
	}
}

// round counts an answer with tool calls in a conversation.
func (a *Asker) round(caller string, conversation uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.Sampling.ToolRounds++
	a.loops.add(caller, conversation)
}

// mayLoop reports whether a conversation may have one more answer with tool
// calls. After a refusal it starts anew, as it does after a text answer.
func (a *Asker) mayLoop(caller string, conversation uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loops.of(caller, conversation) < a.sampling.maxToolRounds() {
		return true
	}
	a.loops.drop(caller, conversation)
	return false
}

func (a *Asker) loopEnds(caller string, conversation uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loops.drop(caller, conversation)
}
