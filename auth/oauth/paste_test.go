package oauth

import (
	"bufio"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

// pasteLogin runs a login at whose prompt lines are typed; in each, STATE is the
// login's and URI the redirect URI.
func pasteLogin(t *testing.T, lab *loginLab, lines ...string) (*Login, error) {
	t.Helper()
	in, keys := io.Pipe()
	defer keys.Close()
	l := lab.login(auth.OAuth{})
	l.In = in
	l.Open = func(u string) error {
		if err := visitNoRedirect(u); err != nil {
			return err
		}
		lab.mu.Lock()
		fill := strings.NewReplacer("STATE", lab.asked.Get("state"), "URI", lab.asked.Get("redirect_uri"))
		lab.mu.Unlock()
		go func() {
			for _, line := range lines {
				io.WriteString(keys, fill.Replace(line)+"\n")
			}
		}()
		return nil
	}
	err := l.Run(labContext(t))
	return l, err
}

// visitNoRedirect is a browser on a machine that cannot reach the listener.
func visitNoRedirect(u string) error {
	req, err := url.Parse(u)
	if err != nil {
		return err
	}
	c := *defaultNoRedirect
	res, err := c.Get(req.String())
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func TestPaste(t *testing.T) {
	const code = "code=" + labCode + "&state=STATE"
	for name, lines := range map[string][]string{
		"url":                 {"URI?" + code},
		"other host and path": {"https://elsewhere.example/x?" + code},
		"bare query":          {code},
		"query with mark":     {"?" + code},
		"quoted":              {"  '\"<URI?" + code + ">\"'  "},
		"fragment":            {"URI?" + code + "#_=_"},
		"carriage return":     {"URI?" + code + "\r"},
		"after wrong ones": {"", "nonsense", "https://x.example/", "URI?code=evil&state=evil", "URI?state=STATE", "code=evil",
			strings.Repeat("x", 3*maxAnswer), "URI?" + code},
	} {
		t.Run(name, func(t *testing.T) {
			lab := newLoginLab(t)
			l, err := pasteLogin(t, lab, lines...)
			if err != nil {
				t.Fatal(err)
			}
			if e := lab.entry(l); e == nil || e.Access != labAccess {
				t.Errorf("stored %v", e)
			}
			if !strings.Contains(lab.out.String(), "Or paste the redirect URL here") {
				t.Errorf("printed %q", lab.out.String())
			}
			lab.noCanary()
		})
	}
}

func TestPasteSkips(t *testing.T) {
	for _, word := range append(skipWords, " SKIP ", "'Quit'") {
		lab := newLoginLab(t)
		l, err := pasteLogin(t, lab, word)
		if !errors.Is(err, ErrSkipped) {
			t.Errorf("%q: error %v", word, err)
		}
		if lab.entry(l) != nil {
			t.Errorf("%q: something is stored", word)
		}
	}
}

func TestPasteChecksIssuer(t *testing.T) {
	lab := newLoginLab(t)
	_, err := pasteLogin(t, lab, "URI?code="+labCode+"&state=STATE&iss=https://evil.example")
	if err == nil || !strings.Contains(err.Error(), "another authorization server") || lab.tokenForm != nil {
		t.Errorf("error %v", err)
	}
	lab.noCanary(err)
}

// A terminal that is closed, or says too much, leaves the browser's answer.
func TestPasteEnds(t *testing.T) {
	for name, text := range map[string]string{"eof": "", "chatter": strings.Repeat("x\n", 3*maxWrongPastes)} {
		t.Run(name, func(t *testing.T) {
			lab := newLoginLab(t)
			l := lab.login(auth.OAuth{})
			done := make(chan struct{})
			l.In = &endSignal{Reader: strings.NewReader(text), done: done}
			l.Open = func(u string) error {
				go func() {
					<-done
					visit(u)
				}()
				return nil
			}
			if name == "chatter" {
				close(done) // it is not read to its end
				l.In = strings.NewReader(text)
			}
			if err := l.Run(labContext(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// An endSignal tells when its reader was read to the end.
type endSignal struct {
	io.Reader
	done chan struct{}
}

func (r *endSignal) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil {
		close(r.done)
	}
	return n, err
}

// A file is let go of at the end, with what was typed too late still in it.
func TestPasteLetsFileGo(t *testing.T) {
	in, keys, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer keys.Close()
	lab := newLoginLab(t)
	ignore := goleak.IgnoreCurrent()
	l := lab.login(auth.OAuth{})
	l.In = in
	if err := l.Run(labContext(t)); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, ignore)
	if _, err := io.WriteString(keys, "later\n"); err != nil {
		t.Fatal(err)
	}
	in.SetReadDeadline(time.Now().Add(10 * time.Second))
	if line, err := bufio.NewReader(in).ReadString('\n'); line != "later\n" {
		t.Errorf("next line %q, %v", line, err)
	}
}

func TestPasteFromFile(t *testing.T) {
	in, keys, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer keys.Close()
	r := &wakingReader{done: labContext(t).Done(), f: in}
	if _, err := io.WriteString(keys, "typed"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := r.Read(b); string(b[:n]) != "typed" || err != nil {
		t.Errorf("read %q, %v", b[:n], err)
	}
	done := make(chan struct{})
	close(done)
	r.done = done
	if _, err := r.Read(b); !errors.Is(err, io.EOF) {
		t.Errorf("error %v after the end", err)
	}
}

func FuzzAnswerQuery(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1:1/callback?code=a&state=b", "code=a", "?", "'x'", "a#b?c", "://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := answerQuery(s)
		if err == nil && checkAnswer(q, labState) == nil && q.Get("state") != labState {
			t.Errorf("%q is taken for an answer", s)
		}
	})
}
