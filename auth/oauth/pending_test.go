package oauth

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

// started begins a login and has the browser end at a redirect that nobody takes.
func started(t *testing.T, lab *loginLab, l *Login, dir string) (p *Pending, redirect string) {
	t.Helper()
	p, err := l.Start(labContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if dir != "" {
		if err := p.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	res, err := defaultNoRedirect.Get(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return p, res.Header.Get("Location")
}

func TestStartAndFinish(t *testing.T) {
	for _, bare := range []bool{false, true} {
		lab := newLoginLab(t)
		l := lab.login(auth.OAuth{})
		dir := filepath.Join(t.TempDir(), "pending")
		_, redirect := started(t, lab, l, dir)
		wantPrivate(t, dir)
		if bare {
			_, redirect, _ = strings.Cut(redirect, "?")
		}
		other := &Login{Server: l.Server, Vault: l.Vault} // another process
		p, err := ReadPending(dir, redirect)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Finish(labContext(t), p, redirect); err != nil {
			t.Fatal(err)
		}
		if e := lab.entry(l); e == nil || e.Access != labAccess || !other.Result.Refresh {
			t.Errorf("stored %v", e)
		}
		if _, err := ReadPending(dir, redirect); !errors.Is(err, ErrNoPending) {
			t.Errorf("once more: %v", err)
		}
		if err := other.Finish(labContext(t), p, redirect); !errors.Is(err, ErrNoPending) {
			t.Errorf("once more with the same: %v", err)
		}
		lab.noCanary()
	}
}

func wantPrivate(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files, %v, want one", len(files), err)
	}
	fi, err := files[0].Info()
	if err != nil {
		t.Fatal(err)
	}
	di, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode() != 0o600 || di.Mode().Perm() != 0o700 {
		t.Errorf("file mode %v, directory mode %v", fi.Mode(), di.Mode())
	}
}

func TestFinishRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(l *Login, p *Pending, redirect string) string
		want   string
		left   bool // still pending
	}{
		{"wrong state", func(_ *Login, _ *Pending, r string) string { return r + "x" }, "the state is not", true},
		{"no code", func(_ *Login, p *Pending, _ string) string { return "state=" + p.State }, "neither code nor error", true},
		{"nonsense", func(*Login, *Pending, string) string { return "nonsense" }, "the state is not", true},
		{"other server", func(l *Login, _ *Pending, r string) string { l.Server.Name = "b"; return r }, `of server "lab"`, true},
		{"other url", func(l *Login, _ *Pending, r string) string { l.Server.URL.Path = "/b"; return r }, "url changed", true},
		{"other issuer", func(_ *Login, _ *Pending, r string) string { return r + "&iss=https://evil.example" }, "another authorization server", false},
		{"old", func(_ *Login, p *Pending, r string) string { p.Created = p.Created.Add(-pendingLife); return r }, "older than", false},
		{"of the future", func(_ *Login, p *Pending, r string) string { p.Created = p.Created.Add(time.Hour); return r }, "older than", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := newLoginLab(t)
			// The state comes last, so that one more letter changes it.
			lab.answer = func(q url.Values) {}
			l := lab.login(auth.OAuth{})
			dir := t.TempDir()
			p, redirect := started(t, lab, l, dir)
			err := l.Finish(labContext(t), p, c.change(l, p, redirect))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if lab.tokenForm != nil || lab.entry(l) != nil {
				t.Error("the code was used")
			}
			if _, err := os.Stat(p.file); (err == nil) != c.left {
				t.Errorf("pending file: %v, want it left: %v", err, c.left)
			}
			lab.noCanary(err)
		})
	}
}

