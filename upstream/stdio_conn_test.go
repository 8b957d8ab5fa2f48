package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A lineScript plays a server: it gets each message and says lines.
type lineScript func(m request, say func(format string, args ...any)) error

// scripted runs s over the line protocol.
func scripted(s lineScript) Builtin {
	return func(_ context.Context, rw io.ReadWriteCloser) error {
		in := bufio.NewScanner(rw)
		in.Buffer(nil, 1<<20)
		say := func(format string, args ...any) { fmt.Fprintf(rw, format+"\n", args...) }
		for in.Scan() {
			var m request
			if err := json.Unmarshal(in.Bytes(), &m); err != nil {
				return err
			}
			if err := s(m, say); err != nil {
				return err
			}
		}
		return nil
	}
}

// legacy shakes hands as a legacy server does, then follows s.
func legacy(s lineScript) Builtin {
	return scripted(func(m request, say func(string, ...any)) error {
		switch m.Method {
		case "server/discover":
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`, m.ID)
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, legacyHello)
		case "notifications/initialized":
		default:
			return s(m, say)
		}
		return nil
	})
}

func modern(s lineScript) Builtin {
	return scripted(func(m request, say func(string, ...any)) error {
		if m.Method == "server/discover" {
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, modernHello)
			return nil
		}
		return s(m, say)
	})
}

// dial connects to a scripted server and counts what nobody asked for.
func dial(t *testing.T, b Builtin) (*lineConn, *atomic.Int64, *heard) {
	t.Helper()
	var noise atomic.Int64
	h := &heard{}
	c, err := dialBuiltin(t.Context(), &Resolved{Server: "srv", Settings: &Settings{}}, b, env{noise: func(n int) { noise.Add(int64(n)) }, notify: h.notify})
	if err != nil {
		t.Fatal(err)
	}
	return c.(*lineConn), &noise, h
}

type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) notify(method string, params []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, method+" "+string(params))
}

func (h *heard) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all
}

func TestHandshake(t *testing.T) {
	const refusal = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`
	answer := func(result string) string { return `{"jsonrpc":"2.0","id":%s,"result":` + result + `}` }
	unsupported := func(list string) string {
		return `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"supported":` + list + `}}}`
	}
	for _, tt := range []struct {
		name                 string
		discover, initialize string // "" is silence
		late                 time.Duration
		want                 Era
		took                 time.Duration
		fault                string
	}{
		{name: "modern", discover: answer(modernHello), want: Modern},
		{name: "legacy", discover: refusal, initialize: answer(legacyHello), want: Legacy},
		{name: "any code means legacy", discover: `{"jsonrpc":"2.0","id":%s,"error":{"code":-1}}`, initialize: answer(legacyHello), want: Legacy},
		{name: "error without an id", discover: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}`, initialize: answer(legacyHello), want: Legacy},
		{name: "a result that is none", discover: answer(`{}`), initialize: answer(legacyHello), want: Legacy},
		{name: "legacy that knows the method", discover: answer(`{"supportedVersions":["2025-06-18"]}`), initialize: answer(legacyHello), want: Legacy},
		{name: "modern by its error", discover: unsupported(`["2026-07-28"]`), want: Modern},
		{name: "legacy by its error", discover: unsupported(`["2025-06-18"]`), initialize: answer(legacyHello), want: Legacy},
		{name: "later than we are", discover: unsupported(`["2031-01-01"]`), initialize: answer(legacyHello), fault: "2031-01-01"},
		{name: "silent to the probe", initialize: answer(legacyHello), want: Legacy, took: probeWait},
		{name: "late but modern", discover: answer(modernHello), late: 5 * time.Second, want: Modern, took: 5 * time.Second},
		{name: "late refusal, then initialize", discover: refusal, initialize: answer(legacyHello), late: 5 * time.Second, want: Legacy, took: 5 * time.Second},
		{name: "neither", discover: refusal, initialize: refusal, fault: "initialize: refused with code -32601: what?"},
		{name: "odd version", discover: refusal, initialize: answer(`{"protocolVersion":"1999-01-01"}`), fault: `"1999-01-01"`},
		{name: "silent", took: time.Minute, fault: "initialize: no answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []string
				b := scripted(func(m request, say func(string, ...any)) error {
					seen = append(seen, m.Method)
					say("starting...")
					switch {
					case m.Method == "server/discover" && tt.discover != "":
						time.Sleep(tt.late)
						say(tt.discover, m.ID)
					case m.Method == "initialize" && tt.initialize != "":
						say(tt.initialize, m.ID)
					}
					return nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				c, err := dialBuiltin(ctx, &Resolved{Server: "srv", Settings: &Settings{}}, b, env{})
				took := time.Since(start)
				if tt.fault != "" {
					if err == nil || !strings.Contains(err.Error(), tt.fault) || took < tt.took {
						t.Fatalf("got %v after %v, want %q", err, took, tt.fault)
					}
					return
				}
				if err != nil || took != tt.took {
					t.Fatalf("got %v after %v, want %v", err, took, tt.took)
				}
				if c.Info().Era != tt.want {
					t.Errorf("got era %v, want %v", c.Info().Era, tt.want)
				}
				synctest.Wait()
				c.Close()
				if last := seen[len(seen)-1]; tt.want == Legacy && last != "notifications/initialized" {
					t.Errorf("the server saw %q", seen)
				}
			})
		})
	}
}

// S16: a server whose era changed since the hint was taken is found all the same.
func TestHandshakeHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := dial(t, modern(nil))
		c.Close()
		b := scripted(func(m request, say func(string, ...any)) error {
			if m.Method == "initialize" {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"modern only"}}`, m.ID)
			} else {
				say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, modernHello)
			}
			return nil
		})
		for _, want := range []Eras{ModernOnly, Auto} {
			c := bare(b)
			legacy := Legacy
			if err := c.handshake(t.Context(), want, &legacy); err != nil || c.info.Era != Modern {
				t.Errorf("%v: got %v, %v", want, err, c.info.Era)
			}
			c.Close()
		}
		c = bare(b)
		if err := c.handshake(t.Context(), LegacyOnly, nil); KindOf(err) != Protocol {
			t.Errorf("legacy only: got %v", err)
		}
		c.Close()
	})
}

