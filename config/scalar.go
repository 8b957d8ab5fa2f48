package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

func scalarText(n *node, set func(string)) string {
	if n.kind == list || n.kind == mapping {
		return fmt.Sprintf("must be a string, not %s%s", n.kind, quotes(n))
	}
	set(n.text)
	return ""
}

// boolish reads a boolean, a number as its truth, and the usual words.
func boolish(n *node) (value bool, fault string) {
	const wrong = "must be true or false"
	switch n.kind {
	case boolean:
		return strings.EqualFold(n.text, "true"), ""
	case number:
		f, err := strconv.ParseFloat(n.text, 64)
		if err != nil {
			return false, wrong
		}
		return f != 0, ""
	case text:
		if b, ok := parseBool(n.text); ok {
			return b, ""
		}
		return false, wrong
	}
	return false, fmt.Sprintf("%s, not %s", wrong, n.kind)
}

func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "1", "yes", "on":
		return true, true
	case "false", "0", "no", "off":
		return false, true
	}
	return false, false
}

func integer(n *node) (int, string) {
	if n.kind != number {
		return 0, fmt.Sprintf("must be a whole number, not %s", n.kind)
	}
	digits := strings.TrimLeft(n.text, "+-")
	if len(digits) > 1 && digits[0] == '0' {
		return 0, "must be a whole number without leading zeros"
	}
	i, err := strconv.Atoi(n.text)
	if err != nil {
		return 0, "must be a whole number of a sensible size"
	}
	return i, ""
}

// maxDuration is longer than anything here is worth waiting for.
const maxDuration = 366 * 24 * time.Hour

// duration reads a number of seconds or Go's syntax.
func duration(n *node) (time.Duration, string) {
	const wrong = `must be seconds or a duration such as "90s", "5m" or "1h30m"`
	if n.kind != number && n.kind != text {
		return 0, fmt.Sprintf("%s, not %s", wrong, n.kind)
	}
	s := strings.TrimSpace(n.text)
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if !(f >= -maxDuration.Seconds() && f <= maxDuration.Seconds()) {
			return 0, "is out of range: at most 366 days"
		}
		return time.Duration(f * float64(time.Second)), ""
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, wrong
	case d > maxDuration || d < -maxDuration:
		return 0, "is out of range: at most 366 days"
	}
	return d, ""
}

func sslVerify(n *node) (upstream.SSLVerify, string) {
	switch n.kind {
	case boolean, text:
		if b, msg := boolish(n); msg == "" {
			return upstream.SSLVerify{Off: !b}, ""
		}
		if ca := strings.TrimSpace(n.text); ca != "" && n.kind == text {
			return upstream.SSLVerify{CAFile: ca}, ""
		}
	}
	return upstream.SSLVerify{}, "must be true, false or the path of a CA bundle"
}