// Of many that finish with the same answer, one does.
func TestFinishOnce(t *testing.T) {
	lab := newLoginLab(t)
	l := lab.login(auth.OAuth{})
	dir := t.TempDir()
	_, redirect := started(t, lab, l, dir)
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	var all []*Pending
	for range 8 {
		p, err := ReadPending(dir, redirect)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for _, p := range all {
		wg.Go(func() {
			err := (&Login{Server: l.Server, Vault: l.Vault}).Finish(labContext(t), p, redirect)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			} else if !errors.Is(err, ErrNoPending) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if done != 1 {
		t.Errorf("%d finished, want 1", done)
	}
}

func TestReadPendingDamaged(t *testing.T) {
	dir := t.TempDir()
	for name, raw := range map[string]string{"torn": `{"Server":"la`, "of another": `{"State":"other"}`} {
		if err := os.WriteFile(pendingFile(dir, labState), []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPending(dir, "code=x&state="+labState); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadPending(dir, "code=x"); err == nil || !strings.Contains(err.Error(), "state") {
		t.Errorf("without a state: %v", err)
	}
	if _, err := ReadPending(dir, "code=x&state=../../etc/passwd"); !errors.Is(err, ErrNoPending) {
		t.Errorf("a state that is a path: %v", err)
	}
}

func TestPendingBounds(t *testing.T) {
	dir := t.TempDir()
	for i := range maxPending {
		if err := (&Pending{State: fmt.Sprint(i)}).Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	late := &Pending{State: "late"}
	if err := late.Save(dir); err == nil {
		t.Error("no bound")
	}
	old := time.Now().Add(-2 * pendingLife)
	if err := os.Chtimes(pendingFile(dir, "7"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := late.Save(dir); err != nil {
		t.Errorf("one expired, and still: %v", err)
	}
}

// The file has no more secrets than it needs, and printing shows none.
func TestPendingSecrets(t *testing.T) {
	lab := newLoginLab(t)
	l := lab.login(auth.OAuth{ClientID: "me", ClientSecret: "configured-secret"})
	dir := t.TempDir()
	p, redirect := started(t, lab, l, dir)
	raw, err := os.ReadFile(p.file)
	if err != nil || strings.Contains(string(raw), "configured-secret") {
		t.Errorf("the file has the configured secret (%v)", err)
	}
	for _, s := range []string{fmt.Sprint(p), fmt.Sprintf("%+v", p), fmt.Sprintf("%#v", p)} {
		if strings.Contains(s, p.Verifier) || strings.Contains(s, p.State) {
			t.Errorf("shown: %s", s)
		}
	}
	if err := l.Finish(labContext(t), p, redirect); err != nil {
		t.Fatal(err)
	}
	if got := lab.tokenForm.Get("client_secret"); got != "configured-secret" {
		t.Errorf("the token endpoint got the secret %q", got)
	}
}

// A sidecar elsewhere begins and ends the login; browser and listener are here.
func TestRelay(t *testing.T) {
	lab := newLoginLab(t)
	remote := lab.login(auth.OAuth{})
	r := &Relay{Name: "lab", Open: visit, Out: &lab.out}
	var p *Pending
	answer, err := r.Run(labContext(t), func(redirect string) (string, error) {
		var err error
		remote.Redirect = redirect
		if p, err = remote.Start(labContext(t)); err != nil {
			return "", err
		}
		return p.URL(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Finish(labContext(t), p, answer); err != nil {
		t.Fatal(err)
	}
	if lab.entry(remote) == nil {
		t.Error("nothing is stored")
	}
	for _, u := range []string{"http://evil.example/?state=" + labState, "https://as.example/?state=short", "javascript:x"} {
		if _, err := r.Run(labContext(t), func(string) (string, error) { return u, nil }); err == nil {
			t.Errorf("%s was shown", u)
		}
	}
}

func TestStartKeepsStoredPort(t *testing.T) {
	lab := newLoginLab(t)
	l := lab.login(auth.OAuth{})
	first, _ := started(t, lab, l, "")
	e := &vault.Entry{Server: "lab", Issuer: lab.url, Client: (*vault.Client)(&first.Client)}
	if err := l.Vault.Save(e); err != nil {
		t.Fatal(err)
	}
	second, _ := started(t, lab, l, "")
	if diff := cmp.Diff(first.RedirectURI, second.RedirectURI); diff != "" || len(lab.registered) != 1 {
		t.Errorf("%d registrations: %s", len(lab.registered), diff)
	}
	l.Flow = FlowDevice
	if _, err := l.Start(labContext(t)); err == nil {
		t.Error("a device flow was started for later")
	}
}
