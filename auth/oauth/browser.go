package oauth

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"unicode"
)

// maxVisit bounds a URL for a browser, in bytes.
const maxVisit = 16 << 10

// OpenBrowser gives what opens a URL in a browser of the person's desktop, or nil
// when there is none to open: over SSH it would come up on the wrong screen, and
// without a display only $BROWSER says what to start. The program started gets
// environ and no shell.
func OpenBrowser(environ []string) func(url string) error {
	named := lookup(environ, "BROWSER")
	display := lookup(environ, "DISPLAY") != "" || lookup(environ, "WAYLAND_DISPLAY") != ""
	if overSSH(environ) || named == "" && runtime.GOOS != "darwin" && !display {
		return nil
	}
	return func(raw string) error {
		visit, err := browsable(raw)
		if err != nil {
			return err
		}
		return startFirst(openers(named), visit, environ)
	}
}

func overSSH(environ []string) bool {
	return lookup(environ, "SSH_CLIENT") != "" || lookup(environ, "SSH_TTY") != ""
}

// lookup is the value of a variable; the last one counts, as for exec.
func lookup(environ []string, name string) (val string) {
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			val = v
		}
	}
	return val
}

// openers are the commands to try. $BROWSER is a list of them, each with %s where
// the URL goes, or at the end.
func openers(named string) (all [][]string) {
	if _, err := exec.LookPath(named); err == nil {
		return [][]string{{named}} // a path may have colons and blanks
	}
	for cmd := range strings.SplitSeq(named, ":") {
		if words := strings.Fields(cmd); len(words) > 0 {
			all = append(all, words)
		}
	}
	if len(all) > 0 {
		return all
	}
	if runtime.GOOS == "darwin" {
		return [][]string{{"/usr/bin/open"}}
	}
	return [][]string{{"xdg-open"}}
}

func startFirst(cmds [][]string, visit string, environ []string) error {
	var faults []error
	for _, words := range cmds {
		err := startBrowser(words, visit, environ)
		if err == nil {
			return nil
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func startBrowser(words []string, visit string, environ []string) error {
	args, placed := make([]string, 0, len(words)), false
	for _, w := range words[1:] {
		placed = placed || strings.Contains(w, "%s")
		args = append(args, strings.ReplaceAll(w, "%s", visit))
	}
	if !placed {
		args = append(args, visit)
	}
	cmd := exec.Command(words[0], args...)
	cmd.Env = environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C ends the login, not the browser
	if err := cmd.Start(); err != nil {
		return err
	}
	go reap(cmd)
	return nil
}

// reap ends when the browser does. Nobody waits for that.
func reap(cmd *exec.Cmd) { cmd.Wait() }

// browsable is a URL in a form that no browser and no script around one takes for
// anything else, or an error.
func browsable(raw string) (string, error) {
	u, err := parseBrowsable(raw)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// parseBrowsable parses a URL that a server supplied and a person will visit.
func parseBrowsable(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxVisit:
		return nil, fmt.Errorf("URL is longer than %d bytes", maxVisit)
	case err != nil || u.Opaque != "" || !plainHost(u.Hostname()):
		return nil, errors.New("not a URL that can be visited")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopbackHost(u.Hostname())):
		return nil, fmt.Errorf("scheme %.20q is refused: only https, and http on this machine", u.Scheme)
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("URL has a user or a fragment")
	}
	return reencode(u)
}

// reencode escapes whatever a shell could take for its own, though none should
// see it: opening a browser ends in scripts on most desktops (CVE-2025-6514).
func reencode(u *url.URL) (*url.URL, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("URL has a malformed query")
	}
	clean := &url.URL{Scheme: u.Scheme, Host: u.Host, RawQuery: q.Encode()}
	path := shellEscaper.Replace(u.EscapedPath())
	if clean.Path, err = url.PathUnescape(path); err != nil {
		return nil, errors.New("URL has a malformed path")
	}
	clean.RawPath = path
	return clean, nil
}

var shellEscaper = strings.NewReplacer("$", "%24", "&", "%26", "'", "%27", "(", "%28", ")", "%29", "*", "%2A",
	";", "%3B", "!", "%21", "[", "%5B", "]", "%5D", "`", "%60", "|", "%7C", "\\", "%5C", "\"", "%22", "<", "%3C", ">", "%3E")

// plainHost reports whether s is an address or a name of the usual letters.
func plainHost(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Zone() == ""
	}
	return s != "" && len(s) <= 253 && !strings.HasPrefix(s, "-") && !strings.ContainsFunc(s, func(r rune) bool { return !wordRune(r) })
}

// loopbackHost reports whether a host is this machine.
func loopbackHost(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}

// graphic is foreign text for a terminal: graphic characters, at most n bytes.
func graphic(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s[:min(len(s), 4*n)])
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
