package upstream

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answering answers each call with what its params hold, for tests that say odd things
// when the method is "odd".
func answering(odd func(id string, print func(string))) Builtin {
	return func(ctx context.Context, rw io.ReadWriteCloser) error {
		print := func(s string) { io.WriteString(rw, s) }
		return legacy(func(m request, say func(string, ...any)) error {
			if m.Method == "odd" {
				odd(string(m.ID), print)
			} else if m.Method == "good" {
				say(`{"jsonrpc":"2.0","id":%s,"result":1}`, m.ID)
			}
			return nil
		})(ctx, rw)
	}
}

// limited is a connection after its handshake, with a limit of 1000 bytes.
func limited(t *testing.T, b Builtin) *lineConn {
	t.Helper()
	c := bare(b, 1000)
	if err := c.handshake(t.Context(), LegacyOnly, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// A line that does not end fails its call when it passes the limit, and the whole
// connection when it goes on: it would swallow all answers to come.
func TestEndlessLine(t *testing.T) {
	const mine = `{"jsonrpc":"2.0","id":ID,"result":"`
	for _, tt := range []struct {
		name, head string
		bytes      int
		kind       Kind
		took, dead time.Duration
	}{
		{"its call is known", mine, 2000, TooLarge, 0, longWait},
		{"known, and much of it", mine, 20_000, TooLarge, 0, longWait},
		{"nobody's", `{"result":"`, 2000, Uncertain, longWait, longWait},
		{"nobody's, and much of it", `{"result":"`, 20_000, Uncertain, 0, 0},
		{"no message", `loading`, 20_000, Uncertain, 0, 0},
		{"a notification", `{"jsonrpc":"2.0","method":"x","id":ID,"params":"`, 2000, Uncertain, longWait, longWait},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := limited(t, answering(func(id string, print func(string)) {
					print(strings.ReplaceAll(tt.head, "ID", id))
					for range tt.bytes / 500 {
						print(strings.Repeat("x", 500))
					}
				}))
				defer c.Close()
				start := time.Now()
				_, err := c.Do(t.Context(), &Call{Method: "odd"})
				if KindOf(err) != tt.kind || !strings.Contains(err.Error(), "max_message_bytes (1000)") || time.Since(start) != tt.took {
					t.Errorf("got %v after %v, want kind %v after %v", err, time.Since(start), tt.kind, tt.took)
				}
				<-c.Done()
				if d := time.Since(start); d != tt.dead || KindOf(c.Err()) != TooLarge {
					t.Errorf("the connection ended after %v with %v, want %v", d, c.Err(), tt.dead)
				}
			})
		})
	}
}

