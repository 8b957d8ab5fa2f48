package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseAgent(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	many := `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{` + strings.Repeat(`"k":1,`, 1) + `"z":1}}}`
	for _, tc := range []struct {
		name, in string
		kind     Kind
		code     int
		id       string // of the error
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, Request, 0, ""},
		{"string id", ` {"jsonrpc":"2.0","id":"a","method":"ping","params":{}} `, Request, 0, ""},
		{"largest id", `{"jsonrpc":"2.0","id":9223372036854775807,"method":"ping"}`, Request, 0, ""},
		{"notification", `{"jsonrpc":"2.0","method":"n"}`, Notification, 0, ""},
		{"null params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, Request, 0, ""},
		{"result", `{"jsonrpc":"2.0","id":1,"result":null}`, Response, 0, ""},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`, Response, 0, ""},
		{"unknown member", `{"jsonrpc":"2.0","id":1,"method":"m","extra":{"x":1}}`, Request, 0, ""},
		{"members", many, Request, 0, ""},
		{"prototype names pass", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"__proto__":{},"constructor":1}}}`, Request, 0, ""},

		{"empty", ``, 0, CodeParse, ""},
		{"cut", `{"jsonrpc":"2.0","id":7,"method":"pi`, 0, CodeParse, "7"},
		{"trailing", `{"jsonrpc":"2.0","id":1,"method":"m"} {}`, 0, CodeParse, "1"},
		{"BOM", "\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"m"}`, 0, CodeParse, ""},
		{"bad UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"\xff\"}}", 0, CodeParse, "1"},
		{"UTF-16", "{\x00\"\x00j\x00", 0, CodeParse, ""},
		{"lone surrogate", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\ud800"}}`, 0, CodeParse, "1"},
		{"low surrogate first", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\udc00\ud800"}}`, 0, CodeParse, "1"},
		{"raw newline in string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\n\"}", 0, CodeParse, "1"},
		{"leading zero", `{"jsonrpc":"2.0","id":01,"method":"m"}`, 0, CodeParse, ""},
		{"NaN", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}`, 0, CodeParse, "1"},
		{"array", `[{"jsonrpc":"2.0","id":1,"method":"m"}]`, 0, CodeInvalidRequest, ""},
		{"scalar", `5`, 0, CodeInvalidRequest, ""},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":` + deep + `}}`, 0, CodeInvalidRequest, "1"},
		{"no version", `{"id":1,"method":"m"}`, 0, CodeInvalidRequest, "1"},
		{"version 1", `{"jsonrpc":"1.0","id":1,"method":"m"}`, 0, CodeInvalidRequest, "1"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, 0, CodeInvalidRequest, "1"},
		{"method number", `{"jsonrpc":"2.0","id":1,"method":5}`, 0, CodeInvalidRequest, "1"},
		{"both kinds", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, 0, CodeInvalidRequest, "1"},
		{"both outcomes", `{"jsonrpc":"2.0","id":1,"error":{},"result":{}}`, 0, CodeInvalidRequest, "1"},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, 0, CodeInvalidRequest, ""},
		{"params array", `{"jsonrpc":"2.0","id":1,"method":"m","params":[]}`, 0, CodeInvalidRequest, "1"},
		{"id fraction", `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, 0, CodeInvalidRequest, ""},
		{"id exponent", `{"jsonrpc":"2.0","id":1e2,"method":"m"}`, 0, CodeInvalidRequest, ""},
		{"id huge", `{"jsonrpc":"2.0","id":9223372036854775808,"method":"m"}`, 0, CodeInvalidRequest, ""},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"m"}`, 0, CodeInvalidRequest, ""},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"m"}`, 0, CodeInvalidRequest, ""},
		{"id long", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1100) + `","method":"m"}`, 0, CodeInvalidRequest, ""},
		{"method twice", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, 0, CodeInvalidRequest, "1"},
		{"params twice", `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}`, 0, CodeInvalidRequest, "1"},
		{"name twice", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"a","name":"b"}}`, 0, CodeInvalidRequest, "1"},
		{"name twice, escaped", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"a","n\u0061me":"b"}}`, 0, CodeInvalidRequest, "1"},
		{"twice deep in arguments", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"x":[{"y":1,"y":2}]}}}`, 0, CodeInvalidRequest, "1"},
		{"Method", `{"jsonrpc":"2.0","id":1,"Method":"a","method":"b"}`, 0, CodeInvalidRequest, "1"},
		{"long s", `{"jsonrpc":"2.0","id":1,"method":"b","paramſ":{}}`, 0, CodeInvalidRequest, "1"},
		{"Name in params", `{"jsonrpc":"2.0","id":1,"method":"b","params":{"Name":"x"}}`, 0, CodeInvalidRequest, "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := ParseAgent([]byte(tc.in), Limits{})
			if tc.code == 0 {
				if err != nil || m.Kind() != tc.kind {
					t.Fatalf("kind %v, error %v; want kind %v", m.Kind(), err, tc.kind)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if e.Code != tc.code || string(e.ID) != tc.id {
				t.Errorf("got code %d id %q (%s), want %d %q", e.Code, e.ID, e.Message, tc.code, tc.id)
			}
		})
	}
}

func TestParseServer(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":1,"result":{}}`:                               "ok 0",
		`{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`:    "ok 0",
		`{"jsonrpc":"2.0","id":1,"result":{"a":"é"}}`:        "ok 1",
		`{"jsonrpc":"2.0","id":1,"result":{"a":"\u200b"}}`:   "ok 2",
		`{"jsonrpc":"2.0","id":1,"result":{"a":"\ud800"}}`:   "ok 6",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\x80\"}": "ok 5",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\x7f\"}": "ok 2",
		`{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`:   `member "result" comes twice`,
		`{"jsonrpc":"2.0","id":1,"result":{]}`:               "unexpected byte 0x5d at offset 34",
		`{"jsonrpc":"2.0","id":1,"result":{}}{}`:             "data after the JSON value",
		`"text"`:                                             "a message is one JSON object",
		`Server listening on 8080`:                           "unexpected byte 0x53 at offset 0",
		`{"jsonrpc":"2.0","id":1,"result":{"a":1.}}`:         "unexpected byte 0x7d at offset 40",
	} {
		m, err := ParseServer([]byte(in), Limits{})
		got := "ok " + string(rune('0'+m.Flags))
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestManyMembersAreLinear(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":1,"method":"m","params":{`)
	for i := range 90_000 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"k` + strings.Repeat("x", i%7) + string(AppendQuote(nil, string(rune(i+0x10000))))[1:] + `:1`)
	}
	b.WriteString(`}}`)
	if _, err := ParseAgent([]byte(b.String()), Limits{}); err != nil {
		t.Fatal(err)
	}
	_, err := ParseAgent([]byte(b.String()), Limits{Members: 1000})
	if err == nil || !strings.Contains(err.Error(), "1000 members") {
		t.Errorf("got %v, want the limit named", err)
	}
}

