package seal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func newSealer(t *testing.T, key byte, instance string, older ...[]byte) *Sealer {
	t.Helper()
	var in [8]byte
	copy(in[:], instance)
	s, err := New(bytes.Repeat([]byte{key}, KeySize), in, older...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	s := newSealer(t, 1, "a")
	for _, payload := range []string{"", "x", strings.Repeat("long", 1000)} {
		tok := s.Seal('c', []byte("bound"), []byte(payload))
		got, err := s.Open('c', []byte("bound"), tok)
		if err != nil || string(got) != payload {
			t.Errorf("Open = %q, %v, want %q", got, err, payload)
		}
	}
}

func TestLongTokens(t *testing.T) {
	s := newSealer(t, 1, "a")
	want := strings.Repeat("long", MaxToken)
	tok := s.Seal('c', nil, []byte(want))
	if got, err := s.OpenUpTo(1<<20, 'c', nil, tok); err != nil || string(got) != want {
		t.Errorf("OpenUpTo: %d bytes, %v", len(got), err)
	}
	for _, max := range []int{MaxToken, len(tok) - 1} {
		if _, err := s.OpenUpTo(max, 'c', nil, tok); !errors.Is(err, ErrMalformed) {
			t.Errorf("up to %d: got %v, want %v", max, err, ErrMalformed)
		}
	}
	if _, err := s.OpenUpTo(1<<20, 'd', nil, tok); !errors.Is(err, ErrRefused) {
		t.Errorf("other kind: got %v", err)
	}
}

// Tokens have one spelling: none that base64 would read alike.
func TestSpellings(t *testing.T) {
	s := newSealer(t, 1, "a")
	tok := s.Seal('c', nil, []byte("xy"))
	for _, other := range []string{tok + "\n", tok + "\r\n", "\n" + tok, tok[:9] + "\r" + tok[9:], tok + "=", tok + " "} {
		if _, err := s.Open('c', nil, other); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %v, want %v", other, err, ErrMalformed)
		}
	}
}

func TestTokensDiffer(t *testing.T) {
	s := newSealer(t, 1, "a")
	a, b := s.Seal('c', nil, []byte("x")), s.Seal('c', nil, []byte("x"))
	if a == b {
		t.Error("two seals of one payload are equal")
	}
}

func TestRefusals(t *testing.T) {
	s := newSealer(t, 1, "a")
	tok := s.Seal('c', []byte("b"), []byte("payload"))
	for _, tt := range []struct {
		name   string
		s      *Sealer
		kind   byte
		bound  string
		token  string
		expect error
	}{
		{"other kind", s, 'd', "b", tok, ErrRefused},
		{"other bound", s, 'c', "x", tok, ErrRefused},
		{"other key", newSealer(t, 2, "a"), 'c', "b", tok, ErrRefused},
		{"other instance", newSealer(t, 1, "b"), 'c', "b", tok, ErrOtherInstance},
		{"empty", s, 'c', "b", "", ErrMalformed},
		{"no base64", s, 'c', "b", "!!!!", ErrMalformed},
		{"head only", s, 'c', "b", tok[:20], ErrMalformed},
		{"cut", s, 'c', "b", tok[:64], ErrRefused},
		{"long", s, 'c', "b", strings.Repeat("A", 1<<20), ErrMalformed},
	} {
		if _, err := tt.s.Open(tt.kind, []byte(tt.bound), tt.token); !errors.Is(err, tt.expect) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.expect)
		}
	}
}

func TestEveryAlteredByteIsRefused(t *testing.T) {
	s := newSealer(t, 1, "a")
	tok := s.Seal('c', nil, []byte("payload"))
	for i := range tok {
		b := []byte(tok)
		if b[i] == 'A' {
			b[i] = 'B'
		} else {
			b[i] = 'A'
		}
		if _, err := s.Open('c', nil, string(b)); err == nil {
			t.Errorf("altered byte %d: opened", i)
		}
	}
}

func TestOlderKeysOpen(t *testing.T) {
	old := newSealer(t, 1, "a")
	tok := old.Seal('c', nil, []byte("x"))
	s := newSealer(t, 2, "a", bytes.Repeat([]byte{1}, KeySize))
	if got, err := s.Open('c', nil, tok); err != nil || string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := old.Open('c', nil, s.Seal('c', nil, nil)); !errors.Is(err, ErrRefused) {
		t.Errorf("old key opened a new token: %v", err)
	}
}

func TestShortKey(t *testing.T) {
	if _, err := New([]byte("short"), [8]byte{}); err == nil {
		t.Error("want an error for a short key")
	}
	if Random().Seal('c', nil, nil) == "" {
		t.Error("random sealer seals nothing")
	}
}

func FuzzOpen(f *testing.F) {
	s := Random()
	f.Add(s.Seal('c', nil, []byte("x")))
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, token string) {
		if out, err := s.Open('d', nil, token); err == nil {
			t.Errorf("opened %q as %q", token, out)
		}
	})
}
