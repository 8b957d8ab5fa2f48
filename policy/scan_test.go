package policy

import (
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// scan reads bytes and escapes, suspect reads characters: they must agree on
// every single one, raw and escaped, wherever it stands in a word.
func TestScanAgreesWithSuspect(t *testing.T) {
	for r := rune(0x20); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) || r == '"' || r == '\\' {
			continue
		}
		if 0x30000 < r && r < 0xe0000 && r&0xff < 0xf0 {
			continue // planes of nothing but their last two
		}
		pad := "xxxxxxxx"[:r%8]
		raw := []byte(`"` + pad + string(r) + `zzzzzzzz"`)
		checkScan(t, raw, r)
		if r%7 == 0 || suspect(r) {
			checkScan(t, []byte(`"`+pad+escaped(r)+`zzzzzzzz"`), r)
		}
	}
	for r := range rune(0x20) {
		checkScan(t, []byte(`"`+escaped(r)+`"`), r)
	}
}

func escaped(r rune) string {
	if r < 0x10000 {
		return fmt.Sprintf(`\u%04x`, r)
	}
	r -= 0x10000
	return fmt.Sprintf(`\u%04X\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
}

func checkScan(t *testing.T, raw []byte, r rune) {
	t.Helper()
	f := scan(raw, 0)
	end, g := scanString(raw, 0)
	if f != g || end != len(raw) || (f&dirty != 0) != suspect(r) {
		t.Errorf("%U as %s: scan %v, scanString %v to %d of %d, suspect %v", r, raw, f, g, end, len(raw), suspect(r))
	}
}

func TestScanEscapes(t *testing.T) {
	for in, want := range map[string]finding{
		`"\b"`: dirty, `"\f"`: dirty, `"\n\t\r\"\\\/"`: 0, `"\\u200b"`: 0, `"\\\u200b"`: dirty,
		`"\u003c\u00e9"`: 0, `"\ud83d\ude00"`: 0, `"\udb40\udc41"`: dirty, `"\ud83d"`: dirty, `"\ude00"`: dirty,
		`"_m\u0065ta"`: spelled, `"\u005fmeta"`: spelled, `"\u005F"`: spelled, `"\u200b\u0061"`: dirty | spelled,
		`"\u000a"`: 0, `"\u000B"`: dirty, `"\u007f"`: dirty, "\"\x7f\"": dirty,
	} {
		if got := scan([]byte(in), 0); got != want {
			t.Errorf("scan(%s) = %v, want %v", in, got, want)
		}
		if _, got := scanString([]byte(in), 0); got != want {
			t.Errorf("scanString(%s) = %v, want %v", in, got, want)
		}
	}
}

func TestSkipValue(t *testing.T) {
	for _, v := range []string{`1`, `-1.5e3`, `null`, `""`, `"a\"]}\\"`, `{}`, `[]`, `{"a":[1,{"b":"]"}]}`, `[[],[{}]]`} {
		for _, after := range []string{"", ",1", "}", "]", " }", "\n,"} {
			if got := skipValue([]byte(v+after), 0); got != len(v) {
				t.Errorf("skipValue(%s) = %d, want %d", v+after, got, len(v))
			}
		}
	}
}

// A broken value must not make the cleaner panic or hang, though wire lets none
// through.
func FuzzCleanBroken(f *testing.F) {
	for _, s := range []string{`{"_meta":`, `{"a\u200b`, `]]}`, `{"\`, `{"_meta":{"a"`, `{"_meta":{"mcp.dev/x":1,`, `{"\u200b":1,"`, "\xe3\"", `{,"_meta"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		new(Cleaner).JSON(nil, raw, wire.NonASCII|wire.Escapes, nil)
		new(Cleaner).JSON(nil, raw, wire.NonASCII|wire.Escapes|wire.BadText, func(k string) bool { return k == "a" })
	})
}