func TestFindMember(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"_meta":{"x":1},"b":2}`: `{"a":1,"b":2}`,
		`{"_meta":{},"b":2}`:            `{"b":2}`,
		`{"a":1,"_meta":{}}`:            `{"a":1}`,
		`{"a":1 , "_meta": {} }`:        `{"a":1 }`,
		`{"_meta":{}}`:                  `{}`,
		`{"_m\u0065ta":5}`:              `{}`,
		`{"a":{"_meta":1}}`:             "",
	} {
		from, to, ok := FindMember([]byte(in), "_meta")
		got := ""
		if ok {
			got = string(Splice(nil, []byte(in), Edit{From: from, To: to}))
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestBatch(t *testing.T) {
	parts, ok := Batch([]byte(` [ {"a":[1,2]} , "]" ,3]`))
	if !ok || len(parts) != 3 || string(parts[1]) != `"]"` || string(parts[2]) != "3" {
		t.Errorf("got %q %v", parts, ok)
	}
	if _, ok := Batch([]byte(`{}`)); ok {
		t.Error("an object is no batch")
	}
}

func TestRepair(t *testing.T) {
	for in, want := range map[string]string{
		`"a\ud800b"`:     "\"a\ufffdb\"",
		`"\ud83d\ude00"`: `"\ud83d\ude00"`,
		`"\ufffd"`:       `"\ufffd"`,
		"\"\xffé\"":      "\"\ufffdé\"",
		`"\\ud800"`:      `"\\ud800"`,
		`"\udc00\ud800"`: "\"\ufffd\ufffd\"",
	} {
		if got, _ := Repair([]byte(in)); string(got) != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestBuild(t *testing.T) {
	for got, want := range map[string]string{
		string(AppendRequest(nil, []byte(`"x"`), "a\"b", []byte(`{}`))):  `{"jsonrpc":"2.0","id":"x","method":"a\"b","params":{}}`,
		string(AppendNotification(nil, "n", nil)):                        `{"jsonrpc":"2.0","method":"n"}`,
		string(AppendResult(nil, []byte("1"), []byte("null"))):           `{"jsonrpc":"2.0","id":1,"result":null}`,
		string(AppendError(nil, nil, -32700, "x", nil)):                  `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`,
		string(AppendError(nil, []byte("1"), 1, "x", []byte(`{"a":1}`))): `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","data":{"a":1}}}`,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// What is too deep is an error, or is checked by the same grammar without a stack.
