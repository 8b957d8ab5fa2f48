package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

func flagsOf(t testing.TB, raw []byte) wire.Flags {
	t.Helper()
	f, err := wire.Valid(raw, wire.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return f
}

func keepTask(key string) bool { return key == "io.modelcontextprotocol/related-task" }

// Byte for byte the same, and in the same memory.
func TestJSONUntouched(t *testing.T) {
	for _, s := range []string{
		`{}`, `[]`, `"x"`, `12`, ` { "a" : [ 1.0, 1e2 , 12345678901234567890 ] } `,
		`{"content":[{"type":"text","text":"caf\u00e9 \/ \u003cb\u003e 日本語 👨` + "\u200d" + `👩 \ud83d\udc68\u200d\ud83d\udc69"}]}`,
		`{"a":1,"a":2}`,
		`{"content":[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}],"isError":false}`,
		`{"_meta":{"com.example/handoff":{"mcp.dev/x":1,"_meta":{}}}}`,
		`{"structuredContent":{"_meta":{"mcp.dev/x":1}},"content":[]}`,
		`{"inputSchema":{"type":"object","properties":{"_meta":{"type":"object"}}}}`,
		`{"params":{"arguments":{"deep":[{"_meta":null}]}}}`,
		`{"code":-32603,"message":"m","data":{"_meta":7}}`,
		`{"text":"\"_meta\":{}"}`,
		`{"key":"_meta"}`, `["_meta",{"_meta ":1}]`,
	} {
		raw := []byte(s)
		out, r := new(Cleaner).JSON(make([]byte, 0, 100), raw, flagsOf(t, raw), nil)
		if string(out) != s || &out[0] != &raw[0] || r != (Report{}) {
			t.Errorf("%s became %s, %+v", s, out, r)
		}
	}
}

func TestJSON(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string
		report         Report
	}{
		{
			"text, raw and escaped",
			`{"content":[{"type":"text","text":"a` + "\u200b" + `b"},{"type":"text","text":"\u200b\udb40\udc41c\n"}], "n": 1.50}`,
			`{"content":[{"type":"text","text":"ab"},{"type":"text","text":"c\n"}], "n": 1.50}`,
			Report{Strings: 2, Runes: 3},
		},
		{
			"terminal sequences",
			`["\u001b[2J\u001b]8;;http://x\u0007link\u001b]8;;\u0007","\b\f"]`, `["link",""]`,
			Report{Strings: 2, Runes: 26},
		},
		{
			"clean neighbours keep their escapes",
			`["\u0041\/","\u200b\/\u0041","\u0041\/"]`, `["\u0041\/","/A","\u0041\/"]`,
			Report{Strings: 1, Runes: 1},
		},
		{
			"wherever it stands",
			`{"structuredContent":{"a":["` + "\u202e" + `x"]},"description":"\u2066d","uri":"x:\u200b/","data":"a\u200b"}`,
			`{"structuredContent":{"a":["x"]},"description":"d","uri":"x:/","data":"a"}`,
			Report{Strings: 4, Runes: 4},
		},
		{
			"bare string", `"\u200b"`, `""`, Report{Strings: 1, Runes: 1},
		},
		{
			"bad text", "{\"a\":\"\xff\",\"b\":\"\\ud800\\u200b\"}", "{\"a\":\"\ufffd\",\"b\":\"\ufffd\"}",
			Report{Strings: 1, Runes: 1, Bad: 2},
		},
		{
			"noncharacter", `"\ufffe"`, "\"\ufffd\"", Report{Strings: 1, Runes: 1},
		},
		{
			"property names", `{"na\u200bme":1,"b` + "\u202e" + `":{"\u200b":2}}`, `{"name":1,"b":{"":2}}`,
			Report{Strings: 3, Runes: 3},
		},
		{
			"property names that collide",
			`{"na\u200bme":1,"name":2,"na\u2060me":3,"n` + "\U000e0041" + `ame":4,"nam\u200be":5}`,
			`{"name U+200B":1,"name":2,"name U+2060":3,"name U+E0041":4,"name U+200B #2":5}`,
			Report{Strings: 4, Runes: 4},
		},
		{
			"property names that come to be the same",
			`{"na\u200bme":1,"x":{"name":0},"nam\u200be":2}`, `{"name":1,"x":{"name":0},"name U+200B":2}`,
			Report{Strings: 2, Runes: 2},
		},
		{
			"no _meta by the back door", `{"_me\u200bta":{"mcp.dev/x":1},"a":2}`, `{"a":2}`,
			Report{Meta: 1},
		},
	} {
		checkJSON(t, new(Cleaner), tt.name, tt.in, tt.want, tt.report, nil)
	}
}

