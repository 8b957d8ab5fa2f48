package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

func formWith(properties string) string {
	return `{"message":"m","requestedSchema":{"type":"object","properties":{` + properties + `}}}`
}

func TestScreenElicitation(t *testing.T) {
	const schema = `"requestedSchema":{"type":"object","properties":{}}`
	for _, tc := range []struct {
		name, params string
		code         int
		want         string
	}{
		{"no mode", `{"message":"m",` + schema + `}`, 0, `{"message":"m",` + schema + `}`},
		{"null mode", `{"mode":null,"message":"m",` + schema + `}`, 0, `{"mode":null,"message":"m",` + schema + `}`},
		{"form", `{ "mode":"form","message":"\u00e9",` + schema + `,"x":1.0}`, 0, `{ "mode":"form","message":"\u00e9",` + schema + `,"x":1.0}`},
		{"hidden characters", `{"message":"a\u200bb",` + schema + `}`, 0, `{"message":"ab",` + schema + `}`},
		{"another mode", `{"mode":"telepathy","message":"m",` + schema + `}`, -32602, "mode must be"},
		{"mode of another type", `{"mode":1,"message":"m",` + schema + `}`, -32602, "mode must be"},
		{"no message", `{` + schema + `}`, -32602, "message is missing"},
		{"message of another type", `{"message":{},` + schema + `}`, -32602, "message is missing"},
		{"long message", `{"message":"` + strings.Repeat("x", 64<<10+1) + `",` + schema + `}`, -32602, "more than 65536 bytes"},
		{"mode twice", `{"mode":"form","mode":"url","message":"m","url":"https://e.example/",` + schema + `}`, -32602, "comes twice"},
		{"another case", `{"Mode":"url","message":"m",` + schema + `}`, -32602, "only in case"},

		{"no schema", `{"message":"m"}`, -32602, "requestedSchema is missing"},
		{"no object", `{"message":"m","requestedSchema":true}`, -32602, "requestedSchema is missing"},
		{"no type", `{"message":"m","requestedSchema":{"properties":{}}}`, -32602, "requestedSchema.type"},
		{"a list", `{"message":"m","requestedSchema":{"type":"array","properties":{}}}`, -32602, "requestedSchema.type"},
		{"no properties", `{"message":"m","requestedSchema":{"type":"object"}}`, -32602, "requestedSchema.properties"},
		{"composed", `{"message":"m","requestedSchema":{"type":"object","properties":{},"allOf":[]}}`, -32602, `"allOf"`},
		{"open", `{"message":"m","requestedSchema":{"type":"object","properties":{},"additionalProperties":{"type":"string"}}}`, -32602, "additionalProperties"},
		{"closed", `{"message":"m","requestedSchema":{"$schema":"x","title":"t","type":"object","properties":{},"additionalProperties":false,"required":["a"]}}`, 0,
			`{"message":"m","requestedSchema":{"$schema":"x","title":"t","type":"object","properties":{},"additionalProperties":false,"required":["a"]}}`},
		{"required", `{"message":"m","requestedSchema":{"type":"object","properties":{},"required":"a"}}`, -32602, "required"},
		{"required of numbers", `{"message":"m","requestedSchema":{"type":"object","properties":{},"required":["a",1]}}`, -32602, "required"},
		{"many fields", formWith(manyFields(257)), -32602, "more than 256 fields"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := screen(t, NewAsker("s", Sampling{}, Elicitation{}, Roots{}), askElicitation, tc.params)
			wantVerdict(t, v, err, tc.code, tc.want)
			if err == nil && v.Kind != AnswerForm {
				t.Errorf("got kind %b", v.Kind)
			}
		})
	}
	_, err := screen(t, NewAsker("s", Sampling{}, Elicitation{Enabled: no()}, Roots{}), askElicitation, `{}`)
	wantVerdict(t, Verdict{}, err, wire.CodeMethodNotFound, "elicitation is disabled")
	_, err = NewAsker("s", Sampling{}, Elicitation{}, Roots{}).Screen(noon, askElicitation, nil, 0, Audience{Named: true})
	wantVerdict(t, Verdict{}, err, wire.CodeInvalidParams, "message is missing")
}

func manyFields(n int) string {
	var fields []string
	for i := range n {
		fields = append(fields, fmt.Sprintf(`"f%d":{"type":"string"}`, i))
	}
	return strings.Join(fields, ",")
}