func TestDeeper(t *testing.T) {
	deep := func(n int, inner string) string {
		return strings.Repeat(`{"a":[1,`, n) + inner + strings.Repeat(`,true]}`, n)
	}
	for in, want := range map[string]string{
		deep(200_000, `"é"`):                           "",
		deep(100, `{"b":[],"c":{}}`):                   "",
		deep(100, `{"b" : [ ] , "c" : { } }`):          "",
		deep(100, `{"b":1,}`):                          `unexpected byte 0x7d`,
		deep(100, `{,}`):                               `unexpected byte 0x2c`,
		deep(100, `[1 2]`):                             `unexpected byte 0x32`,
		deep(100, `{"b":1]`):                           `unexpected byte 0x5d`,
		strings.Repeat("[", 1<<20):                     "unexpected end",
		strings.Repeat(`{"a":`, 200_000) + "1":         "unexpected end",
		strings.Repeat(`[`, 200) + "1":                 "unexpected end",
		"[1]" + deep(100, "0"):                         "data after",
		`{"a":` + strings.Repeat("[", 300) + "1e" + "": "unexpected end",
	} {
		if _, err := Valid([]byte(in), Limits{Deeper: true}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s…: got %v, want %q", in, err, want)
		}
	}
	_, err := Valid([]byte(deep(100, "0")), Limits{})
	if !TooDeep(err) || err.Error() != "more than 128 levels of nesting" {
		t.Errorf("got %v", err)
	}
	if _, err := Valid([]byte(`{`), Limits{}); TooDeep(err) || TooDeep(nil) {
		t.Error("what is cut off is not too deep")
	}
}

// FuzzValid holds our grammar against encoding/json's.
func FuzzValid(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,true,false,null,"\u00e9\n"]}`, `[]`, `{}`, `"`, `{"a":1,}`, "\"\x7f\"", `1e`, `-`, `"\u12"`, `[1 2]`, "\ufeff{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		flags, err := Valid(b, Limits{Depth: 5000, Members: 1 << 30})
		if (err == nil) != json.Valid(b) {
			t.Fatalf("%q: %v, encoding/json says %v", b, err, json.Valid(b))
		}
		if deeper, derr := Valid(b, Limits{Depth: 1, Deeper: true}); (derr == nil) != (err == nil) || err == nil && deeper != flags {
			t.Fatalf("%q: %v with flags %b, beyond the depth %v with %b", b, err, flags, derr, deeper)
		}
		if err != nil {
			return
		}
		if fixed, n := Repair(b); (n > 0) != (flags&BadText != 0) || !json.Valid(fixed) {
			t.Fatalf("%q: flags %b, %d repairs", b, flags, n)
		}
	})
}

// FuzzParseAgent checks that what passes is what every reader understands.
func FuzzParseAgent(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"é","result":{"a":[{}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseAgent(b, Limits{})
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("%q: error %T", b, err)
			}
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatalf("%q: passed, but %v", b, err)
		}
		var method string
		json.Unmarshal(want["method"], &method)
		if method != m.Method || string(want["id"]) != string(m.ID) {
			t.Fatalf("%q: got %q %q", b, m.Method, m.ID)
		}
	})
}

// FuzzText checks Unquote and AppendQuote against encoding/json and each other.
func FuzzText(f *testing.F) {
	f.Add("plain", []byte(`"a\u00e9\ud83d\ude00\n"`))
	f.Add("\xff\x00\"\\", []byte(`"\ud800"`))
	f.Fuzz(func(t *testing.T, s string, raw []byte) {
		q := AppendQuote(nil, s)
		if !json.Valid(q) {
			t.Fatalf("%q: quoted as %q", s, q)
		}
		var want string
		json.Unmarshal(q, &want)
		if got, ok := Unquote(q); !ok || got != want {
			t.Fatalf("%q: got %q, want %q", s, got, want)
		}
		if json.Valid(raw) && len(raw) > 0 && raw[0] == '"' {
			json.Unmarshal(raw, &want)
			if got, ok := Unquote(raw); ok && got != want {
				t.Fatalf("%q: got %q, want %q", raw, got, want)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for name, n := range map[string]int{"1KB": 1 << 10, "100KB": 100 << 10} {
		text := strings.Repeat("abcdefghijklmnop", n/16)
		in := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + text + `"}}}`)
		b.Run("agent/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseAgent(in, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("server/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseServer(in, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