func TestJSONMeta(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string
		meta           int
	}{
		{"reserved keys go", `{"_meta":{"com.example/x":1,"mcp.dev/x":{"a":[1,2]},"y":"}"},"a":1}`, `{"_meta":{"com.example/x":1,"y":"}"},"a":1}`, 1},
		{"first key", `{"_meta": { "mcp.dev/x":1 , "y":2 } }`, `{"_meta": { "y":2 } }`, 1},
		{"first keys", `{"_meta":{"mcp.dev/x":1,"dev.mcp/x":1, "y":2}}`, `{"_meta":{"y":2}}`, 2},
		{"last keys", `{"_meta":{"y":2 , "mcp.dev/x":1, "dev.mcp/x":1 }}`, `{"_meta":{"y":2  }}`, 2},
		{"keys between", `{"_meta":{"y":2,"mcp.dev/x":1,"z":3,"baggage":1,"t":4}}`, `{"_meta":{"y":2,"z":3,"t":4}}`, 2},
		{"malformed keys", `{"_meta":{"1x.y/z":1,"/n":1,"ok":1}}`, `{"_meta":{"ok":1}}`, 2},
		{"keys that are kept", `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"},"io.modelcontextprotocol/serverInfo":{}}}`,
			`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}`, 1},
		{"hidden characters do not feign a kept key", `{"_meta":{"io.modelcontextprotocol/related-\u200btask":1,"a":"\u00e9"}}`, `{"_meta":{"a":"\u00e9"}}`, 1},
		{"nothing left", `{"a":1,"_meta":{"mcp.dev/x":1},"b":2}`, `{"a":1,"b":2}`, 1},
		{"nothing left, first", `{"_meta":{"mcp.dev/x":1}, "b":2}`, `{"b":2}`, 1},
		{"nothing left, last", `{"b":2, "_meta":{"mcp.dev/x":1}}`, `{"b":2}`, 1},
		{"nothing left at all", `{"_meta":{"mcp.dev/x":1}}`, `{}`, 1},
		{"empty", `{"a":1,"_meta":{ },"b":2}`, `{"a":1,"b":2}`, 0},
		{"no object", `{"_meta":null,"a":1}`, `{"a":1}`, 1},
		{"no object either", `{"_meta":["}",{"x":1}],"_meta":"a,b","_meta":-1.5e3,"a":1}`, `{"a":1}`, 3},
		{"twice", `{"_meta":{"mcp.dev/x":1},"a":1,"_meta":{"dev.mcp/x":1}}`, `{"a":1}`, 2},
		{"escaped", `{"_m\u0065ta":{"mcp.dev/x":1},"a":1}`, `{"a":1}`, 1},
		{"escaped keys", `{"_meta":{"mcp\u002edev/x":1,"a":1}}`, `{"_meta":{"a":1}}`, 1},
		{"in content", `{"content":[{"type":"text","text":"t","_meta":{"mcp.dev/x":1}},{"type":"resource","resource":{"uri":"u","_meta":{}}}]}`,
			`{"content":[{"type":"text","text":"t"},{"type":"resource","resource":{"uri":"u"}}]}`, 1},
		{"not in what is the server's own", `{"structuredContent":{"_meta":1,"a":[{"_meta":{}}]},"x":{"_meta":{}}}`, `{"structuredContent":{"_meta":1,"a":[{"_meta":{}}]},"x":{}}`, 0},
		{"an escaped name is the same name", `{"structured\u0043ontent":{"_meta":1},"_meta":{}}`, `{"structured\u0043ontent":{"_meta":1}}`, 0},
		{"inner objects keep reserved keys", `{"_meta":{"a":{"mcp.dev/x":1,"_meta":{}},"mcp.dev/x":1}}`, `{"_meta":{"a":{"mcp.dev/x":1,"_meta":{}}}}`, 1},
	} {
		want := Report{Meta: tt.meta}
		checkJSON(t, new(Cleaner), tt.name, tt.in, tt.want, want, keepTask)
		checkJSON(t, &Cleaner{Off: true}, tt.name+", off", tt.in, tt.want, want, keepTask)
		checkJSON(t, &Cleaner{KeepMeta: true, Off: true}, tt.name+", kept", tt.in, tt.in, Report{}, keepTask)
	}
}

