package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// current returns the live connection, or nil.
func (o *owner) current() *held {
	h := o.conn.Load()
	if h == nil {
		return nil
	}
	select {
	case <-h.Done():
		return nil
	default:
		return h
	}
}

// acquire returns the live connection, or waits for one attempt that all
// waiting calls share.
func (o *owner) acquire(ctx context.Context) (*held, error) {
	if c := o.current(); c != nil {
		return c, nil
	}
	o.mu.Lock()
	attempt, last, quiet := o.attempt, o.lastErr, o.quiet
	o.mu.Unlock()
	if last != nil && (time.Now().Before(quiet) || KindOf(last) == Closed) {
		return nil, last
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
	t := time.NewTimer(wakeWait)
	defer t.Stop()
	select {
	case <-attempt:
	case <-t.C:
		return nil, &Error{Server: o.srv.name, Op: "connect", Kind: Unreachable, Err: fmt.Errorf("not connected within %v", wakeWait)}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c := o.current(); c != nil {
		return c, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lastErr != nil {
		return nil, o.lastErr
	}
	return nil, &Error{Server: o.srv.name, Kind: Unreachable, Err: errors.New("the connection ended at once")}
}

// do sends a call, and once more where that is safe.
func (o *owner) do(ctx context.Context, c *Call) (Response, error) {
	for try := 0; ; try++ {
		cn, err := o.acquire(ctx)
		if err != nil {
			return Response{}, err
		}
		r, err := cn.Do(ctx, c)
		r.Via = cn.via
		o.judge(err)
		if err == nil || try > 0 || !o.again(cn, c, err) {
			return r, err
		}
	}
}

// again says whether a failed call may be sent a second time: the connection
// is gone, and the call did not run or may run twice.
func (o *owner) again(cn *held, c *Call, err error) bool {
	select {
	case <-cn.Done():
	default:
		return false
	}
	k := KindOf(err)
	return k == Unreachable && !answered(err) || k == Uncertain && c.Safe
}

// judge lets a call's outcome show in the server's state. Only failures that
// speak of the server's health count; the caller's own cancel does not, nor
// what happens on a connection beside discovery's.
func (o *owner) judge(err error) {
	if err == nil {
		o.proven.Store(true)
	}
	if o.route != plainRoute {
		return
	}
	st := o.srv.status.Load()
	switch k := KindOf(err); {
	case err == nil:
		if st.State == Degraded {
			o.srv.change(func(st *Status) { st.State, st.Err = Ready, nil })
			o.askRelist()
		}
	case st.State == Ready && (k == Unreachable || k == Uncertain):
		o.srv.change(func(st *Status) { st.State, st.Err = Degraded, err })
	}
}
