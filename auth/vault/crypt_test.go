package vault

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrongKey(t *testing.T) {
	l := newLab(t)
	right := bytes.Repeat([]byte{1}, KeySize)
	l.Key = right
	l.save(full("a"))
	before := l.text(l.path("a"))
	for name, key := range map[string][]byte{"none": nil, "another": bytes.Repeat([]byte{2}, KeySize)} {
		l.Key = key
		_, err := l.Load("a")
		for op, err := range map[string]error{"load": err, "save": l.Save(full("a"))} {
			if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), l.path("a")) {
				t.Errorf("%s key: %s: got %v", name, op, err)
			}
		}
		if names, err := l.Names(); err != nil || !slices.Equal(names, []string{"a"}) {
			t.Errorf("%s key: names: %q, %v", name, names, err)
		}
	}
	if l.text(l.path("a")) != before {
		t.Error("a wrong key changed the file")
	}
	if l.Key = right; l.load("a") == nil || l.warned() != "" {
		t.Error("the right key does not open it")
	}
	if l.Key = nil; l.Delete("a") != nil || l.load("a") != nil {
		t.Error("cannot be dropped without its key")
	}
}

func TestKeyComesLater(t *testing.T) {
	l := newLab(t)
	l.save(full("a"))
	l.Key = bytes.Repeat([]byte{1}, KeySize)
	if diff := cmp.Diff(full("a"), l.load("a"), plainly); diff != "" {
		t.Fatal(diff)
	}
	if l.save(full("a")); strings.Contains(l.text(l.path("a")), canary) {
		t.Error("not sealed")
	}
}

// TestSealedInItsPlace holds that what is sealed for one server opens for no other.
func TestSealedInItsPlace(t *testing.T) {
	l := newLab(t)
	l.Key = bytes.Repeat([]byte{1}, KeySize)
	l.save(full("a"))
	sealed := l.text(l.path("a"))
	for name, text := range map[string]string{
		"moved":   strings.Replace(sealed, `"server":"a"`, `"server":"b"`, 1),
		"altered": strings.Replace(strings.Replace(sealed, `"server":"a"`, `"server":"b"`, 1), `"sealed":"`, `"sealed":"AAAA`, 1),
		"short":   `{"version":1,"server":"b","key":"` + keyID(l.Key) + `","sealed":"AAAA"}`,
		"nothing": `{"version":1,"server":"b","key":"` + keyID(l.Key) + `","sealed":""}`,
	} {
		l.put("b", text)
		if got, w := l.load("b"), l.warned(); got != nil || !strings.Contains(w, "fields=[sealed]") {
			t.Errorf("%s: got %v, warned %q", name, got, w)
		}
	}
}

func TestReadKey(t *testing.T) {
	key := bytes.Repeat([]byte{0xfb, 0xff}, KeySize/2)
	path := filepath.Join(t.TempDir(), "key")
	for name, text := range map[string]string{
		"raw": string(key), "hex": hex.EncodeToString(key) + "\n", "base64": base64.StdEncoding.EncodeToString(key) + "\r\n",
		"base64url": base64.RawURLEncoding.EncodeToString(key),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, warning, err := ReadKey(path); !bytes.Equal(got, key) || warning != "" || err != nil {
			t.Errorf("%s: got %x, %q, %v", name, got, warning, err)
		}
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, warning, err := ReadKey(path); !strings.Contains(warning, "mode 0640") || err != nil {
		t.Errorf("got %q, %v", warning, err)
	}
	for _, text := range []string{"", canary, string(key[1:]), strings.Repeat(canary, 1000)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadKey(path); err == nil || !strings.HasSuffix(err.Error(), "want 32 bytes, as they are, in base64 or in hexadecimal") || strings.Contains(err.Error(), canary) {
			t.Errorf("%.20q: got %v", text, err)
		}
	}
}
