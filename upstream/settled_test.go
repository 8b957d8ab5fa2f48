package upstream

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What another attempt cannot change is not tried again like an outage.
func TestSettledFailures(t *testing.T) {
	var tries atomic.Int64
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		http.Redirect(w, r, "https://elsewhere.example/mcp", http.StatusTemporaryRedirect)
	}))
	defer moved.Close()
	mutual := httptest.NewUnstartedServer(http.NotFoundHandler())
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	mutual.Config.ErrorLog = log.New(io.Discard, "", 0)
	mutual.StartTLS()
	defer mutual.Close()
	for name, tt := range map[string]struct {
		settings Settings
		says     string
	}{
		"elsewhere":   {Settings{URL: moved.URL}, "https://elsewhere.example/mcp"},
		"certificate": {Settings{URL: mutual.URL, SSLVerify: SSLVerify{Off: true}}, "certificate required"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.settings.Lifecycle.RetryPause = 10 * time.Millisecond
			set, err := NewSet([]Server{{Name: "a", Settings: &tt.settings}}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- set.Run(ctx) }()
			defer func() { cancel(); <-done }()
			set.AwaitFirst(ctx, time.Minute, "a")
			st, _ := set.Status("a")
			if st.State != Failed || KindOf(st.Err) != Config || !strings.Contains(st.Err.Error(), tt.says) || time.Until(st.RetryAt) < 3*time.Minute {
				t.Errorf("%s: %v, again in %v", st.State, st.Err, time.Until(st.RetryAt))
			}
		})
	}
	if n := tries.Load(); n > 2 { // one for each era
		t.Errorf("%d requests to the server that is elsewhere", n)
	}
}

// A directory that is missing is no outage, and is seen when it is there.
func TestLateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "late")
	s := self(t, "fake-server", "plain")
	s.Cwd, s.Env["DYING_BOOK"] = dir, "of no use but that it lists tools"
	set, err := NewSet([]Server{{Name: "a", Settings: s}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	defer func() { cancel(); <-done }()
	set.AwaitFirst(ctx, time.Minute, "a")
	if st, _ := set.Status("a"); st.State != Failed || KindOf(st.Err) != Config || !strings.Contains(st.Err.Error(), "there is no such directory") {
		t.Fatalf("%s: %v", st.State, st.Err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server in its directory", func() bool { st, _ := set.Status("a"); return st.State == Ready })
}
