package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// canary is in every secret of these tests, and must be in no log and no error.
const canary = "CANARY"

func TestMain(m *testing.M) {
	if mode := os.Getenv("VAULT_TEST_CHILD"); mode != "" {
		os.Exit(child(mode))
	}
	os.Exit(m.Run())
}

// A lab is a vault whose log is kept, and searched for secrets in the end.
type lab struct {
	*Vault
	t   *testing.T
	log *bytes.Buffer
}

func newLab(t *testing.T) *lab {
	l := &lab{t: t, log: &bytes.Buffer{}}
	l.Vault = &Vault{Dir: filepath.Join(t.TempDir(), "profile"), Log: slog.New(slog.NewTextHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	t.Cleanup(func() { l.clean(l.log.String()) })
	return l
}

func (l *lab) clean(s string) {
	l.t.Helper()
	if strings.Contains(s, canary) || strings.Contains(s, strings.ToLower(canary)) {
		l.t.Errorf("a secret is in %q", s)
	}
}

func (l *lab) save(e *Entry) {
	l.t.Helper()
	if err := l.Save(e); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) load(server string) *Entry {
	l.t.Helper()
	e, err := l.Load(server)
	if err != nil {
		l.t.Fatal(err)
	}
	return e
}

// warned returns what was logged since the last time.
func (l *lab) warned() string {
	s := l.log.String()
	l.clean(s)
	l.log.Reset()
	return s
}

func (l *lab) put(server, text string) {
	l.t.Helper()
	if err := errors.Join(os.MkdirAll(l.Dir, 0o700), os.WriteFile(l.path(server), []byte(text), 0o600)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) text(path string) string {
	l.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(b)
}

func full(server string) *Entry {
	return &Entry{
		Server: server, URL: "https://mcp.example.com/mcp", Issuer: "https://as.example.com/",
		Access: canary + "-access", Type: "Bearer", Refresh: canary + "-refresh", Scope: "read write",
		Expiry: time.Date(2031, 2, 3, 4, 5, 6, 789, time.UTC), RefusedDocument: true,
		Client: &Client{ID: "it's <me> & \"you\"", Secret: canary + "-secret", AuthMethod: "client_secret_post", Kind: "registered",
			SecretExpires: time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC), RedirectURIs: []string{"http://127.0.0.1:1/callback"}, Issuer: "https://as.example.com/"},
		Provider: json.RawMessage(`{"issuer":"https://as.example.com/","n":12345678901234567890}`),
	}
}

var plainly = cmpopts.IgnoreFields(Entry{}, "Updated")

func TestRoundTrip(t *testing.T) {
	for name, key := range map[string][]byte{"open": nil, "sealed": bytes.Repeat([]byte{7}, KeySize)} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.Key = key
			if got := l.load("a"); got != nil {
				t.Fatalf("got %v of an empty vault", got)
			}
			if _, err := os.Lstat(l.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Error("reading made the directory")
			}
			for _, want := range []*Entry{full("a"), {Server: "bare"}, {Server: "a.b", Access: canary}, {Server: "a_b", Client: &Client{ID: "x"}}} {
				before := time.Now()
				l.save(want)
				got := l.load(want.Server)
				if diff := cmp.Diff(want, got, plainly); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if got.Updated.Before(before.Add(-time.Second)) || got.Updated.After(time.Now()) {
					t.Errorf("updated %s", got.Updated)
				}
				if strings.Contains(l.text(l.path(want.Server)), canary) != (key == nil && want.Access != "") {
					t.Errorf("on disk: %.40q", l.text(l.path(want.Server)))
				}
			}
			names, err := l.Names()
			if diff := cmp.Diff([]string{"a", "a.b", "a_b", "bare"}, names); diff != "" || err != nil {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
			if w := l.warned(); w != "" {
				t.Errorf("warned %q", w)
			}
		})
	}
}