// bare is a connection before its handshake.
func bare(b Builtin, limit ...int) *lineConn {
	c := newBuiltinConn(context.Background(), &Resolved{Server: "srv", Settings: &Settings{}}, b, env{})
	for _, n := range limit {
		c.settings = &Settings{MaxMessageBytes: n}
	}
	c.start()
	return c
}

// S2, go-sdk's list of what kills its connection: none of it may.
func TestNoise(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		noise      int64
		want       string // the answer; "" when the line has none
	}{
		{name: "banner", line: "Server listening", noise: 1},
		{name: "log in JSON", line: `{"level":"info","msg":"up"}`, noise: 1},
		{name: "log with a method", line: `{"method":"GET","path":"/"}`, noise: 1},
		{name: "scalar", line: `42`, noise: 1},
		{name: "text", line: `"hello"`, noise: 1},
		{name: "colours", line: "\x1b[32mok\x1b[0m", noise: 1},
		{name: "blank", line: " \t", noise: 0},
		{name: "empty object", line: `{}`, noise: 1},
		{name: "array", line: `[1,{"a":1}]`, noise: 2},
		{name: "unknown id", line: `{"jsonrpc":"2.0","id":999,"result":{}}`, noise: 1},
		{name: "unknown id without jsonrpc", line: `{"id":999,"result":{}}`, noise: 1},
		{name: "null id with a call in flight", line: `{"jsonrpc":"2.0","id":null,"result":{}}`, noise: 1},
		{name: "crlf", line: `{"jsonrpc":"2.0","id":ID,"result":1}` + "\r", want: "1"},
		{name: "bom", line: "\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":ID,"result":2}`, want: "2"},
		{name: "blanks around", line: ` {"jsonrpc":"2.0","id":ID,"result":3} `, want: "3"},
		{name: "id as a string", line: `{"jsonrpc":"2.0","id":"ID","result":4}`, want: "4"},
		{name: "id with a fraction", line: `{"jsonrpc":"2.0","id":ID.0,"result":5}`, want: "5"},
		{name: "log in JSON that is broken", line: `{"id":ID,"level":`, noise: 1},
		{name: "no jsonrpc", line: `{"id":ID,"result":5}`, want: "5"},
		{name: "two messages", line: `{"jsonrpc":"2.0","id":888,"result":{}}{"jsonrpc":"2.0","id":ID,"result":6}`, noise: 1, want: "6"},
		{name: "two messages, ours first", line: `{"jsonrpc":"2.0","id":ID,"result":6}{"jsonrpc":"2.0","id":888,"result":{}}`, noise: 1, want: "6"},
		{name: "bracket", line: `[info] listening`, noise: 1},
		{name: "empty batch", line: `[]`, noise: 1},
		{name: "log in JSON with an id of ours", line: `{"level":"info","id":ID,"error":"none"}`, noise: 1},
		{name: "batch", line: `[{"jsonrpc":"2.0","id":ID,"result":7}]`, want: "7"},
		{name: "twice", line: `{"jsonrpc":"2.0","id":ID,"result":8}` + "\n" + `{"jsonrpc":"2.0","id":ID,"result":9}`, noise: 1, want: "8"},
		{name: "null error", line: `{"jsonrpc":"2.0","id":ID,"error":null,"result":10}`, want: "10"},
		{name: "digits", line: `{"jsonrpc":"2.0","id":ID,"result":{"n":9007199254740993,"f":1.10}}`, want: `{"n":9007199254740993,"f":1.10}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, noise, _ := dial(t, legacy(func(m request, say func(string, ...any)) error {
					say("%s", strings.ReplaceAll(tt.line, "ID", string(m.ID)))
					if tt.want == "" {
						say(`{"jsonrpc":"2.0","id":%s,"result":"after"}`, m.ID)
					}
					return nil
				}))
				defer c.Close()
				r, err := c.Do(t.Context(), &Call{Method: "x"})
				if err != nil {
					t.Fatal(err)
				}
				want := tt.want
				if want == "" {
					want = `"after"`
				}
				synctest.Wait()
				if string(r.Result) != want || noise.Load() != tt.noise {
					t.Errorf("got %s and %d noise, want %s and %d", r.Result, noise.Load(), want, tt.noise)
				}
			})
		})
	}
}

