package oauth

import (
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

var defaultNoRedirect = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// The vectors of CVE-2025-6514 and their kin.
func TestBrowsable(t *testing.T) {
	for raw, want := range map[string]string{
		"https://as.example/authorize?b=1&a=x%20y":   "https://as.example/authorize?a=x+y&b=1",
		"http://127.0.0.1:80/a":                      "http://127.0.0.1:80/a",
		"http://localhost/a":                         "http://localhost/a",
		"http://[::1]:1/a":                           "http://[::1]:1/a",
		"https://as.example/$(calc.exe)`id`;ls|x'\"": "https://as.example/%24%28calc.exe%29%60id%60%3Bls%7Cx%27%22",
		"https://as.example/a%2Fb":                   "https://as.example/a%2Fb",
		"https://as.example/?q=$(id)`x`'":            "https://as.example/?q=%24%28id%29%60x%60%27",
		"http://as.example/":                         "",
		"http://127.0.0.1.evil.example/":             "",
		"a:$(cmd.exe /c whoami)?response_type=code":  "",
		"https://$(calc.exe)/":                       "",
		"https://a&b/":                               "",
		"https://a`b`/":                              "",
		"https://-oProxy/":                           "",
		"javascript:alert(1)":                        "",
		"file:///etc/passwd":                         "",
		"data:text/html,x":                           "",
		"vscode://x":                                 "",
		"https://u:p@as.example/":                    "",
		"https://as.example/#x":                      "",
		"https://as.example/?a=b;c":                  "",
		"https://as.example/\nx":                     "",
		"https:///x":                                 "",
		"--version":                                  "",
		"":                                           "",
		"https://as.example/" + strings.Repeat("x", maxVisit): "",
	} {
		got, err := browsable(raw)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.60q: got %q, %v, want %q", raw, got, err, want)
		}
	}
}

func FuzzBrowsable(f *testing.F) {
	for _, s := range []string{"https://as.example/a?b=c", "http://127.0.0.1/%24", "https://[::1]/;", "x:y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := browsable(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(got, " $`'\"();|<>\\\n\t!*") || !strings.HasPrefix(got, "http") {
			t.Errorf("%q becomes %q", s, got)
		}
		if again, err := browsable(got); again != got {
			t.Errorf("%q becomes %q, then %q (%v)", s, got, again, err)
		}
	})
}

func TestOpenBrowserWhenThereIsOne(t *testing.T) {
	bare := runtime.GOOS == "darwin"
	for _, c := range []struct {
		env  []string
		want bool
	}{
		{nil, bare},
		{[]string{"DISPLAY=:0"}, true},
		{[]string{"WAYLAND_DISPLAY=w"}, true},
		{[]string{"BROWSER=x"}, true},
		{[]string{"DISPLAY="}, bare},
		{[]string{"DISPLAY=:0", "SSH_TTY=/dev/pts/1"}, false},
		{[]string{"BROWSER=x", "SSH_CLIENT=1"}, false},
	} {
		if got := OpenBrowser(c.env) != nil; got != c.want {
			t.Errorf("%q: got %v, want %v", c.env, got, c.want)
		}
	}
}

func TestOpeners(t *testing.T) {
	for named, want := range map[string][][]string{
		"a:b --new %s": {{"a"}, {"b", "--new", "%s"}},
		" : ":          {{"xdg-open"}},
		os.Args[0]:     {{os.Args[0]}},
	} {
		if runtime.GOOS == "darwin" && named == " : " {
			continue
		}
		if diff := cmp.Diff(want, openers(named)); diff != "" {
			t.Errorf("%q: %s", named, diff)
		}
	}
}

// A real program is started with the URL; the first of the list is missing.
func TestLoginThroughBrowserCommand(t *testing.T) {
	lab := newLoginLab(t)
	l := lab.login(auth.OAuth{})
	l.Open = OpenBrowser([]string{"BROWSER=/nowhere/browser:" + os.Args[0] + " %s", browserEnv + "=1", "GORACE=atexit_sleep_ms=0"})
	if err := l.Run(labContext(t)); err != nil {
		t.Fatal(err)
	}
	if lab.entry(l) == nil {
		t.Error("nothing is stored")
	}
	if err := OpenBrowser([]string{"BROWSER=/nowhere/browser"})("https://as.example/"); err == nil {
		t.Error("no error of a browser that is missing")
	}
	if err := OpenBrowser([]string{"BROWSER=" + os.Args[0]})("file:///etc/passwd"); err == nil {
		t.Error("a file was opened")
	}
}
