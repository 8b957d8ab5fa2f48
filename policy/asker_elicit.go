package policy

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// elicit applies the limits on a question to the agent's user.
func (q *question) elicit() (v Verdict, err *wire.Error) {
	message, ok := textOf(q.params, "message")
	switch {
	case !ok:
		return v, invalid("elicitation: message is missing or not a string")
	case len(message) > maxText:
		return v, invalid("elicitation: message has more than %d bytes", maxText)
	}
	mode, note := q.member("mode"), ""
	if s, ok := wire.Unquote(mode); mode == nil || ok && s == "form" {
		v.Kind, err = AnswerForm, q.form()
	} else if ok && s == "url" {
		v.Kind = AnswerURL
		note, err = q.link()
	} else {
		err = invalid(`elicitation: mode must be "form" or "url"`)
	}
	if err != nil {
		return Verdict{}, err
	}
	text := message + note
	if q.to.Named {
		text = "[" + q.asker.name() + "] " + text
	}
	if text != message {
		q.set("message", wire.AppendQuote(nil, text))
	}
	v.Params = q.params
	return v, nil
}

// maxLink bounds a URL that a user is sent to.
const maxLink = 8 << 10

const onlyHTTPS = "elicitation: url must be https, only https is passed on (http for this machine's own addresses)"

// link checks the URL that the user is to visit. Nobody here opens it, and it
// reaches the agent byte for byte. note is what the user should know of it.
func (q *question) link() (note string, bad *wire.Error) {
	raw := q.member("url")
	was := member(q.raw, "url")
	link, ok := wire.Unquote(raw)
	switch {
	case !ok:
		return "", invalid("elicitation: url is missing or not a string")
	case len(link) > maxLink:
		return "", invalid("elicitation: url has more than %d bytes", maxLink)
	case string(raw) != string(was) || strings.ContainsFunc(link, notInURL):
		return "", invalid("elicitation: url holds a character that has no place in one")
	}
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return "", invalid("elicitation: url cannot be read")
	case u.User != nil:
		return "", invalid("elicitation: url holds a user name or password")
	case u.Scheme != "" && u.Scheme != "https" && u.Scheme != "http":
		return "", refuse(onlyHTTPS)
	case u.Hostname() == "" || u.Opaque != "":
		return "", invalid("elicitation: url has no host")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return "", refuse(onlyHTTPS)
	}
	if punycode(u.Hostname()) {
		note = "\n\n(The link's host is spelled " + u.Hostname() + ": its letters may not be those that they look like.)"
	}
	return note, nil
}

// notInURL is true for what browsers and servers read differently or not at all.
func notInURL(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("\\\"<>^`{|}", r)
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func punycode(host string) bool {
	for label := range strings.SplitSeq(strings.ToLower(host), ".") {
		if strings.HasPrefix(label, "xn--") {
			return true
		}
	}
	return false
}
