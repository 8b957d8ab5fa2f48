package vault

import (
	"bytes"
	"errors"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// said is all that a log may hold of a file: the names of fields of ours.
var said = regexp.MustCompile(`^$|^time=\S+ level=WARN msg="[a-z ]+" server=a path=/v/a.json( fields="?\[[a-z_. ]+\]"?)?\n$`)

// FuzzLoad holds that no file is more than damaged, and that what is loaded can be
// saved and is the same then. It is all of Load but the disk.
func FuzzLoad(f *testing.F) {
	key := bytes.Repeat([]byte{1}, KeySize)
	for _, k := range [][]byte{nil, key} {
		b, err := (&Vault{Key: k}).encode(full("a"), full("a").Expiry)
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
		got, err := l.weigh("/v/a.json", "a", b, nil)
		if err != nil && !errors.Is(err, ErrKey) {
			t.Fatal(err)
		}
		if !said.Match(l.log.Bytes()) {
			t.Errorf("logged %q", l.log)
		}
		l.log.Reset() // b may have what newLab looks for
		if got.state != sound {
			return
		}
		b, err = l.encode(got.entry, got.updated)
		if err != nil {
			t.Fatal(err)
		}
		again, err := l.weigh("/v/a.json", "a", b, nil)
		opaque := cmpopts.IgnoreFields(Entry{}, "Provider") // may be written in other words
		if diff := cmp.Diff(got.entry, again.entry, opaque, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	})
}
