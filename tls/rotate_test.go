package tls

import (
	"bytes"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A rotation is a client with a pair of files, and a server that says whose
// certificate it saw.
type rotation struct {
	*world
	ca        *mcptest.CA
	server    *tls.Config
	cert, key string
}

func newRotation(t *testing.T, first *mcptest.Pair, ca *mcptest.CA) *rotation {
	dir := t.TempDir()
	r := &rotation{ca: ca, server: ca.Issue(t, mcptest.Leaf{Hosts: []string{"srv.example"}}).MutualServer(ca)}
	r.cert, r.key = first.Files(t, dir)
	r.world = load(t, dir, Client{CAFile: ca.File(t, dir), CertFile: r.cert, KeyFile: r.key})
	return r
}

// wantPeer shakes hands at once.
func (r *rotation) wantPeer(want *mcptest.Pair) {
	r.t.Helper()
	got := meet(r.t, r.Config(), r.server)
	if got.client != nil || got.server != nil {
		r.t.Errorf("client: %v, server: %v", got.client, got.server)
	}
	if got.peer != want.X509.SerialNumber.String() {
		r.t.Errorf("the server saw %s, want %s", got.peer, want.X509.SerialNumber)
	}
}

func TestPairRotates(t *testing.T) {
	ca := mcptest.NewCA(t, "ours")
	a, b := ca.Issue(t, mcptest.Leaf{}), ca.Issue(t, mcptest.Leaf{})
	r := newRotation(t, a, ca)
	r.wantPeer(a)
	b.Files(t, r.dir)
	r.wantPeer(a) // nobody has looked yet
	r.later()
	r.wantPeer(b)
	r.wantTold()
	if at, _ := r.Certificate(); !at.Equal(b.X509.NotAfter) {
		t.Errorf("got %v", at)
	}
}

// Without a bundle of its own it is the wish for a certificate that looks.
func TestPairRotatesAlone(t *testing.T) {
	dir := t.TempDir()
	ca := mcptest.NewCA(t, "ours")
	a, b := ca.Issue(t, mcptest.Leaf{}), ca.Issue(t, mcptest.Leaf{})
	w := load(t, dir, Client{SkipVerify: true, CertFile: write(t, dir, "all.pem", a.Combined())})
	r := &rotation{world: w, server: mcptest.SelfSigned(t, mcptest.Leaf{}).MutualServer(ca)}
	r.wantPeer(a)
	before := w.pair.Load()
	r.later()
	r.wantPeer(a)
	if w.pair.Load() != before {
		t.Error("the same bytes were parsed again")
	}
	write(t, dir, "all.pem", b.Combined())
	r.later()
	r.wantPeer(b)
}

const mismatch = `client_key "DIR/tls.key": the private key is not that of the first certificate in "DIR/tls.crt"`

// Certificate first or key first: until the other comes, the old pair is used,
// and the reason is told once.
func TestHalfRotated(t *testing.T) {
	ca := mcptest.NewCA(t, "ours")
	a, b := ca.Issue(t, mcptest.Leaf{}), ca.Issue(t, mcptest.Leaf{})
	steps := [][2]string{{"tls.crt", "tls.key"}, {"tls.key", "tls.crt"}}
	for _, order := range steps {
		t.Run(order[0], func(t *testing.T) {
			r := newRotation(t, a, ca)
			part := map[string][]byte{"tls.crt": b.Cert, "tls.key": b.Key}
			write(t, r.dir, order[0], part[order[0]])
			for range 3 {
				r.later()
				r.wantPeer(a)
			}
			r.wantTold(mismatch)
			write(t, r.dir, order[1], part[order[1]])
			r.later()
			r.wantPeer(b)
			r.wantTold()
			write(t, r.dir, order[0], map[string][]byte{"tls.crt": a.Cert, "tls.key": a.Key}[order[0]])
			r.later()
			r.wantPeer(b)
			r.wantTold(mismatch) // again, because it was well in between
		})
	}
}

// What a writer that does not rename leaves for a moment.
func TestHalfWritten(t *testing.T) {
	ca := mcptest.NewCA(t, "ours")
	a := ca.Issue(t, mcptest.Leaf{})
	b := ca.Intermediate(t, "between").Issue(t, mcptest.Leaf{})
	r := newRotation(t, a, ca)
	whole := b.Cert
	write(t, r.dir, "tls.key", b.Key)
	for _, n := range []int{0, 10, 300, len(whole) - 40} { // the last has all of the leaf
		if err := os.WriteFile(r.cert, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		r.later()
		r.wantPeer(a)
	}
	if err := os.WriteFile(r.cert, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	r.later()
	r.wantPeer(b)
	r.wantTold(
		`client_cert "DIR/tls.crt": the file is empty`,
		`client_cert "DIR/tls.crt": there is no PEM block in it`,
		`client_cert "DIR/tls.crt": PEM block 1 is malformed`,
		`client_cert "DIR/tls.crt": PEM block 2 is malformed`,
	)
}

// A file that was written in place in the same tick as it was read, with the
// size it had, is read again as long as it is young; later a look is enough.
func TestYoungFile(t *testing.T) {
	for _, settled := range []bool{false, true} {
		dir := t.TempDir()
		a, b := mcptest.SelfSigned(t, mcptest.Leaf{}), mcptest.SelfSigned(t, mcptest.Leaf{})
		path := write(t, dir, "all.pem", a.Combined())
		w := load(t, dir, Client{CertFile: path})
		if w.cert.settled {
			t.Fatal("a file of this moment counts as settled")
		}
		info, err := os.Stat(write(t, dir, "all.pem", b.Combined()))
		if err != nil {
			t.Fatal(err)
		}
		w.cert.infos[0], w.cert.settled = info, settled // as if it had been so
		w.later()
		w.look()
		if seen := w.pair.Load().Leaf.Equal(b.X509); seen == settled {
			t.Errorf("settled %v: seen %v", settled, seen)
		}
		if infos := w.cert.infos; old(infos, time.Now()) || !old(infos, time.Now().Add(settle)) {
			t.Error("old is not after settle")
		}
	}
}

// A copy that keeps size and time of the last write, as rsync makes, is known by
// the change of the inode.
func TestTimesPutBack(t *testing.T) {
	dir := t.TempDir()
	a, b := mcptest.SelfSigned(t, mcptest.Leaf{}), mcptest.SelfSigned(t, mcptest.Leaf{})
	padded := func(p *mcptest.Pair) []byte {
		return append(bytes.Repeat([]byte("\n"), 2000-len(p.Combined())), p.Combined()...)
	}
	path := write(t, dir, "all.pem", padded(a))
	w := load(t, dir, Client{CertFile: path})
	w.cert.settled = true
	before := w.cert.infos[0]
	for began := time.Now(); ; {
		if err := errors.Join(os.WriteFile(path, padded(b), 0o600), os.Chtimes(path, time.Time{}, before.ModTime())); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if !changed(now).Equal(changed(before)) { // the clock of the file system has ticked
			break
		}
		if time.Since(began) > 5*time.Second {
			t.Skip("this file system does not say when an inode changed")
		}
	}
	w.later()
	w.look()
	if !w.pair.Load().Leaf.Equal(b.X509) {
		t.Error("not seen")
	}
}

func TestVanished(t *testing.T) {
	ca := mcptest.NewCA(t, "ours")
	a := ca.Issue(t, mcptest.Leaf{})
	r := newRotation(t, a, ca)
	for _, path := range []string{r.key, r.cert, filepath.Join(r.dir, "ca.crt")} {
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r.later()
			r.wantPeer(a)
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
		r.later()
		r.wantPeer(a)
	}
	r.wantTold(
		`client_key "DIR/tls.key": no such file or directory`,
		`client_cert "DIR/tls.crt": no such file or directory`,
		`ssl_verify "DIR/ca.crt": no such file or directory`,
	)
}

// publish does what Kubernetes does: the files are links through ..data, which
// is replaced as a whole.
func publish(t *testing.T, dir, version string, files map[string][]byte) {
	t.Helper()
	real := filepath.Join(dir, ".."+version)
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		write(t, real, name, data)
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	before, _ := os.Readlink(filepath.Join(dir, "..data"))
	tmp := filepath.Join(dir, "..data_tmp")
	if err := errors.Join(os.Symlink(".."+version, tmp), os.Rename(tmp, filepath.Join(dir, "..data"))); err != nil {
		t.Fatal(err)
	}
	if before != "" {
		os.RemoveAll(filepath.Join(dir, before))
	}
}

func secret(ca *mcptest.CA, p *mcptest.Pair) map[string][]byte {
	return map[string][]byte{"ca.crt": ca.PEM(), "tls.crt": p.Cert, "tls.key": p.Key}
}

func TestKubernetesSwap(t *testing.T) {
	dir := t.TempDir()
	ca, next := mcptest.NewCA(t, "ours"), mcptest.NewCA(t, "next")
	a, b := ca.Issue(t, mcptest.Leaf{}), next.Issue(t, mcptest.Leaf{})
	publish(t, dir, "v1", secret(ca, a))
	w := load(t, dir, Client{CAFile: dir + "/ca.crt", CertFile: dir + "/tls.crt", KeyFile: dir + "/tls.key"})
	leaf := mcptest.Leaf{Hosts: []string{"srv.example"}}
	r := &rotation{world: w, server: ca.Issue(t, leaf).MutualServer(ca)}
	r.wantPeer(a)
	publish(t, dir, "v2", secret(next, b))
	r.later()
	if got := meet(t, r.Config(), r.server); got.client == nil {
		t.Error("the old authority still counts")
	}
	r.server = next.Issue(t, leaf).MutualServer(next)
	r.wantPeer(b)
	r.wantTold()
}

// Two hundred swaps under handshakes: none fails, as one with a mixed pair would,
// and the last pair is the one in use.
func TestSwapsUnderLoad(t *testing.T) {
	dir := t.TempDir()
	ca := mcptest.NewCA(t, "ours")
	pairs := []*mcptest.Pair{ca.Issue(t, mcptest.Leaf{}), ca.Issue(t, mcptest.Leaf{})}
	publish(t, dir, "v0", secret(ca, pairs[0]))
	w := load(t, dir, Client{CAFile: dir + "/ca.crt", CertFile: dir + "/tls.crt", KeyFile: dir + "/tls.key"})
	server := ca.Issue(t, mcptest.Leaf{Hosts: []string{"srv.example"}}).MutualServer(ca)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { handshakes(t, w, server, stop) })
	}
	for i := range 200 {
		publish(t, dir, "v"+strings.Repeat("i", i+1), secret(ca, pairs[(i+1)%2]))
	}
	close(stop)
	wg.Wait()
	r := &rotation{world: w, server: server}
	r.later()
	r.wantPeer(pairs[0])
}

func handshakes(t *testing.T, w *world, server *tls.Config, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		w.later()
		if got := meet(t, w.Config(), server); got.client != nil || got.server != nil {
			t.Errorf("client: %v, server: %v", got.client, got.server)
			return
		}
	}
}