func TestModes(t *testing.T) {
	l := newLab(t)
	l.save(full("a"))
	mode := func(path string) string {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%04o", info.Mode().Perm())
	}
	if d, f := mode(l.Dir), mode(l.path("a")); d != "0700" || f != "0600" {
		t.Fatalf("made %s, %s", d, f)
	}
	if err := errors.Join(os.Chmod(l.Dir, 0o755), os.Chmod(l.path("a"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if l.load("a") == nil {
		t.Error("looser credentials were not read")
	}
	if d, f := mode(l.Dir), mode(l.path("a")); d != "0700" || f != "0600" {
		t.Errorf("tightened to %s, %s", d, f)
	}
	if w := l.warned(); !strings.Contains(w, "mode=0755") || !strings.Contains(w, "mode=0644") {
		t.Errorf("warned %q", w)
	}
	if l.load("a"); l.warned() != "" {
		t.Error("warned again")
	}
}

// TestRefused is line O14 of the fault catalogue: what somebody else put there.
func TestRefused(t *testing.T) {
	link := func(path string) error {
		return errors.Join(os.Rename(path, path+".moved"), os.Symlink(path+".moved", path))
	}
	foreign := func(l *lab, path string) error {
		if os.Geteuid() != 0 {
			l.t.Skip("needs root")
		}
		return os.Lchown(path, 4242, -1)
	}
	for name, tc := range map[string]struct {
		spoil func(l *lab) error
		want  string
	}{
		"directory is a link":          {func(l *lab) error { return link(l.Dir) }, "it is no directory"},
		"directory is a link, slash":   {func(l *lab) error { err := link(l.Dir); l.Dir += "/"; return err }, "it is no directory"},
		"directory of another user":    {func(l *lab) error { return foreign(l, l.Dir) }, "it belongs to another user"},
		"directory is a file":          {func(l *lab) error { l.Dir = l.path("a"); return nil }, "it is no directory"},
		"file is a link":               {func(l *lab) error { return link(l.path("a")) }, "it is a symbolic link"},
		"file is a link to nowhere":    {func(l *lab) error { return errors.Join(os.Remove(l.path("a")), os.Symlink("/nowhere", l.path("a"))) }, "it is a symbolic link"},
		"file of another user":         {func(l *lab) error { return foreign(l, l.path("a")) }, "it belongs to another user"},
		"directory of no name":         {func(l *lab) error { l.Dir = ""; return nil }, "no directory is set"},
		"key of 31 bytes":              {func(l *lab) error { l.Key = make([]byte, 31); return nil }, "the encryption key has 31 bytes, want 32"},
		"key of no bytes, but it is a": {func(l *lab) error { l.Key = []byte{}; return nil }, "the encryption key has 0 bytes, want 32"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.save(full("a"))
			if err := tc.spoil(l); err != nil {
				t.Fatal(err)
			}
			_, loadErr := l.Load("a")
			for op, err := range map[string]error{"load": loadErr, "save": l.Save(full("a"))} {
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), `credentials of "a"`) {
					t.Errorf("%s: got %v, want %q", op, err, tc.want)
				}
				l.clean(fmt.Sprint(err))
			}
		})
	}
}

