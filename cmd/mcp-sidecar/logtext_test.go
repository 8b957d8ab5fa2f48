package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/config"
)

// Nothing that a server or an agent said makes a terminal do anything, or reads
// otherwise than it is, in either format and whatever the attribute is.
func TestLogIsLegible(t *testing.T) {
	const evil = "a\u202eb\u009bc\x1b[31md\u200be\u2028f\U000e0041g\x00h\x7fi\xffj\ufeffk\u2066"
	type other struct{ s string }
	for _, format := range []string{"json", "text"} {
		for name, v := range map[string]any{
			"string": evil, "error": fmt.Errorf("call: %w", errors.New(evil)), "strings": []string{evil},
			"stringer": stringer(evil), "bytes": []byte(evil), "struct": other{evil}, "any": any(evil),
		} {
			var b bytes.Buffer
			log := newLogger(&b, config.Log{Level: "debug", Format: format})
			log.Info("call failed", "op", v)
			log.With("server", v).WithGroup("g").Info("server down", "err", v, evil, 1)
			out := b.String()
			if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && illegible(r) }); i >= 0 {
				t.Errorf("%s of %s: %q", format, name, out[i:])
			}
			if strings.Count(out, "\n") != 2 || name != "bytes" && !strings.Contains(out, `u202e`) {
				t.Errorf("%s of %s: %s", format, name, out)
			}
		}
	}
}

type stringer string

func (s stringer) String() string { return string(s) }

// What is legible stays as it is.
func TestLogOfPlainValues(t *testing.T) {
	var b bytes.Buffer
	newLogger(&b, config.Log{Format: "json"}).Info("m", "s", "ä \"q\" 日本\tx", "n", 3, "d", 2*time.Second, "b", true, "e", errors.New("x"), "l", []string{"a"}, "nil", nil)
	_, got, _ := strings.Cut(b.String(), `"msg"`)
	if want := `:"m","s":"ä \"q\" 日本\tx","n":3,"d":"2s","b":true,"e":"x","l":["a"],"nil":null}` + "\n"; got != want {
		t.Errorf("got %s", got)
	}
}