func TestJSONSwitches(t *testing.T) {
	in := "{\"a\":\"\\u200b\xff\",\"_meta\":{\"mcp.dev/x\":\"\\u200b\"}}"
	checkJSON(t, &Cleaner{Off: true}, "off", in, "{\"a\":\"\\u200b\ufffd\"}", Report{Bad: 1, Meta: 1}, nil)
	checkJSON(t, &Cleaner{KeepMeta: true}, "keep", in, "{\"a\":\"\ufffd\",\"_meta\":{\"mcp.dev/x\":\"\"}}", Report{Strings: 2, Runes: 2, Bad: 1}, nil)
	checkJSON(t, nil, "nil", in, "{\"a\":\"\ufffd\"}", Report{Strings: 1, Runes: 1, Bad: 1, Meta: 1}, nil)
}

func checkJSON(t *testing.T, c *Cleaner, name, in, want string, report Report, keep func(string) bool) {
	t.Helper()
	raw := []byte(in)
	out, r := c.JSON(make([]byte, 7), raw, flagsOf(t, raw), keep)
	if d := cmp.Diff(want, string(out)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
	if r != report {
		t.Errorf("%s: got %+v, want %+v", name, r, report)
	}
	if string(raw) != in {
		t.Errorf("%s: the input was changed", name)
	}
}

func TestJSONAllocates(t *testing.T) {
	for name, raw := range map[string][]byte{"ASCII": value(4<<10, "plain text "), "not ASCII": value(4<<10, "日本語 ünï ")} {
		flags := flagsOf(t, raw)
		if n := testing.AllocsPerRun(20, func() { new(Cleaner).JSON(nil, raw, flags, nil) }); n > 0 {
			t.Errorf("%s: %v allocations for a clean value", name, n)
		}
	}
}

// Objects in objects, each with a hidden name, must not be read once per level;
// many names that come to be one must not be compared with one another.
func TestJSONIsLinear(t *testing.T) {
	var deep, wide strings.Builder
	deep.WriteString(strings.Repeat(`{"\u200b":`, 120) + `"` + strings.Repeat("x", 2<<20) + `"` + strings.Repeat("}", 120))
	wide.WriteString(`{"a":0`)
	for range 50_000 {
		wide.WriteString(`,"a\u200b":0`)
	}
	wide.WriteString("}")
	for name, s := range map[string]string{"deep": deep.String(), "wide": wide.String()} {
		raw := []byte(s)
		flags := flagsOf(t, raw)
		start := time.Now()
		out, _ := new(Cleaner).JSON(nil, raw, flags, nil)
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s: %v", name, d)
		}
		if f := flagsOf(t, out); f.Suspect() {
			t.Errorf("%s: not clean", name)
		}
	}
}

