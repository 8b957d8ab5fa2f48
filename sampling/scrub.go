package sampling

import (
	"fmt"
	"regexp"
	"strings"
)

// Bounds of what an endpoint gets into the log.
const (
	maxDetail  = 200     // bytes
	maxScanned = 4 << 10 // of what is looked through for keys
)

const redacted = "[redacted]"

var (
	// schemes are credentials behind the word for them.
	schemes = regexp.MustCompile(`(?i)\b(bearer|basic)[\s:]+[^\s"',]+`)
	// prefixed are keys as providers issue them, also with stars in place of a part.
	prefixed = regexp.MustCompile(`\b((sk|pk|rk|gsk|xai|hf|ghp)[-_]|AIza|eyJ)[A-Za-z0-9_.*-]{4,}`)
	// runs may be a key in hex or base64; see random.
	runs = regexp.MustCompile(`[A-Za-z0-9+/=_.-]{24,}`)
	// parts are what names of models and of errors are made of.
	parts = regexp.MustCompile(`^([A-Za-z]*[a-z]|[A-Z]+|[0-9]{1,8}|v[0-9]{1,2})$`)
)

// scrub makes an error of what was written elsewhere, without the key and without
// what looks like one.
func scrub(s, key string) error {
	if key != "" {
		s = strings.ReplaceAll(s, key, redacted)
	}
	s = s[:min(len(s), maxScanned)]
	s = schemes.ReplaceAllString(s, "$1 "+redacted)
	s = prefixed.ReplaceAllString(s, redacted)
	s = runs.ReplaceAllStringFunc(s, random)
	return fmt.Errorf("%q", strings.ToValidUTF8(s[:min(len(s), maxDetail)], ""))
}

// random replaces a run that is not made of words and short numbers.
func random(run string) string {
	for part := range strings.FieldsFuncSeq(run, func(r rune) bool { return strings.ContainsRune("-_./=", r) }) {
		if len(part) > 20 || !parts.MatchString(part) {
			return redacted
		}
	}
	return run
}