func TestFields(t *testing.T) {
	for _, tc := range []struct {
		schema string
		ok     bool
	}{
		{`{"type":"string","minLength":1,"maxLength":2,"format":"email","default":"a@b.example"}`, true},
		{`{"type":"number","minimum":0,"maximum":1.5,"default":0.10}`, true},
		{`{"type":"integer","default":9007199254740993}`, true},
		{`{"type":"boolean","default":true}`, true},
		{`{"type":"string","enum":["a","b"],"enumNames":["A","B"],"default":"a"}`, true},
		{`{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}],"default":"a"}`, true},
		{`{"enum":["a","b"]}`, true},
		{`{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a"]},"default":["a"]}`, true},
		{`{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}`, true},
		{`{"type":"array","items":{"type":"string","oneOf":[{"const":"a"}]}}`, true},
		{`{"type":["string","null"]}`, true},
		{`{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"title":"T"}`, true},
		{`{"type":"string","x-vendor":{"a":[1]}}`, true},

		{`{}`, false},
		{`true`, false},
		{`{"type":"object","properties":{}}`, false},
		{`{"type":"null-ish"}`, false},
		{`{"type":7}`, false},
		{`{"type":["string","object"]}`, false},
		{`{"type":"array"}`, false},
		{`{"type":"array","items":{"type":"string"}}`, false},
		{`{"type":"array","items":{"type":"object","enum":[{}]}}`, false},
		{`{"type":"array","items":[{"const":"a"}]}`, false},
		{`{"type":"array","items":{"type":"array","items":{"enum":["a"]}}}`, false},
		{`{"type":["array","string"],"items":{"enum":["a"]}}`, false},
		{`{"type":"string","items":{"type":"object"}}`, false},
		{`{"$ref":"#/$defs/X"}`, false},
		{`{"type":"string","$ref":"#/$defs/X"}`, false},
		{`{"type":"string","allOf":[{"type":"string"}]}`, false},
		{`{"anyOf":[{"type":"string"},{"type":"object"}]}`, false},
		{`{"anyOf":[{"type":"string"},{"anyOf":[{"type":"string"}]}]}`, false},
		{`{"anyOf":[]}`, false},
		{`{"oneOf":{"const":1}}`, false},
	} {
		params := formWith(`"f":` + tc.schema)
		v, err := screen(t, NewAsker("s", Sampling{}, Elicitation{}, Roots{}), askElicitation, params)
		if tc.ok {
			wantVerdict(t, v, err, 0, params)
		} else {
			wantVerdict(t, v, err, wire.CodeInvalidParams, `field "f" is not one value of a simple type`)
		}
	}
}

func TestSecretNames(t *testing.T) {
	for _, name := range []string{
		"password", "Password", "PASSWORD", "user_password", "userPassword", "password2", "dbpassword", "passwd", "pwd", "passphrase", "passcode", "pass", "pw",
		"secret", "client_secret", "clientSecret", "token", "access_token", "accessToken", "accesstoken", "github-token", "GITHUB_TOKEN", "APIToken",
		"api_key", "apiKey", "APIKey", "api-key", "apikey", "X-API-Key", "access key", "private_key", "privatekey", "secretKey", "signing.key", "ssh_key",
		"credential", "aws_credentials", "pin", "PIN", "pin_code", "pinCode", "user-pin", "cvv", "CVV2", "cvc", "card_number", "cardNumber", "ssn", "social_security_number",
		"otp", "one_time_code", "verification_code", "recoveryPhrase", "jwt", "pat", "passwort", "senha", "contraseña", "пароль", "密码", "登录密码", "パスワード", "비밀번호", "pass\u200bword",
	} {
		checkSecret(t, name, `{"type":"string"}`, true)
	}
	for _, name := range []string{
		"name", "tokens_used", "tokensUsed", "max_tokens", "tokens", "token_count", "tokenCount", "token_limit", "tokenizer", "keyboard", "key", "keys", "primary_key", "keyword",
		"monkey", "pinned", "pinboard", "spin", "opinion", "pineapple", "compass", "passenger", "boarding_pass", "bypass", "passport_country", "secretary", "secret_name", "credential_id", "accessKeyId",
		"password_policy", "passwordLength", "email", "username", "author", "authority", "session", "account", "card_type", "security_level", "code", "country_code", "",
	} {
		checkSecret(t, name, `{"type":"string"}`, false)
	}
}

func TestSecretSchemas(t *testing.T) {
	for _, tc := range []struct {
		schema string
		secret bool
	}{
		{`{"type":"string","title":"Your password"}`, true},
		{`{"type":"string","description":"The API key of your account."}`, true},
		{`{"type":"string","description":"Enter your PIN"}`, true},
		{`{"type":"string","description":"Paste a personal access token (ghp_…)"}`, true},
		{`{"type":"string","title":"p\u200bassword"}`, true},
		{`{"type":"string","format":"password"}`, true},
		{`{"type":"string","writeOnly":true}`, true},
		{`{"type":"integer","title":"Card number"}`, true},
		{`{"type":"number","title":"PIN"}`, true},
		{`{"type":["string","null"],"title":"Token"}`, true},
		{`{"anyOf":[{"type":"string"},{"type":"null"}],"title":"Token"}`, true},

		{`{"type":"string","description":"How many tokens may be used"}`, false},
		{`{"type":"string","description":"Pin this message to the channel"}`, false},
		{`{"type":"string","description":"Search by keyword"}`, false},
		{`{"type":"string","format":"email"}`, false},
		{`{"type":"string","writeOnly":false}`, false},
		{`{"type":"integer","title":"Max token"}`, false},
		{`{"type":"integer","description":"Your favorite number (do not enter your SSN)"}`, false},
		{`{"type":"string","title":"Token","description":"Do not share it"}`, true},
		// What cannot be typed is no secret.
		{`{"type":"boolean","title":"Reset the password?"}`, false},
		{`{"type":"string","enum":["password","token"],"title":"Password or token"}`, false},
		{`{"type":"string","oneOf":[{"const":"a","title":"API key"}],"title":"Secret"}`, false},
		{`{"type":"array","items":{"enum":["a"]},"title":"Secrets to rotate"}`, false},
	} {
		checkSecret(t, "f", tc.schema, tc.secret)
	}
}