// What a caller gets when the answer is no good; the next call works.
func TestBadAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, line, wantError, fault string
		kind                         Kind
	}{
		{name: "an error is handed on", line: `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"m","data":{"n":1.10}}}`,
			wantError: `{"code":-32602,"message":"m","data":{"n":1.10}}`},
		{name: "broken JSON", line: `{"jsonrpc":"2.0","id":ID,"result":{"a":1},"x":}`, kind: Protocol, fault: "cannot be read"},
		{name: "cut off", line: `{"jsonrpc":"2.0","id":ID,"result":{"a":`, kind: Protocol, fault: "cannot be read"},
		{name: "broken, id last", line: `{"result":{"a":tru},"jsonrpc":"2.0","id":ID}`, kind: Protocol, fault: "cannot be read"},
		{name: "too deep", line: `{"jsonrpc":"2.0","id":ID,"result":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, kind: Protocol, fault: "cannot be read"},
		{name: "error is no object", line: `{"jsonrpc":"2.0","id":ID,"error":"oh"}`, kind: Protocol, fault: "neither a result nor an error"},
		{name: "neither", line: `{"jsonrpc":"2.0","id":ID}`, kind: Protocol, fault: "neither a result nor an error"},
		{name: "id twice", line: `{"jsonrpc":"2.0","id":ID,"id":7,"result":{}}`, kind: Protocol, fault: "comes twice"},
		{name: "id twice in a batch", line: `[{"jsonrpc":"2.0","id":ID,"id":7,"result":{}}]`, kind: Protocol, fault: "comes twice"},
		{name: "result twice", line: `{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}`, kind: Protocol, fault: "comes twice"},
		{name: "a method besides", line: `{"jsonrpc":"2.0","id":ID,"method":"x","result":{}}`, kind: Protocol, fault: "has a method"},
		{name: "a method that is none", line: `{"jsonrpc":"2.0","id":ID,"method":5,"result":{}}`, kind: Protocol, fault: "not a string"},
		{name: "cut off early", line: `{"jsonrpc":"2.0","id":ID,`, kind: Protocol, fault: "cannot be read"},
		{name: "too long, after another id", line: `{"jsonrpc":"2.0","id":ID,"id":7,"result":"` + strings.Repeat("x", 2000) + `"}`, kind: TooLarge, fault: "max_message_bytes (1000)"},
		{name: "too long", line: `{"jsonrpc":"2.0","id":ID,"result":"` + strings.Repeat("x", 2000) + `"}`, kind: TooLarge, fault: "max_message_bytes (1000)"},
		{name: "too long, id last", line: `{"result":"` + strings.Repeat("x", 2000) + `","jsonrpc":"2.0","id":ID}`, kind: TooLarge, fault: "max_message_bytes (1000)"},
		{name: "too long, no id", line: `{"result":"` + strings.Repeat("x", 2000), kind: TooLarge, fault: "max_message_bytes (1000)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bare(legacy(func(m request, say func(string, ...any)) error {
					line := `{"jsonrpc":"2.0","id":ID,"result":1}`
					if m.Method == "bad" {
						line = tt.line
					}
					say("%s", strings.ReplaceAll(line, "ID", string(m.ID)))
					return nil
				}), 1000)
				defer c.Close()
				if err := c.handshake(t.Context(), Auto, nil); err != nil {
					t.Fatal(err)
				}
				r, err := c.Do(t.Context(), &Call{Method: "bad"})
				if string(r.Error) != tt.wantError || KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("got %s, %v", r.Error, err)
				}
				if r, err := c.Do(t.Context(), &Call{Method: "good"}); err != nil || string(r.Result) != "1" {
					t.Errorf("the next call: got %s, %v", r.Result, err)
				}
			})
		})
	}
}