// A bad new bundle keeps the last good one: neither the system's roots nor none.
func TestBadBundleLater(t *testing.T) {
	dir := t.TempDir()
	ca, other := mcptest.NewCA(t, "ours"), mcptest.NewCA(t, "theirs")
	leaf := mcptest.Leaf{Hosts: []string{"srv.example"}}
	ours, theirs := ca.Issue(t, leaf).Server(), other.Issue(t, leaf).Server()
	w := load(t, dir, Client{CAFile: ca.File(t, dir)})
	three := bytes.Join([][]byte{other.PEM(), ca.PEM(), other.PEM()}, nil)
	tests := []struct {
		data []byte
		want string
	}{
		{nil, "the file is empty"},
		{[]byte("not PEM"), "there is no PEM block in it"},
		{replaced(three, len(other.PEM())+60, '*'), "PEM block 2 is malformed"},
		{make([]byte, maxFile+1), "larger than 1048576 bytes"},
	}
	for _, tt := range tests {
		write(t, dir, "ca.crt", tt.data)
		for range 3 {
			w.later()
			if got := meet(t, w.Config(), ours); got.client != nil {
				t.Errorf("%s: %v", tt.want, got.client)
			}
			if got := meet(t, w.Config(), theirs); got.client == nil {
				t.Errorf("%s: a stranger is trusted", tt.want)
			}
		}
		w.wantTold(`ssl_verify "DIR/ca.crt": ` + tt.want)
	}
	write(t, dir, "ca.crt", other.PEM())
	w.later()
	wantErr(t, meet(t, w.Config(), theirs).client, "")
	wantErr(t, meet(t, w.Config(), ours).client, "unknown authority")
	w.wantTold()
}