func checkSecret(t *testing.T, name, schema string, want bool) {
	t.Helper()
	params := `{"message":"m","requestedSchema":{"type":"object","properties":{` + string(wire.AppendQuote(nil, name)) + `:` + schema + `}}}`
	v, err := screen(t, NewAsker("s", Sampling{}, Elicitation{}, Roots{}), askElicitation, params)
	if want {
		if err == nil || err.Code != codeRefused || !strings.Contains(err.Message, "looks like a secret") {
			t.Errorf("%q %s: got %v, want it refused", name, schema, err)
		}
	} else if err != nil {
		t.Errorf("%q %s: got %v, want a verdict", name, schema, err)
	}
	v, err = screen(t, NewAsker("s", Sampling{}, Elicitation{AllowSecrets: true}, Roots{}), askElicitation, params)
	if err != nil || v.Kind != AnswerForm {
		t.Errorf("%q %s: got %v with allow_secrets", name, schema, err)
	}
}

func TestLinks(t *testing.T) {
	for _, tc := range []struct {
		url  string
		code int
		want string // of the error
	}{
		{"https://e.example/a?b=c#d", 0, ""},
		{"HTTPS://E.example:8443/%41", 0, ""},
		{"http://localhost:3000/x", 0, ""},
		{"http://127.0.0.1/x", 0, ""},
		{"http://[::1]:8080/x", 0, ""},

		{"http://e.example/", -1, "only https"},
		{"http://localhost.e.example/", -1, "only https"},
		{"http://127.0.0.1.e.example/", -1, "only https"},
		{"http://0.0.0.0/", -1, "only https"},
		{"http://2130706433/", -1, "only https"},
		{"ftp://e.example/", -1, "only https"},
		{"javascript://e.example/%0aalert(1)", -1, "only https"},
		{"javascript:alert(1)", -1, "only https"},
		{"data:text/html,x", -1, "only https"},
		{"file:///etc/passwd", -1, "only https"},
		{"https:e.example", -32602, "no host"},
		{"//e.example/", -1, "only https"},
		{"/x", -32602, "no host"},
		{"", -32602, "no host"},
		{"https://", -32602, "no host"},
		{"https://user@e.example/", -32602, "user name or password"},
		{"https://e.example:x@evil.example/", -32602, "user name or password"},
		{"https://e.example\\@evil.example/", -32602, "has no place"},
		{"https://e.example /", -32602, "has no place"},
		{"https://e.exämple/", -32602, "has no place"},
		{"https://e.example/\u202e", -32602, "has no place"},
		{"https://e.ex\u200bample/", -32602, "has no place"},
		{"https://e.example/\n", -32602, "has no place"},
		{"https://e.example:x/", -32602, "cannot be read"},
		{"https://e.example/" + strings.Repeat("x", 8<<10), -32602, "more than 8192 bytes"},
	} {
		params := `{"mode":"url","message":"m","url":` + string(wire.AppendQuote(nil, tc.url)) + `,"elicitationId":"1"}`
		v, err := screen(t, NewAsker("s", Sampling{}, Elicitation{}, Roots{}), askElicitation, params)
		want := tc.want
		if tc.code == 0 {
			want = params
			if v.Kind != AnswerURL {
				t.Errorf("%s: got kind %b", tc.url, v.Kind)
			}
		}
		t.Run(fmt.Sprintf("%.40s", tc.url), func(t *testing.T) { wantVerdict(t, v, err, tc.code, want) })
	}
	_, err := screen(t, NewAsker("s", Sampling{}, Elicitation{}, Roots{}), askElicitation, `{"mode":"url","message":"m"}`)
	wantVerdict(t, Verdict{}, err, wire.CodeInvalidParams, "url is missing")
}

// TestPunycode holds that a host whose letters are not what they look like is
// pointed out, and that its URL stays as it is.
func TestPunycode(t *testing.T) {
	a := NewAsker("s", Sampling{}, Elicitation{}, Roots{})
	v, err := a.Screen(noon, askElicitation, []byte(`{"mode":"url","message":"Sign in","url":"https://login.XN--pple-43d.example/"}`), 0, Audience{Named: true})
	wantVerdict(t, v, err, 0, `{"mode":"url","message":"[s] Sign in\n\n(The link's host is spelled login.XN--pple-43d.example: its letters may not be those that they look like.)",`+
		`"url":"https://login.XN--pple-43d.example/"}`)
}
