package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth/oauth"
	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// walletFor is a wallet without credentials. What ask returns is what a login ends with.
func walletFor(t *testing.T, ask func(n int) error) (w *wallet, asked func() int) {
	t.Helper()
	u, err := url.Parse("https://hub.example/mcp")
	if err != nil {
		t.Fatal(err)
	}
	c := newCredentials(nil)
	t.Cleanup(c.close)
	var mu sync.Mutex
	n := 0
	c.ask = func(context.Context, *oauth.Login) error {
		mu.Lock()
		n++
		at := n
		mu.Unlock()
		return ask(at)
	}
	s := &oauth.Server{Name: "hub", URL: u}
	v := &vault.Vault{Dir: t.TempDir()}
	w = &wallet{c: c, vault: v}
	w.keeper = oauth.NewKeeper(func() (*oauth.Server, error) { return s, nil }, v, nil)
	w.server.Store(s)
	return w, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func wantsScope(i int) http.Header {
	return http.Header{"Www-Authenticate": {fmt.Sprintf(`Bearer error="insufficient_scope", scope="s%d"`, i)}}
}

// A server that wants another scope each time does not fill the screen with browsers.
func TestLoginsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, asked := walletFor(t, func(int) error { return nil })
		var err error
		for i := range 50 {
			_, err = w.Refused(t.Context(), "token", http.StatusForbidden, wantsScope(i))
			time.Sleep(time.Second)
		}
		l := (*upstream.LoginError)(nil)
		if !errors.As(err, &l) || !strings.Contains(err.Error(), "wanted 5 logins in the last 10 minutes") {
			t.Errorf("got %v", err)
		}
		if got := asked(); got != mostAsked {
			t.Errorf("asked %d times, want %d", got, mostAsked)
		}
		time.Sleep(askedMemory)
		_, _ = w.Refused(t.Context(), "token", http.StatusForbidden, wantsScope(99))
		if got := asked(); got != mostAsked+1 {
			t.Errorf("asked %d times after a while, want %d", got, mostAsked+1)
		}
	})
}

// Who says no to one of many calls has said it to all of them.
func TestDeclinedLoginIsNotAskedAgain(t *testing.T) {
	no := errors.New("declined")
	all := make(chan struct{})
	w, asked := walletFor(t, func(n int) error {
		if n == 1 {
			<-all // the others come meanwhile
		}
		return no
	})
	challenge := http.Header{"Www-Authenticate": {"Bearer"}}
	var calls, begun sync.WaitGroup
	for range 8 {
		begun.Add(1)
		calls.Go(func() {
			begun.Done()
			if _, err := w.Refused(t.Context(), "token", http.StatusUnauthorized, challenge); !errors.Is(err, no) {
				t.Errorf("got %v", err)
			}
		})
	}
	begun.Wait()
	close(all)
	calls.Wait()
	if got := asked(); got != 1 {
		t.Errorf("asked %d times, want 1", got)
	}
	w.at = w.at.Add(-declined)
	_, _ = w.Refused(t.Context(), "token", http.StatusUnauthorized, challenge)
	if got := asked(); got != 2 {
		t.Errorf("asked %d times after a while, want 2", got)
	}
}

// What sidecars left behind is nobody's socket, and goes.
func TestSocketsThatAnswer(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	live, err := listenUnix(filepath.Join(dir, adminName))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	left, err := listenUnix(filepath.Join(dir, "1-"+adminName))
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	if err := os.WriteFile(filepath.Join(dir, "2-"+adminName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := sockets(dir)
	if err != nil || len(found) != 1 || found[0] != filepath.Join(dir, adminName) {
		t.Errorf("got %q, %v", found, err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 2 { // the file is not ours to remove
		t.Errorf("left: %q", names)
	}
}
