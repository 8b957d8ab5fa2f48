//go:build npm

package oauth

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A person submits the provider's forms without a browser, and does not go where it
// redirects in the end.
type person struct {
	http *http.Client
	home string // the provider's origin
}

// answer visits the URL of a login, logs in and agrees. It returns the redirect URL.
func (w *world) answer(t *testing.T, visit string) string {
	t.Helper()
	u, err := url.Parse(visit)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{home: u.Scheme + "://" + u.Host}
	p.http = &http.Client{Jar: jar, Timeout: 20 * time.Second, CheckRedirect: p.stay}
	resp, err := p.http.Get(visit)
	for step := 0; err == nil && step < 5; step++ {
		if to := resp.Header.Get("Location"); to != "" {
			resp.Body.Close()
			return to
		}
		resp, err = p.submit(resp)
	}
	t.Fatalf("the login at %s came to no end: %v", p.home, err)
	return ""
}

// stay keeps redirects that leave the provider.
func (p *person) stay(r *http.Request, via []*http.Request) error {
	if r.URL.Scheme+"://"+r.URL.Host != p.home {
		return http.ErrUseLastResponse
	}
	if len(via) > 10 {
		return fmt.Errorf("%d redirects", len(via))
	}
	return nil
}

var (
	formTag  = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)
	inputTag = regexp.MustCompile(`<input[^>]* name="([^"]+)"(?: value="([^"]*)")?`)
)

// submit fills in the form of a page.
func (p *person) submit(page *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(page.Body, 1<<20))
	page.Body.Close()
	if err != nil {
		return nil, err
	}
	form := formTag.FindSubmatch(body)
	if form == nil {
		return nil, fmt.Errorf("status %d without a form: %.500s", page.StatusCode, body)
	}
	values := url.Values{}
	for _, in := range inputTag.FindAllSubmatch(body, -1) {
		values.Set(string(in[1]), html.UnescapeString(string(in[2])))
	}
	for _, name := range []string{"login", "password"} {
		if values.Has(name) {
			values.Set(name, "ada")
		}
	}
	return p.http.Post(html.UnescapeString(string(form[1])), "application/x-www-form-urlencoded", strings.NewReader(values.Encode()))
}
