package oauth

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

// What a process of the tests below is told: its part, the vault's directory and
// where the servers are.
const (
	partKey  = "OAUTH_TEST_PART"
	dirKey   = "OAUTH_TEST_DIR"
	placeKey = "OAUTH_TEST_PLACE"
)

// rotating is an MCP server and its authorization server. It takes each refresh
// token once, or, with grace, the last one again.
type rotating struct {
	mu                      sync.Mutex
	access, refresh, before string // before is the refresh token that was spent last
	grace                   bool
	rotations, reused       int
	served, every, rounds   int // an access token is good for every requests; 0: for ever
}

func (x *rotating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.URL.Path == "/token" {
		x.rotate(w, r)
		return
	}
	switch {
	case x.rounds > 0 && x.rotations >= x.rounds:
		w.WriteHeader(http.StatusGone) // the test is over
	case r.Header.Get("Authorization") != "Bearer "+x.access:
		w.WriteHeader(http.StatusUnauthorized)
	default:
		if x.served++; x.every > 0 && x.served%x.every == 0 {
			x.access = "revoked"
		}
	}
}

func (x *rotating) rotate(w http.ResponseWriter, r *http.Request) {
	switch got := r.PostFormValue("refresh_token"); {
	case got == x.refresh, x.grace && got == x.before:
	default:
		x.reused++
		x.refresh = "none"
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	x.rotations++
	x.before, x.access, x.refresh = r.PostFormValue("refresh_token"), fmt.Sprint("a", x.rotations), fmt.Sprint("r", x.rotations)
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": x.access, "refresh_token": x.refresh, "expires_in": 3600})
}

// shared is a vault with a login at a server of the test.
func sharedLogin(t *testing.T, x *rotating) (v *vault.Vault, place string) {
	t.Helper()
	ts := httptest.NewServer(x)
	t.Cleanup(ts.Close)
	v = &vault.Vault{Dir: t.TempDir()}
	x.access, x.refresh = "a0", "r0"
	e := &vault.Entry{
		Server: "hub", URL: ts.URL + "/mcp", Issuer: ts.URL, Access: "a0", Refresh: "r0",
		Expiry: time.Now().Add(time.Hour), Updated: time.Now(), Client: &vault.Client{ID: "me", AuthMethod: "none", Kind: Registered, Issuer: ts.URL},
	}
	if err := v.Save(e); err != nil {
		t.Fatal(err)
	}
	return v, ts.URL
}

func keeperAt(t testing.TB, v *vault.Vault, place string) (*Keeper, *Server) {
	t.Helper()
	s := serverAt(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}})
	u, err := url.Parse(place + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	s.URL = u
	k := NewKeeper(func() (*Server, error) { return s, nil }, v, nil)
	k.discover = func(context.Context, *Server, Challenge) (*Provider, error) { return providerAt(place), nil }
	return k, s
}

// process runs this test binary again, in a part of TestPeerProcess.
func peerProcess(t *testing.T, part string, v *vault.Vault, place string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPeerProcess$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), partKey+"="+part, dirKey+"="+v.Dir, placeKey+"="+place)
	return cmd
}

// TestPeerProcess is another process of the tests below.
func TestPeerProcess(t *testing.T) {
	v, place := &vault.Vault{Dir: os.Getenv(dirKey)}, os.Getenv(placeKey)
	switch os.Getenv(partKey) {
	case "use":
		useLogin(t, v, place)
	case "stuck":
		k, _ := keeperAt(t, v, place)
		k.store = &stuck{v}
		_, err := k.Refused(t.Context(), "a0", unauthorized)
		t.Fatalf("went on: %v", err)
	default:
		t.Skip("is a part of other tests")
	}
}

// use sends requests until the server has seen enough.
func useLogin(t *testing.T, v *vault.Vault, place string) {
	k, s := keeperAt(t, v, place)
	defer k.Close()
	for {
		token, err := k.Token(t.Context())
		if err != nil || token == "" {
			t.Fatalf("got %q, %v", token, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := s.HTTP.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusGone:
			return
		case http.StatusUnauthorized:
			k.mu.Lock()
			k.renewed.at = time.Time{} // as if a minute had passed
			k.mu.Unlock()
			if ok, err := k.Refused(t.Context(), token, unauthorized); !ok || err != nil {
				t.Fatalf("refused: got %v, %v", ok, err)
			}
		}
	}
}

// stuck is a vault of a process that is killed before it can write.
type stuck struct{ *vault.Vault }

func (s *stuck) Save(*vault.Entry) error {
	fmt.Println("received")
	select {}
}

// Six processes share a login over 20 rotations. No refresh token is spent twice.
func TestProcessesShareRotation(t *testing.T) {
	x := &rotating{every: 25, rounds: 20}
	v, place := sharedLogin(t, x)
	var all []*exec.Cmd
	var outs []*strings.Builder
	for range 6 {
		cmd, out := peerProcess(t, "use", v, place), &strings.Builder{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all, outs = append(all, cmd), append(outs, out)
	}
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v\n%s", i, err, outs[i])
		}
	}
	if x.rotations != 20 || x.reused != 0 {
		t.Errorf("%d rotations, %d refresh tokens reused", x.rotations, x.reused)
	}
	if e, err := v.Load("hub"); err != nil || e == nil || e.Refresh != "r20" {
		t.Errorf("the vault has %+v, %v", e, err)
	}
}

