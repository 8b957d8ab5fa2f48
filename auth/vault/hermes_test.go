package vault

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// write makes a Hermes directory, all of it last written to at the same time.
func write(t *testing.T, files map[string]string, at time.Time) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = fmt.Sprint(info.Mode(), info.ModTime(), string(b))
	}
	return all
}

var mtime = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func TestImportHermes(t *testing.T) {
	dir := write(t, map[string]string{
		"linear.json": `{"access_token":"CANARY-a","token_type":"bearer","expires_in":3600,"refresh_token":"CANARY-r","scope":"read",
			"expires_at":1900000000.5,"hermes_issuer":"https://as.example.com","later":{}}`,
		"linear.client.json": `{"client_id":"c1","client_secret":"CANARY-s","client_secret_expires_at":0,"redirect_uris":["http://127.0.0.1:9/callback"],
			"token_endpoint_auth_method":"client_secret_post","grant_types":["authorization_code"],"issuer":"https://as.example.com"}`,
		"linear.meta.json":       `{"issuer":"https://as.example.com/","token_endpoint":"https://as.example.com/token"}`,
		"linear.cimd-off":        "",
		"my_x.json":              `{"access_token":"CANARY-b","expires_in":"60"}`,
		"my_x.client.json":       `{"client_id":"https://me.example.com/client.json","client_secret_expires_at":1900000000}`,
		"only.client.json":       `{"client_id":"c2","issuer":"https://as.example.com"}`,
		"bad.json":               `{"access_token":12,"refresh_token":"CANARY-c"}`,
		"bad.client.json":        `{"client_id":"","client_secret":"CANARY"}`,
		"half.json":              `{"access_token":"CANARY-d\n"}`,
		"half.client.json":       `{"client_id":"c3","redirect_uris":"CANARY"}`,
		"no-access.json":         `{"refresh_token":"CANARY-e"}`,
		"no-times.json":          `{"access_token":"CANARY-f","expires_in":"soon","expires_at":1e300}`,
		"there.json":             `{"access_token":"CANARY-g"}`,
		"a_b.json":               `{"access_token":"CANARY-h"}`,
		"huge.json":              strings.Repeat(" ", maxFile+1),
		"default.json":           `{"access_token":"CANARY-i"}`,
		"linear.client.json.bak": "CANARY",
	}, mtime)
	before := contents(t, dir)
	l := newLab(t)
	l.save(&Entry{Server: "there", Access: "mine"})
	l.save(&Entry{Server: "only", Provider: []byte(`{}`)}) // no tokens: nothing to lose
	got, err := ImportHermes(dir, l.Vault, []string{"linear", "my x", "only", "bad", "half", "no-access", "no-times", "there", "a.b", "a b", "huge", "...", "gone"})
	if err != nil {
		t.Fatal(err)
	}
	noMeta := func(base string) string { return "metadata: there is no " + base + ".meta.json" }
	noClient := func(base string) string { return "client: there is no " + base + ".client.json" }
	nothing := "everything: there are no tokens and no client to copy"
	shared := `everything: Hermes keeps ["a.b" "a b"] in the same files, and they do not say whose they are: log in to each`
	want := []Imported{
		{"linear", []string{"tokens", "client", "document refusal"}, []string{"metadata: it is found anew; only the issuer was taken"}},
		{"my x", []string{"tokens", "client"}, []string{noMeta("my_x")}},
		{"only", []string{"client"}, []string{"tokens: there is no only.json", noMeta("only")}},
		{"bad", nil, []string{"tokens: damaged: access_token", "client: damaged: client.id", noMeta("bad"), nothing}},
		{"half", nil, []string{"tokens: damaged: access", "client: damaged: redirect_uris", noMeta("half"), nothing}},
		{"no-access", nil, []string{"tokens: damaged: access_token", noClient("no-access"), noMeta("no-access"), nothing}},
		{"no-times", []string{"tokens"}, []string{noClient("no-times"), noMeta("no-times")}},
		{"there", nil, []string{noClient("there"), noMeta("there"), "everything: there are credentials already: log out first to take those of Hermes"}},
		{"a.b", nil, []string{shared}},
		{"a b", nil, []string{shared}},
		{"huge", nil, []string{"tokens: no regular file of at most 1048576 bytes", noClient("huge"), noMeta("huge"), nothing}},
		{"...", []string{"tokens"}, []string{noClient("default"), noMeta("default")}},
		{"gone", nil, []string{"tokens: there is no gone.json", noClient("gone"), noMeta("gone"), nothing}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report, -want +got:\n%s", diff)
	}
	l.clean(fmt.Sprint(got))
	for _, want := range []*Entry{
		{Server: "linear", Issuer: "https://as.example.com/", Access: "CANARY-a", Type: "bearer", Refresh: "CANARY-r", Scope: "read", RefusedDocument: true,
			Expiry: time.Unix(1900000000, 5e8).UTC(), Client: &Client{ID: "c1", Secret: "CANARY-s", AuthMethod: "client_secret_post", Kind: "registered",
				RedirectURIs: []string{"http://127.0.0.1:9/callback"}, Issuer: "https://as.example.com/"}},
		{Server: "my x", Access: "CANARY-b", Type: "Bearer", Expiry: mtime.Add(time.Minute),
			Client: &Client{ID: "https://me.example.com/client.json", Kind: "document", SecretExpires: time.Unix(1900000000, 0).UTC()}},
		{Server: "only", Client: &Client{ID: "c2", Kind: "registered", Issuer: "https://as.example.com"}},
		{Server: "no-times", Access: "CANARY-f", Type: "Bearer"},
		{Server: "there", Access: "mine"},
		{Server: "...", Access: "CANARY-i", Type: "Bearer"},
	} {
		if diff := cmp.Diff(want, l.load(want.Server), plainly); diff != "" {
			t.Errorf("%s, -want +got:\n%s", want.Server, diff)
		}
	}
	if names := l.names(); names != "... linear my x no-times only there" {
		t.Errorf("got %q", names)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("the source changed:\n%s", diff)
	}
}

func TestImportHermesErrors(t *testing.T) {
	l := newLab(t)
	dir := write(t, map[string]string{"a.json": `{"access_token":"CANARY"}`}, mtime)
	for _, from := range []string{"/nowhere", filepath.Join(dir, "a.json")} {
		if got, err := ImportHermes(from, l.Vault, []string{"a"}); err == nil || got != nil {
			t.Errorf("%s: got %v, %v", from, got, err)
		}
	}
	bad := &Vault{Dir: filepath.Join(dir, "a.json")}
	if got, err := ImportHermes(dir, bad, []string{"a", "b"}); err == nil || len(got) != 1 || got[0].Parts != nil || strings.Contains(err.Error(), canary) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestHermesName(t *testing.T) {
	for server, want := range map[string]string{
		"linear": "linear", "a.b": "a_b", "a_b": "a_b", "_a-b_": "a-b", "é²日": "é²日", "e\u0301": "e", "": "default", "...": "default", "../x": "x",
		strings.Repeat("é", 200): strings.Repeat("é", 128), "x\xffy": "x_y",
	} {
		if got := hermesName(server); got != want {
			t.Errorf("%q: got %q, want %q", server, got, want)
		}
	}
}

// TestHermesTimes: a time that nobody can mean is none.
func TestHermesTimes(t *testing.T) {
	times := map[string]float64{"60": 60, "60.5": 60.5, `"60"`: 60, "-1": 0, "1e300": 0, "1e999": 0, `"soon"`: 0, `"NaN"`: 0, `"Inf"`: 0, "[1]": 0, "{}": 0, "true": 0, `"` + fmt.Sprint(maxSeconds) + `"`: maxSeconds}
	for _, text := range slices.Sorted(maps.Keys(times)) {
		var got seconds
		if err := got.UnmarshalJSON([]byte(text)); err != nil || float64(got) != times[text] {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	if e := (&Entry{Expiry: seconds(maxSeconds).since(mtime)}); e.bad() != nil {
		t.Errorf("%s cannot be kept", e.Expiry)
	}
}