// TestRefusedFileCanBeDeleted holds that logout is a way out, and leaves alone what
// the link points to.
func TestRefusedFileCanBeDeleted(t *testing.T) {
	l := newLab(t)
	l.save(full("a"))
	target := filepath.Join(t.TempDir(), "target")
	if err := errors.Join(os.Rename(l.path("a"), target), os.Symlink(target, l.path("a")), l.Delete("a")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(l.text(target), canary) || l.load("a") != nil {
		t.Error("the link's target was deleted, or the link was not")
	}
	l.save(full("a"))
}

func TestLockRefusesLinks(t *testing.T) {
	l := newLab(t)
	l.save(full("a"))
	if err := os.Symlink(filepath.Join(t.TempDir(), "x"), filepath.Join(l.Dir, "a.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lock(t.Context(), "a"); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
}

// TestBadFiles is line O14 of the fault catalogue: each counts as absent, the
// warning names fields only, and a new login heals it.
func TestBadFiles(t *testing.T) {
	head := `"version":1,"server":"a","updated":"2030-01-01T00:00:00Z",`
	entry := func(members string) string { return `{` + head + `"entry":{"server":"a",` + members + `}}` }
	for name, tc := range map[string]struct{ text, fields string }{
		"empty":                  {"", "[everything]"},
		"truncated":              {entry(`"access":"CANARY"`)[:90], "[everything]"},
		"zeroes":                 {strings.Repeat("\x00", 300), "[everything]"},
		"null":                   {"null", "[everything]"},
		"list":                   {`["CANARY"]`, "[everything]"},
		"not UTF-8":              {entry("\"access\":\"CANARY\xff\""), "[everything]"},
		"trailing data":          {entry(`"access":"CANARY"`) + "{}", "[everything]"},
		"deep":                   {strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000), "[everything]"},
		"too long":               {entry(`"access":"CANARY"`) + strings.Repeat(" ", maxFile), "[everything]"},
		"no version":             {`{"server":"a","entry":{"server":"a"}}`, "[version]"},
		"version 0":              {`{"version":0,"server":"a","entry":{"server":"a"}}`, "[version]"},
		"version is text":        {`{"version":"CANARY","server":"a","entry":{"server":"a"}}`, "[version]"},
		"version 1e99":           {`{"version":1e99,"server":"a","entry":{"server":"a"}}`, "[version]"},
		"no server":              {`{"version":1,"entry":{"server":"a"}}`, "[server]"},
		"of another server":      {`{"version":1,"server":"CANARY","entry":{"server":"CANARY"}}`, "[server]"},
		"entry of another":       {`{` + head + `"entry":{"server":"CANARY"}}`, "[entry.server]"},
		"no entry":               {`{` + head + `"x":1}`, "[everything]"},
		"entry is text":          {`{` + head + `"entry":"CANARY"}`, "[everything]"},
		"deleted is text":        {`{` + head + `"deleted":"CANARY"}`, "[deleted]"},
		"updated is no time":     {`{"version":1,"server":"a","updated":"CANARY","entry":{"server":"a"}}`, "[updated]"},
		"access is a number":     {entry(`"access":12,"refresh":"CANARY"`), "[access]"},
		"access ends a line":     {entry(`"access":"CANARY\r\nX: y"`), "[access]"},
		"two fields":             {entry(`"refresh":["CANARY"],"expiry":"CANARY"`), `"[expiry refresh]"`},
		"expiry is a number":     {entry(`"expiry":1e300`), "[expiry]"},
		"client is text":         {entry(`"client":"CANARY"`), `"[client.everything client.id]"`},
		"client without id":      {entry(`"client":{"secret":"CANARY"}`), "[client.id]"},
		"client secret, number":  {entry(`"client":{"id":"x","secret":{"CANARY":1}}`), "[client.secret]"},
		"client redirect_uris":   {entry(`"client":{"id":"x","redirect_uris":"CANARY"}`), "[client.redirect_uris]"},
		"refused_document":       {entry(`"refused_document":"CANARY"`), "[refused_document]"},
		"sealed is no base64":    {`{` + head + `"key":"00","sealed":"CANARY!"}`, "[sealed]"},
		"unknown is no fault of": {entry(`"later":"CANARY"`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.put("a", tc.text)
			got := l.load("a")
			w := l.warned()
			if (got != nil) != (tc.fields == "") {
				t.Errorf("loaded: %v", got)
			}
			if tc.fields != "" && (!strings.Contains(w, "fields="+tc.fields+"\n") || !strings.Contains(w, "server=a path=")) {
				t.Errorf("warned %q, want fields %s", w, tc.fields)
			}
			if l.text(l.path("a")) != tc.text {
				t.Error("reading changed the file")
			}
			l.save(full("a"))
			if l.load("a") == nil {
				t.Error("a login did not heal it")
			}
		})
	}
}

func TestNoFile(t *testing.T) {
	l := newLab(t)
	l.save(full("other"))
	if err := os.Mkdir(l.path("a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := l.load("a"); got != nil || !strings.Contains(l.warned(), "fields=[everything]") {
		t.Errorf("got %v", got)
	}
	if err := l.Save(full("a")); err == nil {
		t.Error("saved over a directory")
	}
	if left := temps(t, l.Dir); left != nil {
		t.Errorf("left %q", left)
	}
}

func TestNewerVersion(t *testing.T) {
	l := newLab(t)
	first := `{"version":2,"credentials":"CANARY-1"}`
	l.put("a", first)
	if got := l.load("a"); got != nil || !strings.Contains(l.warned(), "newer version of this program") {
		t.Fatalf("got %v", got)
	}
	if names, err := l.Names(); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("got %q, %v", names, err)
	}
	l.save(full("a"))
	bak := l.path("a") + backupSuffix
	if l.text(bak) != first || l.load("a") == nil || !strings.Contains(l.warned(), "put by") {
		t.Error("the newer file was not put by")
	}
	l.put("a", `{"version":3,"credentials":"CANARY-2"}`)
	l.save(full("a"))
	if l.text(bak) != first || !strings.Contains(l.warned(), "earlier ones are still kept") {
		t.Error("the first one put by was lost")
	}
	if err := l.Delete("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(bak); !errors.Is(err, fs.ErrNotExist) {
		t.Error("secrets are left after a logout")
	}
}

func TestSaveRefusesWhatLoadWould(t *testing.T) {
	for name, tc := range map[string]struct {
		e    *Entry
		want string
	}{
		"control":  {&Entry{Server: "a", Access: "CANARY\n"}, "what cannot be kept as text or time: access"},
		"bytes":    {&Entry{Server: "a", Refresh: "CANARY\xff"}, "what cannot be kept as text or time: refresh"},
		"time":     {&Entry{Server: "a", Expiry: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}, "what cannot be kept as text or time: expiry"},
		"provider": {&Entry{Server: "a", Provider: json.RawMessage(`{CANARY`)}, "what cannot be kept as text or time: provider"},
		"client":   {&Entry{Server: "a", Client: &Client{Secret: canary}}, "what cannot be kept as text or time: client.id"},
		"long":     {&Entry{Server: "a", Access: strings.Repeat(canary, maxFile/6)}, "they take more than 1048576 bytes"},
		"no name":  {&Entry{Access: canary}, "the server has no name"},
		"name":     {&Entry{Server: "\xff", Access: canary}, "the server's name is not UTF-8"},
		"names":    {&Entry{Server: strings.Repeat("a", maxName+1), Access: canary}, "the server's name is longer than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.save(full("a"))
			err := l.Save(tc.e)
			if err == nil || !strings.HasSuffix(err.Error(), "not saved: "+tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			l.clean(fmt.Sprint(err))
			if diff := cmp.Diff(full("a"), l.load("a"), plainly); diff != "" {
				t.Errorf("the old one is gone: %s", diff)
			}
		})
	}
}

func TestStamp(t *testing.T) {
	l := newLab(t)
	if l.Stamp("a") != (Stamp{}) {
		t.Error("a stamp of nothing")
	}
	for i := range 20 {
		was := l.Stamp("a")
		l.save(&Entry{Server: "a", Access: fmt.Sprint("same size ", i%10)})
		if s := l.Stamp("a"); s == was || s != l.Stamp("a") {
			t.Errorf("save %d: stamp %v after %v", i, s, was)
		}
	}
	before := l.Stamp("a")
	if l.save(&Entry{Server: "b"}); l.Stamp("a") != before {
		t.Error("another server's save changed it")
	}
	if l.save(&Entry{Server: "a", Access: "same size 0"}); l.Stamp("a") == before {
		t.Error("a save did not change it")
	}
	if err := l.Delete("a"); err != nil || l.Stamp("a") != (Stamp{}) {
		t.Errorf("deleted: %v %v", err, l.Stamp("a"))
	}
}

// TestShow holds that no way of printing shows a secret.
func TestShow(t *testing.T) {
	l := newLab(t)
	e := full("a")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, v := range []any{e, *e, e.Client, *e.Client, []*Entry{e}, struct{ E *Entry }{e}} {
			s := fmt.Sprintf(verb, v)
			l.clean(s)
			if strings.Contains(s, fmt.Sprintf("%x", canary)) {
				t.Errorf("%s: %s", verb, s)
			}
		}
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(l.log, nil), slog.NewJSONHandler(l.log, nil)} {
		slog.New(h).Info("x", "entry", e, "value", *e, "client", e.Client)
	}
	if s := l.warned(); !strings.Contains(s, "refresh: true") {
		t.Errorf("got %q", s)
	}
}

// temps are the files of writers that are not done.
func temps(t *testing.T, dir string) (left []string) {
	t.Helper()
	names, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, tempPrefix) {
			left = append(left, name)
		}
	}
	return left
}