// A process is killed when it has received a new pair and not written it yet. The
// old refresh token is all that is left: where the provider takes it once more, the
// login lives on, else a person is asked for. Nothing hangs on the dead one's lock.
func TestKilledBeforeItWrote(t *testing.T) {
	for _, grace := range []bool{true, false} {
		t.Run(fmt.Sprint("grace ", grace), func(t *testing.T) {
			x := &rotating{grace: grace}
			v, place := sharedLogin(t, x)
			cmd := peerProcess(t, "stuck", v, place)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil || line != "received\n" {
				t.Errorf("got %q, %v", line, err)
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			k, _ := keeperAt(t, v, place)
			defer k.Close()
			ok, err := k.Refused(t.Context(), "a0", unauthorized)
			if ok != grace {
				t.Fatalf("got %v, %v", ok, err)
			}
			if !grace && isLogin(err) == nil {
				t.Errorf("got %v, want a LoginError", err)
			}
			if got, _ := k.Token(t.Context()); grace && got != "a2" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Nothing that is secret is in any error or log, whatever the servers repeat.
func TestKeeperCanary(t *testing.T) {
	const mark = "canary"
	secret := func(s string) string { return mark + "-" + s + "-5Zk" }
	echo := func(status int, form string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			parts := []string{r.Header.Get("Authorization"), r.PostForm.Encode()}
			for _, v := range r.PostForm {
				parts = append(parts, v...)
			}
			said, _ := json.Marshal(strings.Join(parts, " | "))
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, form, said)
		}
	}
	var out strings.Builder
	look := func(what string, err error) {
		fmt.Fprintf(&out, "%s: %v %+v %#v\n", what, err, err, err)
		for ; err != nil; err = errors.Unwrap(err) {
			fmt.Fprintf(&out, "  %v %+v\n", err, err)
		}
	}
	for i, h := range []http.HandlerFunc{
		echo(400, `{"error":"invalid_grant","error_description":%s}`), echo(400, `{"error":"invalid_scope","error_description":%s}`),
		echo(401, `{"error":"invalid_client","error_description":%s}`), echo(500, `<html>%s`), echo(400, `plain %s`), echo(200, `{"x":%s}`),
		echo(200, `{"error":"nope","error_description":%s}`), echo(200, `{"token_type":"MAC","access_token":%s}`), echo(302, `%s`), echo(400, `{"message":%s}`),
		func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
	} {
		for _, method := range []string{methodPost, methodBasic, methodJWT} {
			s, p := tokensAt(t, h)
			s.Settings.ClientID, s.Settings.ClientSecret, s.Settings.TokenEndpointAuthMethod = "me", secret("client"), method
			prove(s, Proof{AssertionFile: secretFile(t, secret("assertion"))})
			e := hourLogin()
			e.Access, e.Refresh, e.Issuer, e.Client = secret("access"), secret("refresh"), p.Issuer, nil
			e.Expiry = time.Now().Add(time.Second) // early
			r := &rig{t: t, m: newMemory(e), s: s, issuer: p.Issuer}
			k := r.peer()
			_, err := k.Token(t.Context())
			look(fmt.Sprint(i, method, " early"), err)
			_, err = k.Refused(t.Context(), e.Access, Challenge{Status: 401, ErrorDescription: "token " + e.Access})
			look(fmt.Sprint(i, method, " forced"), err)
			_, err = k.Refused(t.Context(), e.Access, Challenge{Status: 403, Error: "insufficient_scope", Scope: "x", ErrorDescription: e.Access})
			look(fmt.Sprint(i, method, " step"), err)
			_, err = Exchange(t.Context(), s, p, &Client{ID: "me", Secret: secret("client"), AuthMethod: method}, secret("code"), secret("verifier"), "http://127.0.0.1/cb")
			look(fmt.Sprint(i, method, " code"), err)
			k.Close()
			out.WriteString(r.logs.String())
		}
	}
	if out.Len() < 10_000 {
		t.Fatalf("only %d bytes of errors and logs", out.Len())
	}
	if i := strings.Index(out.String(), mark); i >= 0 {
		t.Errorf("a secret got out: %s", out.String()[max(0, i-300):min(out.Len(), i+100)])
	}
}