// A session that began under an authority ends with it, even if the caller adds
// a session cache.
func TestResumption(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			dir := t.TempDir()
			ca, other := mcptest.NewCA(t, "ours"), mcptest.NewCA(t, "theirs")
			server := ca.Issue(t, mcptest.Leaf{Hosts: []string{"srv.example"}}).Server()
			server.MaxVersion = version
			w := load(t, dir, Client{CAFile: ca.File(t, dir)})
			c := w.Config()
			if meet(t, c, server); meet(t, c, server).resumed {
				t.Error("resumed without a cache")
			}
			c.ClientSessionCache = tls.NewLRUClientSessionCache(4)
			meet(t, c, server)
			if got := meet(t, c, server); !got.resumed || got.client != nil {
				t.Fatalf("not resumed: %+v", got)
			}
			write(t, dir, "ca.crt", other.PEM())
			w.later()
			wantErr(t, meet(t, c, server).client, "unknown authority")
		})
	}
}

// The files are looked at once a second, not once a handshake.
func TestLooksOnceASecond(t *testing.T) {
	ca := mcptest.NewCA(t, "ours")
	a, b := ca.Issue(t, mcptest.Leaf{}), ca.Issue(t, mcptest.Leaf{})
	r := newRotation(t, a, ca)
	frozen := time.Now().Add(time.Minute)
	r.now = func() time.Time { return frozen }
	r.wantPeer(a) // looks
	b.Files(t, r.dir)
	frozen = frozen.Add(lookEvery - 1)
	r.wantPeer(a)
	frozen = frozen.Add(1)
	r.wantPeer(b)
}

