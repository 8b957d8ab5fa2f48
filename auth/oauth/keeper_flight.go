package oauth

import (
	"context"
	"errors"
	"time"
)

// A flight is one renewal that all who need it wait for.
type flight struct {
	// used is the token that the server refused, if forced.
	used   string
	forced bool
	why    Challenge
	done   chan struct{} // closed by fly
	err    error         // to be read after done
}

// flightWait bounds a flight: the lock, discovery, the request.
const flightWait = 2 * time.Minute

// wait returns the flight's error. With patience it gives up after a while, and
// leaves the flight to itself.
func (f *flight) wait(ctx context.Context, patience time.Duration) error {
	var late <-chan time.Time
	if patience > 0 {
		t := time.NewTimer(patience)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-f.done:
		return f.err
	case <-late:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A fault keeps a renewal that failed from being tried again at once.
type fault struct {
	err   error
	stamp any // of the credentials with which it failed
	until time.Time
	tries int // in a row
}

// refusalPause is how long a refusal stands, for the credentials that it was for.
const refusalPause = time.Minute

// maxFaultPause bounds the wait after trouble on the way.
const maxFaultPause = 30 * time.Second

// renewAhead waits for a renewal, not long if the token that there is is good.
func (k *Keeper) renewAhead(ctx context.Context, good bool) error {
	f, err := k.board(ctx, &flight{})
	if err != nil {
		return err
	}
	if good {
		return f.wait(ctx, patience)
	}
	return f.wait(ctx, 0)
}

// force replaces a token that the server refused.
func (k *Keeper) force(ctx context.Context, used string, c Challenge) (bool, error) {
	for range 3 {
		f, err := k.board(ctx, &flight{used: used, forced: true, why: c})
		if err != nil {
			return false, withChallenge(err, c)
		}
		err = f.wait(ctx, 0)
		same := f.forced && f.used == used
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case same && err == nil:
			return true, nil
		case same:
			return false, withChallenge(err, c)
		}
		// That flight had another aim. It may have brought another token even so.
		if h, err := k.current(); err == nil && h.good(time.Now()) && h.entry.Access != used {
			return true, nil
		}
	}
	return false, errors.New("the credentials change faster than they can be used")
}

// withChallenge makes err that of another request of the same kind.
func withChallenge(err error, c Challenge) error {
	l := isLogin(err)
	if l == nil {
		return err
	}
	n := *l
	n.Challenge = c
	return &n
}

// board joins the flight that is under way, or else starts f.
func (k *Keeper) board(ctx context.Context, f *flight) (*flight, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch x := k.fault; {
	case k.flight != nil:
		return k.flight, nil
	case k.closed:
		return nil, errors.New("credentials are not refreshed any more: closing")
	case x != nil && time.Now().Before(x.until) && k.held.Load().stamp == x.stamp:
		return nil, x.err
	}
	f.done = make(chan struct{})
	k.flight = f
	k.flights.Add(1)
	// Whoever asked first may leave: the others wait, and what the authorization
	// server gives is given once.
	go k.fly(context.WithoutCancel(ctx), f)
	return f, nil
}

func (k *Keeper) fly(ctx context.Context, f *flight) {
	defer k.flights.Done()
	ctx, stop := context.WithTimeout(ctx, flightWait)
	defer stop()
	f.err = k.renew(ctx, f)
	k.mu.Lock()
	k.flight = nil
	k.note(f.err)
	k.mu.Unlock()
	close(f.done)
}

// note remembers how a flight ended. Callers hold mu.
func (k *Keeper) note(err error) {
	switch {
	case err == nil:
		k.fault = nil
		return
	case k.fault == nil:
		k.fault = &fault{}
	}
	x := k.fault
	x.err, x.tries = err, x.tries+1
	if h := k.held.Load(); h != nil {
		x.stamp = h.stamp
	}
	pause := min(time.Second<<min(x.tries-1, 10), maxFaultPause)
	if isLogin(err) != nil {
		pause = refusalPause
	}
	x.until = time.Now().Add(pause)
}