// S15: what a server asks is answered at once, and only ping with a yes.
func TestServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan request, 8)
		c, _, _ := dial(t, legacy(func(m request, say func(string, ...any)) error {
			if m.Method == "" {
				answers <- m
				return nil
			}
			go func() { // a server that answers may not block on us
				say(`{"jsonrpc":"2.0","id":"a","method":"ping"}`)
				say(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`)
				say(`{"jsonrpc":"2.0","id":2,"method":"elicitation/create"}`)
				say(`{"jsonrpc":"2.0","id":3,"method":"roots/list"}`)
				say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			}()
			return nil
		}))
		defer c.Close()
		if _, err := c.Do(t.Context(), &Call{Method: "x"}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"a" {}`, `1 -32601`, `2 -32601`, `3 -32601`} {
			m := <-answers
			got := string(m.ID) + " " + string(m.Result)
			if m.Error != nil {
				code, _, _ := errorParts(m.Error)
				got += fmt.Sprint(code)
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var token json.RawMessage
		c, noise, heard := dial(t, legacy(func(m request, say func(string, ...any)) error {
			if m.Method != "slow" {
				return nil
			}
			var p struct {
				Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
			}
			json.Unmarshal(m.Params, &p)
			token = p.Meta.ProgressToken
			for _, n := range []string{"1", "1", "0.5", "2.50", `"x"`} {
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s,"x":1}}`, token, n)
			}
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12345,"progress":9}}`)
			say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":100}}`, token)
			return nil
		}))
		defer c.Close()
		var got []string
		_, err := c.Do(t.Context(), &Call{Method: "slow", ProgressToken: []byte(`"mine"`),
			Notify: func(method string, params []byte) { got = append(got, string(params)) }})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := []string{`{"progressToken":"mine","progress":1,"x":1}`, `{"progressToken":"mine","progress":2.50,"x":1}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
		if string(token) == `"mine"` || noise.Load() != 5 {
			t.Errorf("got token %s and %d dropped, want one of ours and 5", token, noise.Load())
		}
		if diff := cmp.Diff([]string{"notifications/tools/list_changed "}, heard.list()); diff != "" {
			t.Errorf("outside of calls (-want +got):\n%s", diff)
		}
	})
}

// Log messages go to the only call in flight, else to the Set.
func TestLogMessages(t *testing.T) {
	for _, tt := range []struct {
		name    string
		with    func(lineScript) Builtin
		calls   int
		toCall  bool
		outside int
	}{
		{"legacy", legacy, 1, true, 0},
		{"legacy, two calls", legacy, 2, false, 1},
		{"modern", modern, 1, true, 0},
		{"modern, two calls", modern, 2, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ids []string
				c, _, heard := dial(t, tt.with(func(m request, say func(string, ...any)) error {
					if ids = append(ids, string(m.ID)); len(ids) < tt.calls {
						return nil
					}
					say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
					for _, id := range ids {
						say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
					}
					return nil
				}))
				defer c.Close()
				var calls sync.WaitGroup
				var told atomic.Int32
				for range tt.calls {
					calls.Go(func() {
						c.Do(t.Context(), &Call{Method: "x", Notify: func(string, []byte) { told.Add(1) }})
					})
				}
				calls.Wait()
				if (told.Load() > 0) != tt.toCall || len(heard.list()) != tt.outside {
					t.Errorf("got %d in calls, %q outside", told.Load(), heard.list())
				}
			})
		})
	}
}

// R33, 88661: a call that takes too long, or that nobody wants any more, is
// cancelled under the server's id; it fails alone, and its late answer is dropped.
func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		name string
		call Call
		ctx  time.Duration // when the caller gives up; zero for never
		took time.Duration
		want string
		is   error
	}{
		{name: "default", took: 300 * time.Second, want: "no answer within 5m0s"},
		{name: "the call's own", call: Call{Timeout: time.Second}, took: time.Second, want: "no answer within 1s"},
		{name: "the caller's", ctx: 2 * time.Second, took: 2 * time.Second, want: "canceled", is: context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slow, cancelled string
				c, noise, _ := dial(t, legacy(func(m request, say func(string, ...any)) error {
					switch m.Method {
					case "slow":
						slow = string(m.ID)
					case "notifications/cancelled":
						var p struct{ RequestID json.RawMessage }
						json.Unmarshal(m.Params, &p)
						cancelled = string(p.RequestID)
						say(`{"jsonrpc":"2.0","id":%s,"result":"late"}`, slow)
					default:
						say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
					}
					return nil
				}))
				defer c.Close()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.ctx > 0 {
					time.AfterFunc(tt.ctx, cancel)
				}
				start := time.Now()
				tt.call.Method = "slow"
				_, err := c.Do(ctx, &tt.call)
				if err == nil || !strings.Contains(err.Error(), tt.want) || time.Since(start) != tt.took || tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("got %v after %v, want %q after %v", err, time.Since(start), tt.want, tt.took)
				}
				if tt.is == nil && KindOf(err) != Timeout {
					t.Errorf("got kind %v, want Timeout", KindOf(err))
				}
				synctest.Wait()
				if slow == "" || cancelled != slow || noise.Load() != 1 {
					t.Errorf("slow call %s, cancelled %s, noise %d", slow, cancelled, noise.Load())
				}
				if _, err := c.Do(t.Context(), &Call{Method: "quick"}); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
}

// S8: a server that stops reading is dead after a while; a call of which no byte
// went out may be sent again, one that went out in part may not.
func TestServerStopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		b := func(ctx context.Context, rw io.ReadWriteCloser) error {
			return legacy(func(m request, _ func(string, ...any)) error {
				<-stuck
				return io.EOF
			})(ctx, rw)
		}
		c, _, _ := dial(t, b)
		defer c.Close()
		defer close(stuck)
		kinds := make(chan Kind, 3)
		start := time.Now()
		for _, m := range []string{"first", "second", "third"} {
			go func() {
				_, err := c.Do(t.Context(), &Call{Method: m, Timeout: time.Minute})
				kinds <- KindOf(err)
			}()
			synctest.Wait() // in this order
		}
		<-c.Done()
		if d := time.Since(start); d < writeStall || d > writeStall+2*time.Second || !strings.Contains(c.Err().Error(), "stopped reading") {
			t.Errorf("got %v after %v", c.Err(), d)
		}
		got := map[Kind]int{<-kinds: 1}
		got[<-kinds]++
		got[<-kinds]++
		// The scanner took the first; of the others nothing went out.
		if diff := cmp.Diff(map[Kind]int{Uncertain: 1, Unreachable: 2}, got); diff != "" {
			t.Errorf("kinds (-want +got):\n%s", diff)
		}
	})
}

// A caller that does not take its notifications delays nobody else.
func TestSlowListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := dial(t, legacy(func(m request, say func(string, ...any)) error {
			if m.Method != "noisy" {
				say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
				return nil
			}
			for i := range 10 * waitingNotes {
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, m.ID, i)
			}
			return nil
		}))
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		block, gone := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(gone)
			c.Do(ctx, &Call{Method: "noisy", ProgressToken: []byte("1"), Notify: func(string, []byte) { <-block }})
		}()
		if _, err := c.Do(t.Context(), &Call{Method: "quick"}); err != nil {
			t.Error(err)
		}
		cancel()
		close(block)
		<-gone
	})
}

// G8: a builtin that panics ends its own connection.
func TestBuiltinPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := dial(t, legacy(func(request, func(string, ...any)) error { panic("oh") }))
		defer c.Close()
		_, err := c.Do(t.Context(), &Call{Method: "x"})
		if KindOf(err) != Uncertain || !strings.Contains(err.Error(), "panic: oh") {
			t.Errorf("got %v", err)
		}
	})
}

func TestOneLine(t *testing.T) {
	if got := string(oneLine([]byte("{\n\"a\":\r\n1}"))); got != "{ \"a\":  1}\n" {
		t.Errorf("got %q", got)
	}
}

// A log message belongs to the only call of an agent, whatever the program itself asks
// of the server meanwhile.
func TestLogBesideOurOwnRequests(t *testing.T) {
	asked := make(chan struct{})
	c, _, h := dial(t, legacy(func(m request, say func(string, ...any)) error {
		switch m.Method {
		case "ping", "logging/setLevel":
			close(asked) // and is never answered
		case "tools/call":
			go func() {
				<-asked
				say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"mine"}}`)
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
			}()
		}
		return nil
	}))
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var own sync.WaitGroup
	var got []string
	call := &Call{Method: "tools/call", Params: []byte(`{"name":"t"}`), Notify: func(_ string, params []byte) { got = append(got, string(params)) }}
	own.Go(func() { c.Do(ctx, &Call{Method: "logging/setLevel", Params: []byte(`{"level":"info"}`)}) })
	if _, err := c.Do(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	cancel()
	own.Wait()
	if everybody := h.list(); len(got) != 1 || len(everybody) != 0 {
		t.Errorf("the call heard %q, everybody %q", got, everybody)
	}
}
