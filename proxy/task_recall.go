package proxy

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

// Limits of what is remembered of the questions of tasks, and of their parameters.
// The caller that has most makes room.
const (
	maxRecalled      = 4096
	maxRecalledBytes = 1 << 20
)

// A recalled is a question of a task that was screened.
type recalled struct {
	caller string
	asked  digest // of what the server sent
	method string
	params []byte // as the agent gets them
	began  time.Time
	// hidden is true when the agent does not get it, answered when the server has
	// an answer, thin when there was no room for params.
	hidden, answered, thin bool
}

// recall is the questions of all tasks. The zero value is empty.
type recall struct {
	mu    sync.Mutex
	known map[digest]*recalled
	of    map[string]*recollection // by caller
	bytes int
}

// A recollection is what one caller has of a recall: keys, the oldest first, and
// bytes of parameters.
type recollection struct {
	keys  []digest
	bytes int
}

// inputKey names the question of a task.
func inputKey(t task, key string) digest {
	return sha256.Sum256([]byte(t.server + "\x00" + t.via + "\x00" + t.id + "\x00" + key))
}

func (r *recall) find(k digest) (q recalled, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.known[k]; p != nil {
		return *p, true
	}
	return q, false
}

// answer notes that a question gets an answer, and tells whether it is the first.
func (r *recall) answer(k digest) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.known[k]
	if q == nil || q.answered {
		return false
	}
	q.answered = true
	return true
}

func (r *recall) put(k digest, q recalled) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(k)
	for len(r.known) >= maxRecalled {
		r.forget(r.of[r.greediest(func(c *recollection) int { return len(c.keys) })].keys[0])
	}
	if !r.room(q.caller, len(q.params)) {
		q.params, q.thin = nil, true
	}
	if r.known == nil {
		r.known, r.of = map[digest]*recalled{}, map[string]*recollection{}
	}
	c := r.of[q.caller]
	if c == nil {
		c = new(recollection)
		r.of[q.caller] = c
	}
	r.known[k], c.keys = &q, append(c.keys, k)
	r.weigh(c, len(q.params))
}

// greediest is the caller that has most; r.mu is held here and below.
func (r *recall) greediest(has func(*recollection) int) (caller string) {
	most := -1
	for name, c := range r.of {
		if n := has(c); n > most {
			caller, most = name, n
		}
	}
	return caller
}

// room makes room for n bytes of a caller: where it is tight, questions of whoever
// has most of it lose their parameters. They come again with the next poll.
func (r *recall) room(caller string, n int) bool {
	for r.bytes+n > maxRecalledBytes {
		c, own := r.of[r.greediest(func(c *recollection) int { return c.bytes })], r.of[caller]
		if c != nil && own.has()+n > c.bytes {
			c = own
		}
		if c.has() == 0 {
			return false
		}
		r.thin(c)
	}
	return true
}

func (c *recollection) has() int {
	if c == nil {
		return 0
	}
	return c.bytes
}

// thin drops the oldest parameters of a caller.
func (r *recall) thin(c *recollection) {
	for _, k := range c.keys {
		if q := r.known[k]; len(q.params) > 0 {
			r.weigh(c, -len(q.params))
			q.params, q.thin = nil, true
			return
		}
	}
}

func (r *recall) weigh(c *recollection, n int) {
	c.bytes += n
	r.bytes += n
}

// forget drops a question.
func (r *recall) forget(k digest) {
	q := r.known[k]
	if q == nil {
		return
	}
	c := r.of[q.caller]
	i := slices.Index(c.keys, k)
	c.keys = slices.Delete(c.keys, i, i+1)
	r.weigh(c, -len(q.params))
	if delete(r.known, k); len(c.keys) == 0 {
		delete(r.of, q.caller)
	}
}
