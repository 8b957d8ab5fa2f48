package oauth

import (
	"bytes"
	"encoding/json"
	"math"
	"mime"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxToken bounds one token in bytes: it has to fit into a header.
const maxToken = 64 << 10

// longestLife is the longest that expires_in is believed.
const longestLife = 10 * 365 * 24 * time.Hour

// token reads an answer at a moment. What is no token is a TokenError, without its
// server and origin, its description as it came.
func (a *tokenAnswer) token(now time.Time) (*Token, *TokenError) {
	m, readable := a.members()
	code, said := errorCode(m), text(m, "error_description")
	if code == "" && invalidClient.Match(a.body) && (a.status == 400 || a.status == 401) {
		code = codeInvalidClient
	}
	access := text(m, "access_token")
	switch {
	case a.status/100 != 2 || code != "" && access == "":
		if said == "" && code == "" && readable {
			said = text(m, "message")
		} else if said == "" && code == "" {
			said = string(a.body[:min(len(a.body), maxExcerpt)])
		}
		return nil, &TokenError{Code: code, Status: a.status, Description: said}
	case !readable:
		return nil, &TokenError{Status: a.status, Description: "its answer is no JSON object; is something in between?"}
	case access == "":
		return nil, &TokenError{Status: a.status, Description: "its answer has no access_token"}
	}
	return a.accept(m, access, now)
}

func (a *tokenAnswer) accept(m map[string]json.RawMessage, access string, now time.Time) (*Token, *TokenError) {
	kind := text(m, "token_type")
	switch {
	case kind != "" && !strings.EqualFold(kind, "Bearer"):
		return nil, &TokenError{Status: a.status, Description: "its token_type is not Bearer, which is all that MCP servers take"}
	case len(access) > maxToken || !visible(access):
		return nil, &TokenError{Status: a.status, Description: "its access_token fits into no header"}
	}
	t := &Token{Access: access, Type: "Bearer", Scope: scopeText(m["scope"]), Expiry: expiry(m["expires_in"], now)}
	if r := text(m, "refresh_token"); len(r) <= maxToken && printable(r) {
		t.Refresh = r
	}
	return t, nil
}

// members are the answer's, of a JSON object or, as some servers have it, of a form.
func (a *tokenAnswer) members() (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	body := bytes.TrimPrefix(a.body, []byte("\xef\xbb\xbf"))
	if json.Unmarshal(body, &m) == nil && m != nil {
		return m, true
	}
	kind, _, _ := mime.ParseMediaType(a.kind)
	if kind != "application/x-www-form-urlencoded" && kind != "text/plain" {
		return nil, false
	}
	v, err := url.ParseQuery(strings.TrimSpace(string(body)))
	if err != nil || !v.Has("access_token") && !v.Has("error") {
		return nil, false
	}
	m = make(map[string]json.RawMessage, len(v))
	for k := range v {
		m[k], _ = json.Marshal(v.Get(k))
	}
	return m, true
}

// text is a member's string; empty when it is none.
func text(m map[string]json.RawMessage, name string) string {
	var s string
	_ = json.Unmarshal(m[name], &s)
	return s
}

var (
	errorName     = regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,64}$`)
	invalidClient = regexp.MustCompile(`\binvalid_client\b`)
)

// errorCode is the answer's error, if it has the form of one.
func errorCode(m map[string]json.RawMessage) string {
	if code := text(m, "error"); errorName.MatchString(code) {
		return code
	}
	return ""
}

// scopeText takes a list, too: some servers send one.
func scopeText(raw json.RawMessage) string {
	var s string
	var list []string
	if json.Unmarshal(raw, &s) != nil && json.Unmarshal(raw, &list) == nil {
		s = strings.Join(list, " ")
	}
	if len(s) > maxScope || !printable(s) {
		return ""
	}
	return strings.Join(strings.Fields(s), " ")
}

// maxScope bounds a list of scopes in bytes.
const maxScope = 8 << 10

// expiry reads expires_in, a number or a string. What makes no sense is not known:
// the server's 401 then tells when a token is over.
func expiry(raw json.RawMessage, now time.Time) time.Time {
	n, err := strconv.ParseFloat(strings.Trim(strings.TrimSpace(string(raw)), `"`), 64)
	if err != nil || math.IsNaN(n) || n <= 0 || n > longestLife.Seconds() {
		return time.Time{}
	}
	// Round drops the monotonic reading: machines sleep, tokens do not.
	return now.Round(0).Add(time.Duration(n * float64(time.Second)))
}

// visible reports whether s can stand in a header as a token.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// printable allows for spaces, too.
func printable(s string) bool { return visible(strings.ReplaceAll(s, " ", "")) }
