package vault

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzLoad holds that no file is more than damaged, and that what is loaded can be
// saved and is the same then.
func FuzzLoad(f *testing.F) {
	key := bytes.Repeat([]byte{1}, KeySize)
	for _, k := range [][]byte{nil, key} {
		v := &Vault{Key: k}
		b, err := v.encode(full("a"), full("a").Expiry)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1,"server":"a","deleted":true}`))
	f.Add([]byte(`{"version":1,"server":"a","entry":{"server":"a","provider":null,"client":{"id":"x","redirect_uris":[]}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLab(t)
		l.Key = key
		l.put("a", string(b))
		got, err := l.Load("a")
		if err != nil && !errors.Is(err, ErrKey) {
			t.Fatal(err)
		}
		l.log.Reset() // a path or a field of ours is all that is in it; bytes of f may be anything
		if got == nil {
			return
		}
		l.save(got)
		// What is opaque may be written in other words.
		opaque := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Provider" }, cmp.Ignore())
		if diff := cmp.Diff(got, l.load("a"), plainly, opaque, cmp.Transformer("empty", func(s []string) int { return len(s) })); diff != "" {
			t.Error(diff)
		}
	})
}
