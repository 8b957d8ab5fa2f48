//go:build npm

package oauth

import (
	"strings"
	"testing"
	"time"
)

// TestCanary: a client with a secret logs in in both ways, its tokens are renewed,
// refused and lost. No secret is in what the program prints at debug level: every
// world looks for that in the end, and this one that it would find some.
func TestCanary(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, "token_endpoint_auth_method: "+method)
			w.login(t)
			s, a := w.serve(t)
			served(t, a, "locked")
			time.Sleep(time.Duration(w.p.life)*time.Second + leeway)
			served(t, a, "locked")
			w.l.revoke()
			served(t, a, "locked")
			w.good(t)
			w.p.do(t, "fail=400&at=/token")
			time.Sleep(time.Duration(w.p.life)*time.Second + leeway)
			if _, code := call(t, a, "locked"); code == "" {
				t.Error("a token that was over was taken")
			}
			w.p.do(t, "fail=0")
			stop(t, s)
			for _, want := range []string{"level=DEBUG", "token refreshed"} {
				if !strings.Contains(s.Log(), want) {
					t.Errorf("the log lacks %q:\n%s", want, s.Log())
				}
			}
		})
	}
}
