package oauth

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeeperSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		r.p.wait = time.Second
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond) // before, during and after
				if ok, err := r.k.Refused(t.Context(), "access-0", unauthorized); !ok || err != nil {
					t.Errorf("got %v, %v", ok, err)
				}
				if got, err := r.k.Token(t.Context()); got != "access-1" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		wg.Wait()
		r.requests(1)
	})
}

func TestKeeperSingleFlightFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hourLogin()
		e.Expiry = time.Now()
		r := newRig(t, e)
		r.p.wait = time.Second
		r.p.replies = append(r.p.replies, noAnswer)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := r.k.Token(t.Context()); err == nil || isLogin(err) != nil {
					t.Errorf("got %v, want an error that is no matter of login", err)
				}
			})
		}
		wg.Wait()
		r.requests(1)
		_ = r.tokenError() // within the pause
		r.requests(1)
		time.Sleep(time.Second)
		r.token("access-1")
	})
}

// A token that is good is used while the endpoint is slow, and whoever leaves does
// not take the refresh along.
func TestKeeperPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		r.p.wait = 10 * time.Second
		time.Sleep(59 * time.Minute)
		start := time.Now()
		r.token("access-0")
		if d := time.Since(start); d != patience {
			t.Errorf("waited %v", d)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := r.k.Token(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		r.k.Close()
		if got := r.m.read().Refresh; got != "refresh-1" {
			t.Errorf("%q is kept after Close", got)
		}
		r.token("access-1")
		time.Sleep(59 * time.Minute)
		r.token("access-1") // closed: nothing new begins
		time.Sleep(time.Hour)
		if err := r.tokenError(); isLogin(err) != nil {
			t.Error(err)
		}
		r.requests(1)
	})
}

// Whoever asked first leaves: the refresh goes on for the others.
func TestKeeperFirstLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hourLogin()
		e.Expiry = time.Now()
		r := newRig(t, e)
		r.p.wait = 10 * time.Second
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := r.k.Token(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		r.token("access-1")
		r.requests(1)
	})
}

// A token that cannot be written is used, and written as soon as that is possible.
func TestKeeperDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		r.m.fill(errors.New("no space left on device"))
		r.refused("access-0", unauthorized, true)
		r.token("access-1")
		if r.m.read().Refresh != "refresh-0" {
			t.Error("written after all")
		}
		time.Sleep(saveAgain + time.Second)
		r.token("access-1")
		time.Sleep(58 * time.Minute)
		r.token("access-2") // rotated from memory
		r.m.fill(nil)
		time.Sleep(saveAgain + time.Second)
		r.token("access-2")
		if got := r.m.read().Refresh; got != "refresh-2" {
			t.Errorf("%q is kept", got)
		}
		r.requests(2)
	})
}

// Eight processes have the same token: one refreshes it, the others take that over.
func TestKeeperAdoptsPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		peers := []*Keeper{r.k}
		for range 7 {
			peers = append(peers, r.peer())
		}
		r.p.wait = time.Second
		time.Sleep(59 * time.Minute)
		var wg sync.WaitGroup
		for _, k := range peers {
			for range 5 {
				wg.Go(func() {
					if got, err := k.Token(t.Context()); got != "access-1" || err != nil {
						t.Errorf("got %q, %v", got, err)
					}
				})
			}
		}
		wg.Wait()
		r.requests(1)
	})
}
