package policy

import (
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// asksSecret reports whether a field of a form looks as if a secret was to be
// typed into it. MCP wants secrets to be asked for by URL, where neither agent nor
// model sees them. This finds what is honestly named, in the field's name, title
// and description; it cannot find what is disguised.
//
// Only what is typed can be a secret: a choice among given values is none.
func asksSecret(name string, schema []byte) bool {
	types := typesOf(schema)
	if isChoice(schema) || slices.Contains(types, "array") || slices.Equal(types, []string{"boolean"}) {
		return false
	}
	if f, _ := textOf(schema, "format"); strings.EqualFold(f, "password") {
		return true
	}
	if wire.Kindof(member(schema, "writeOnly")) == 't' {
		return true
	}
	if slices.Contains(secretNames, strings.Join(words(name), " ")) {
		return true
	}
	title, _ := textOf(schema, "title")
	description, _ := textOf(schema, "description")
	counts := len(types) > 0 && !slices.Contains(types, "string")
	return namesSecret(name, counts) || namesSecret(title, counts) || namesSecret(description, counts) && !warns(description)
}

// warns reports whether a description tells people to keep something to
// themselves, as in "do not enter your SSN": then it names the secret for that.
func warns(description string) bool {
	ws := words(description)
	return slices.ContainsFunc(ws, func(w string) bool { return oneOf(w, "not", "don", "never", "avoid", "without") })
}

// secretNames say so only where they are the whole name.
var secretNames = []string{"pass", "pw", "otp", "auth", "pan", "pat"}

// Words that name a secret wherever they stand, and at the end of a longer word,
// as in mypassword.
var secretWords = []string{"password", "passwords", "passwd", "passphrase", "passphrases", "passcode", "pwd", "apikey", "apikeys",
	"secret", "secrets", "credential", "credentials", "secretkey", "accesskey", "privatekey", "authtoken", "accesstoken",
	"passwort", "kennwort", "contraseña", "contrasena", "senha", "motdepasse", "wachtwoord", "пароль"}

// Words that name a secret only as a whole: pinned is none, and tokens are
// counted more often than they are asked for.
var secretWholes = []string{"token", "pin", "cvv", "cvc", "ssn", "totp", "jwt"}

// Words that name one together.
var secretPairs = []string{"api key", "api keys", "access key", "access keys", "private key", "secret key", "encryption key",
	"signing key", "ssh key", "auth key", "master key", "license key", "recovery code", "recovery phrase", "seed phrase",
	"security code", "verification code", "card number", "social security", "api tokens", "access tokens", "auth tokens",
	"refresh tokens", "bearer tokens", "two factor", "time code", "pass phrase", "pass word", "pass code"}

// secretScripts do not put blanks between words.
var secretScripts = []string{"密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호"}

// aboutSecrets are words that turn the one before into something that is told
// freely: token_count, password policy, secret name.
var aboutSecrets = []string{"count", "counts", "limit", "limits", "budget", "usage", "used", "length", "size", "type", "types", "kind",
	"name", "names", "id", "ids", "policy", "policies", "expiry", "expires", "expiration", "lifetime", "ttl", "url", "uri", "endpoint",
	"path", "location", "manager", "provider", "issuer", "scope", "scopes", "age", "rotation", "label", "format", "color", "colour",
	"board", "management", "symbol", "address"}

// namesSecret reports whether a name or text speaks of a secret. A number is no
// token, but may be how many.
func namesSecret(s string, number bool) bool {
	for _, part := range secretScripts {
		if strings.Contains(s, part) {
			return true
		}
	}
	ws := words(s)
	for i, w := range ws {
		if i+1 < len(ws) && slices.Contains(secretPairs, w+" "+ws[i+1]) && !told(ws, i+2) {
			return true
		}
		if (isSecretWord(w) || slices.Contains(secretWholes, w) && !verb(ws, i) && !(number && w == "token")) && !told(ws, i+1) {
			return true
		}
	}
	return false
}

func isSecretWord(w string) bool {
	return slices.ContainsFunc(secretWords, func(s string) bool { return strings.HasSuffix(w, s) })
}

// told reports whether the word at i makes of the secret before it what is none.
func told(ws []string, i int) bool { return i < len(ws) && slices.Contains(aboutSecrets, ws[i]) }

// verb reports whether "pin" at i is what somebody does: pin this message.
func verb(ws []string, i int) bool {
	if ws[i] != "pin" {
		return false
	}
	if i+1 < len(ws) && oneOf(ws[i+1], "this", "the", "it", "to", "a", "message", "messages", "comment", "post", "on") {
		return true
	}
	return i > 0 && oneOf(ws[i-1], "to", "push", "map", "gpio")
}

// maxWords bounds the words of one text that are looked at.
const maxWords = 10_000

// words splits a name or text where a reader would: at what is no letter, before
// capitals, between letters and digits. Digits are left out.
func words(s string) (out []string) {
	var word []rune
	flush := func() {
		if len(word) > 0 && len(out) < maxWords {
			out = append(out, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	rs := []rune(s)
	for i, r := range rs {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) {
			flush()
			continue
		}
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(rs[i-1]) || unicode.IsUpper(rs[i-1]) && i+1 < len(rs) && unicode.IsLower(rs[i+1])) {
			flush()
		}
		word = append(word, r)
	}
	flush()
	return out
}
