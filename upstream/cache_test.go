package upstream

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// Kept lists that cannot be used are named once, with the reason; what is merely
// not there, or of another version, is no word worth.
func TestCacheTold(t *testing.T) {
	var log bytes.Buffer
	c := &Cache{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))}
	s := newServer(&Set{}, Server{Name: "a", Settings: &Settings{Command: "x", Lazy: true}})
	path := c.file(s, Legacy)
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"absent", "", 0, ""},
		{"damaged", `{"Version":1,"Tools":["hunter2`, 0o600, "it is damaged"},
		{"entry", `{"Version":1,"Server":"a","Tools":["eyJ4"]}`, 0o600, "it is damaged"},
		{"others", `{"Version":1,"Server":"a"}`, 0o622, "others may write to it"},
		{"other server", `{"Version":1,"Server":"b"}`, 0o600, "it is of another server or era"},
		{"version", `{"Version":9}`, 0o600, ""},
	} {
		if tt.mode != 0 {
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
		}
		log.Reset()
		if c.load(s) != nil {
			t.Errorf("%s: got a listing", tt.name)
		}
		got := log.String()
		switch {
		case tt.want == "" && got != "":
			t.Errorf("%s: got %q, want nothing", tt.name, got)
		case strings.Count(got, "\n") > 1, !strings.Contains(got, tt.want), tt.want != "" && !strings.Contains(got, path), strings.Contains(got, "hunter2"):
			t.Errorf("%s: got %q, want one line with %q and the path", tt.name, got, tt.want)
		}
	}
}