func FuzzCleanJSON(f *testing.F) {
	for _, s := range []string{
		`{"_meta":{"mcp.dev/x":1,"a":2},"te\u200bxt":"\u001b[m","text":"\ud83d\ude00"}`,
		`[{"_m\u0065ta":{}},{"_me\u200bta":1},"` + scotland + `"]`, "{\"\xff\":\"\\ud800\"}",
		`{"structuredContent":{"_meta":{}},"_meta":{"_meta":{},"\u200b":1}}`, `{"":{"":[]},"\u200b":1,"\u2060":2}`,
		` { "_meta" : [ ] , "_meta" : { } } `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		flags, err := wire.Valid(raw, wire.Limits{})
		if err != nil {
			return
		}
		before := bytes.Clone(raw)
		out, r := new(Cleaner).JSON(nil, raw, flags, keepTask)
		if !bytes.Equal(raw, before) {
			t.Fatalf("%s: the input was changed", before)
		}
		if !json.Valid(out) {
			t.Fatalf("%s became %s", raw, out)
		}
		flags2, err := wire.Valid(out, wire.Limits{})
		if err != nil || flags2&wire.BadText != 0 {
			t.Fatalf("%s became %s: %v", raw, out, err)
		}
		again, r2 := new(Cleaner).JSON(nil, out, flags2, keepTask)
		if !bytes.Equal(out, again) || r2 != (Report{}) {
			t.Fatalf("%s became %s, then %s", raw, out, again)
		}
		if (r == Report{}) && len(out) > len(raw) {
			t.Fatalf("%s became %s without a report", raw, out)
		}
		var v any
		if err := json.Unmarshal(out, &v); err == nil {
			checkTree(t, v, true)
		}
	})
}

// checkTree looks for hidden text and reserved keys with another parser.
func checkTree(t *testing.T, v any, protocol bool) {
	t.Helper()
	switch v := v.(type) {
	case string:
		checkClean(t, v)
	case []any:
		for _, e := range v {
			checkTree(t, e, protocol)
		}
	case map[string]any:
		for k, e := range v {
			checkClean(t, k)
			if k == "_meta" && protocol {
				checkMeta(t, e)
			}
			checkTree(t, e, protocol && k != "_meta" && !freeForm([]byte(`"`+k+`"`)))
		}
	}
}

func checkMeta(t *testing.T, v any) {
	t.Helper()
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		t.Fatalf("_meta is %v", v)
	}
	for k := range m {
		if (MetaReserved(k) || MetaMalformed(k)) && !keepTask(k) {
			t.Fatalf("_meta holds %q", k)
		}
	}
}

// value returns a tool result of about size bytes whose text repeats s.
func value(size int, s string) []byte {
	text := strings.Repeat(s, size/len(s))
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}],"isError":false}`, wire.AppendQuote(nil, text))
}

func BenchmarkCleanJSON(b *testing.B) {
	for _, bb := range []struct{ name, text string }{
		{"ascii", "The quick brown fox jumps over the lazy dog. "},
		{"cjk", "日本語の文章、それから中文。"},
		{"latin", "Ein größeres Stück, à la française. "},
		{"vietnamese", "Tiếng Việt có nhiều dấu thanh điệu. "},
		{"persian", "می\u200cخواهم کتاب\u200cها را بخوانم. "},
		{"emoji", "Well done 👍🏽 ❤️ 👨\u200d👩\u200d👧 and so on, and so forth. "},
		{"escapes", "a tab\x07 and <b>\u200b "},
		{"dirty", "Some text with a zero\u200bwidth in it, and more. "},
	} {
		for _, size := range []int{1 << 10, 100 << 10} {
			raw := value(size, bb.text)
			flags := flagsOf(b, raw)
			b.Run(fmt.Sprintf("%s/%dK", bb.name, size>>10), func(b *testing.B) {
				var c Cleaner
				var buf []byte
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					out, r := c.JSON(buf, raw, flags, nil)
					if r.Strings > 0 {
						buf = out
					}
				}
			})
		}
	}
	many := []byte("[" + strings.Repeat(`{"name":"ünïcode","note":"a\u200bb"},`, 2500) + "0]")
	flags := flagsOf(b, many)
	b.Run("many/100K", func(b *testing.B) {
		var c Cleaner
		buf := make([]byte, len(many))
		b.SetBytes(int64(len(many)))
		b.ReportAllocs()
		for b.Loop() {
			c.JSON(buf, many, flags, nil)
		}
	})
}