// While one handshake looks, the others go on with what there is; and who is
// told may ask.
func TestLookingHoldsUpNobody(t *testing.T) {
	ca := mcptest.NewCA(t, "ours")
	a := ca.Issue(t, mcptest.Leaf{})
	r := newRotation(t, a, ca)
	r.client.Told = func(error) {
		if _, ok := r.Certificate(); !ok {
			t.Error("no certificate")
		}
		r.later()
		r.wantPeer(a)
	}
	write(t, r.dir, "tls.crt", nil)
	r.later()
	r.wantPeer(a)
}

// An encrypted key rotates with its passphrase.
func TestEncryptedRotates(t *testing.T) {
	dir := t.TempDir()
	copyTo := func(name, from string) string {
		b, err := os.ReadFile(data(from))
		if err != nil {
			t.Fatal(err)
		}
		return write(t, dir, name, b)
	}
	c := Client{CertFile: copyTo("tls.crt", "cert.pem"), KeyFile: copyTo("tls.key", "pbes2.pem"), Passphrase: passphrase}
	w := load(t, dir, c)
	before := w.pair.Load()
	copyTo("tls.key", "rsa-legacy.pem")
	copyTo("tls.crt", "rsa-cert.pem")
	w.later()
	w.look()
	if w.pair.Load() == before {
		t.Error("the pair did not rotate")
	}
}