// A long line that ends in time costs nobody else anything, not even the answer that
// was printed right behind it.
func TestLongLineEnds(t *testing.T) {
	for _, tt := range []struct {
		name, head, end string
	}{
		{"as it should", `{"jsonrpc":"2.0","id":ID,"result":"`, `"}` + "\n"},
		{"without its newline", `{"jsonrpc":"2.0","id":ID,"result":"`, `"}`},
		{"cut off", `{"jsonrpc":"2.0","id":ID,"result":{"x":["{`, ``},
		{"its id at the end", `{"result":"`, `","jsonrpc":"2.0","id":ID}` + "\n"},
		{"nobody's, without its newline", `{"result":"`, `"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := limited(t, answering(func(id string, print func(string)) {
					print(strings.ReplaceAll(tt.head, "ID", id) + strings.Repeat("x", 2000))
					print(strings.ReplaceAll(tt.end, "ID", id))
				}))
				defer c.Close()
				odd := make(chan error)
				go func() {
					_, err := c.Do(t.Context(), &Call{Method: "odd"})
					odd <- err
				}()
				synctest.Wait()
				if r, err := c.Do(t.Context(), &Call{Method: "good"}); err != nil || string(r.Result) != "1" {
					t.Errorf("the next call: got %s, %v", r.Result, err)
				}
				if err := <-odd; KindOf(err) != TooLarge {
					t.Errorf("got %v", err)
				}
				time.Sleep(2 * longWait)
				if err := c.Err(); err != nil {
					t.Errorf("the connection ended: %v", err)
				}
			})
		})
	}
}

// What an answer with two ids cannot do: fail the call of somebody else.
func TestTwoIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first string
		c := limited(t, legacy(func(m request, say func(string, ...any)) error {
			switch m.Method {
			case "patient":
				first = string(m.ID)
			case "odd":
				say(`{"jsonrpc":"2.0","id":%s,"id":%s,"result":{}}`, m.ID, first)
			case "end":
				say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, first)
				say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			}
			return nil
		}))
		defer c.Close()
		patient := make(chan error)
		go func() {
			_, err := c.Do(t.Context(), &Call{Method: "patient"})
			patient <- err
		}()
		synctest.Wait()
		if _, err := c.Do(t.Context(), &Call{Method: "odd"}); KindOf(err) != Protocol {
			t.Errorf("got %v", err)
		}
		c.Do(t.Context(), &Call{Method: "end"})
		if err := <-patient; err != nil {
			t.Errorf("the other call: %v", err)
		}
	})
}

// A caller that lags behind holds a bounded number of bytes, and what is too large to
// be of use reaches nobody.
func TestNotesAreBounded(t *testing.T) {
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":"%s"}}`
	for _, tt := range []struct {
		name         string
		size, n      int
		heard, noise int64
	}{
		{"small", 1000, 10, 10, 0},
		{"many", 300 << 10, 10, 4, 6}, // one is being handled
		{"too large", largestNote, 10, 0, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, noise, _ := dial(t, legacy(func(m request, say func(string, ...any)) error {
					for i := range tt.n {
						say(progress, m.ID, i, strings.Repeat("x", tt.size))
						time.Sleep(time.Millisecond) // the caller takes the first
					}
					say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
					return nil
				}))
				defer c.Close()
				block := make(chan struct{})
				time.AfterFunc(time.Second, func() { close(block) })
				var heard atomic.Int64
				_, err := c.Do(t.Context(), &Call{Method: "x", ProgressToken: []byte("1"), Notify: func(string, []byte) {
					<-block
					heard.Add(1)
				}})
				if err != nil || heard.Load() != tt.heard || noise.Load() != tt.noise {
					t.Errorf("got %v, %d heard, %d dropped, want %d and %d", err, heard.Load(), noise.Load(), tt.heard, tt.noise)
				}
			})
		})
	}
}

// The same for what belongs to no call.
func TestLargeNotificationOutsideCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, noise, heard := dial(t, legacy(func(m request, say func(string, ...any)) error {
			for _, n := range []int{10, largestNote} {
				say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"%s"}}`, strings.Repeat("x", n))
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			return nil
		}))
		defer c.Close()
		if _, err := c.Do(t.Context(), &Call{Method: "x"}); err != nil {
			t.Fatal(err)
		}
		want := []string{`notifications/resources/updated {"uri":"xxxxxxxxxx"}`}
		if diff := cmp.Diff(want, heard.list()); diff != "" || noise.Load() != 1 {
			t.Errorf("%d dropped (-want +got):\n%s", noise.Load(), diff)
		}
	})
}

// A secret that stands across the cut does not show in half.
func TestSecretsGoBeforeTheCut(t *testing.T) {
	scrub := func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
	for at := range 2 * len("hunter2") {
		got := cleanLine(fmt.Appendf(nil, "%shunter2", strings.Repeat("x", stderrLine-at)), scrub)
		if strings.Contains(got, "xh") || len(got) > stderrLine {
			t.Errorf("%d bytes before the cut: %d bytes that end in %q", at, len(got), got[len(got)-20:])
		}
	}
	if got := cleanLine([]byte(strings.Repeat("hunter2", scrubbed)), strings.NewReplacer("hunter2", "").Replace); got != "(a long line)" {
		t.Errorf("got %q", got)
	}
}
