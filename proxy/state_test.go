package proxy

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/seal"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// TestStateIsRefused: each misuse of a requestState has its own words, none of
// which tell what it was for, and no server hears of it.
func TestStateIsRefused(t *testing.T) {
	key := bytes.Repeat([]byte{7}, seal.KeySize)
	sealer, err := seal.New(key, [8]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	other, _ := seal.New(key, [8]byte{2})
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = serverAsks(formAsked)
		answer := `{"q1":` + formAnswer + `}`
		p := w.asks(w.run(slowCall("")), "q1")
		good := p.retry(slowCall(""), answer)
		with := func(f func(a *modernAsk)) modernAsk {
			a := good
			f(&a)
			return a
		}
		token := func(s string) modernAsk {
			return pausedResult{RequestState: &s}.retry(slowCall(""), answer)
		}
		raw, err := base64.RawURLEncoding.DecodeString(*p.RequestState)
		if err != nil {
			t.Fatal(err)
		}
		altered := func(i int) string {
			b := bytes.Clone(raw)
			b[(i+len(b))%len(b)] ^= 1
			return base64.RawURLEncoding.EncodeToString(b)
		}
		foreign := &Front{opt: Options{Sealer: other}}
		lost := (&exchange{f: w.front, view: parkView(w), params: readParams([]byte(slowCall("").params))})
		lost.caller.ID, lost.msg.Method = "caller ", "tools/call"
		for _, tt := range []struct {
			name string
			ask  modernAsk
			says string
		}{
			{"no text", with(func(a *modernAsk) { a.params = strings.Replace(a.params, `"`+*p.RequestState+`"`, "5", 1) }), "requestState is malformed, or was altered"},
			{"null", with(func(a *modernAsk) { a.params = strings.Replace(a.params, `"`+*p.RequestState+`"`, "null", 1) }), "inputResponses came without a requestState"},
			{"empty", token(""), "requestState is malformed, or was altered"},
			{"invented", token("x"), "requestState is malformed, or was altered"},
			{"first byte altered", token(altered(0)), "requestState is malformed, or was altered"},
			{"key altered", token(altered(2)), "requestState is malformed, or was altered"},
			{"kind altered", token(altered(13)), "requestState is malformed, or was altered"},
			{"middle altered", token(altered(60)), "requestState is malformed, or was altered"},
			{"end altered", token(altered(-1)), "requestState is malformed, or was altered"},
			{"cut", token((*p.RequestState)[:80]), "requestState is malformed, or was altered"},
			{"with a line's end", token(*p.RequestState + `\n`), "requestState is malformed, or was altered"},
			{"longer", token(*p.RequestState + "AAAA"), "requestState is malformed, or was altered"},
			{"too long", token(strings.Repeat("A", maxState+1)), "requestState is malformed, or was altered"},
			{"of another kind", token(sealer.Seal(sealedCursor, nil, []byte("x"))), "requestState is malformed, or was altered"},
			{"of another instance", token(foreign.seal(lost.newState(stateParked, "files", nil))), "requestState is of another instance of mcp-sidecar; make the call anew without it"},
			{"another caller", with(func(a *modernAsk) { a.caller = "b" }), "requestState was given to another caller"},
			{"another view", with(func(a *modernAsk) {
				a.path, a.name = "/mcp/files", "slow"
				a.params = strings.Replace(a.params, "mcp_files_slow", "slow", 1)
			}), "requestState was given at another endpoint"},
			{"another tool", with(func(a *modernAsk) {
				a.name = "mcp_files_read_file"
				a.params = strings.Replace(a.params, "mcp_files_slow", a.name, 1)
			}), "requestState was given for a request of something else"},
			{"another method", with(func(a *modernAsk) {
				a.method, a.name = "prompts/get", "mcp_files_greet"
				a.params = strings.Replace(a.params, "mcp_files_slow", a.name, 1)
			}), "requestState was given for a request of something else"},
			{"other arguments", with(func(a *modernAsk) { a.params = strings.Replace(a.params, `"a":1.0`, `"a":1.5`, 1) }), "requestState was given for other arguments"},
			{"fewer arguments", with(func(a *modernAsk) { a.params = strings.Replace(a.params, `,"a":1.0`, ``, 1) }), "requestState was given for other arguments"},
			{"an unknown call", token(w.front.seal(lost.newState(stateParked, "files", nil))), "no call waits for this requestState: it has ended or was given up; make the call anew without it"},
			{"another owner", token(w.front.seal(lost.newState(stateParked, "github", nil))), "no call waits for this requestState: it has ended or was given up; make the call anew without it"},
			{"responses no object", with(func(a *modernAsk) { a.params = strings.Replace(a.params, answer, `[]`, 1) }), "inputResponses is not an object"},
			{"response no object", with(func(a *modernAsk) { a.params = strings.Replace(a.params, answer, `{"q1":"yes"}`, 1) }), "inputResponses: the answer to q1 is not an object"},
			{"response without action", with(func(a *modernAsk) { a.params = strings.Replace(a.params, answer, `{"q1":{"action":"Accept"}}`, 1) }), `inputResponses: the answer to q1 has the action \"Accept\", which is none of accept, decline, cancel`},
			{"response with an odd action", with(func(a *modernAsk) {
				a.params = strings.Replace(a.params, answer, `{"q1":{"action":"\n`+strings.Repeat("y", 40)+`"}}`, 1)
			}), `inputResponses: the answer to q1 has the action \"\\n` + strings.Repeat("y", 31) + `\\u2026\", which is none of accept, decline, cancel`},
			{"response without action", with(func(a *modernAsk) { a.params = strings.Replace(a.params, answer, `{"q1":{"action":5}}`, 1) }), "inputResponses: the answer to q1 has no action, which is accept, decline or cancel"},
			{"responses alone", with(func(a *modernAsk) {
				a.params = strings.Replace(a.params, `,"requestState":"`+*p.RequestState+`"`, "", 1)
			}), "inputResponses came without a requestState"},
		} {
			r := w.run(tt.ask)
			want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"` + tt.says + `"}}`
			if r.status != 200 || r.body != want {
				t.Errorf("%s:\n got %d %.300s\nwant %s", tt.name, r.status, r.body, want)
			}
		}
		if n := len(w.seen()); n != 1 {
			t.Errorf("servers got %d calls, want 1", n)
		}
		r := w.run(good)
		wantJSON(t, "the right one", r.body, fmt.Sprintf(parkDone, formAnswer))
		r = w.run(good)
		if code(r.body) != -32602 || !strings.Contains(r.body, "requestState was used before; each is good for one retry") {
			t.Errorf("again: %s", r.body)
		}
		if n := len(w.seen()); n != 1 {
			t.Errorf("servers got %d calls, want 1", n)
		}
	}, func(o *Options) { o.Sealer = sealer })
}

func parkView(w *parkWorld) *View {
	v, ok := w.keeper.View("default", "")
	if !ok {
		w.t.Fatal("no view")
	}
	return v
}

// Agents write a request anew for a retry.
func TestRetryInOtherSpelling(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = serverAsks(formAsked)
		p := w.asks(w.run(slowCall("")), "q1")
		a := slowCall("")
		a.params = `{"inputResponses":{"q1":` + formAnswer + `},"requestState":"` + *p.RequestState + `","arguments":{ "a" : 1, "b":[1.0 ,{"\u0078":"\u00e9"}]},"name":"mcp_files_\u0073low"}`
		r := w.run(a)
		wantJSON(t, "result", r.body, fmt.Sprintf(parkDone, formAnswer))
	})
}

// Of two retries at the same time one goes on.
func TestConcurrentRetries(t *testing.T) {
	for range 5 {
		parkBubble(t, func(t *testing.T, w *parkWorld) {
			w.answer = serverAsks(formAsked)
			p := w.asks(w.run(slowCall("")), "q1")
			var all sync.WaitGroup
			got := make([]came, 8)
			for i := range got {
				all.Go(func() { got[i] = w.run(p.retry(slowCall(""), `{"q1":`+formAnswer+`}`)) })
			}
			all.Wait()
			won := 0
			for _, r := range got {
				switch {
				case r.body == strings.ReplaceAll(fmt.Sprintf(parkDone, formAnswer), "\n", ""):
					won++
				case !strings.Contains(r.body, "requestState was used before"):
					t.Errorf("got %s", r.body)
				}
			}
			if won != 1 {
				t.Errorf("%d retries went on, want 1", won)
			}
		})
	}
}

// A legacy agent has neither, and what it sends under these names reaches nobody.
func TestStateOfLegacyAgents(t *testing.T) {
	w := newWorld(t)
	for _, more := range []string{`"requestState":"x"`, `"inputResponses":{}`} {
		for _, m := range []string{`"tools/call","params":{"name":"mcp_files_slow",`, `"prompts/get","params":{"name":"mcp_files_greet",`,
			`"resources/read","params":{"uri":"file:///a.txt",`} {
			r := w.post(`{"jsonrpc":"2.0","id":1,"method":` + m + more + `}}`)
			if code(r.body) != -32602 || !strings.Contains(r.body, "requestState belongs to 2026-07-28") {
				t.Errorf("%s %s: %s", m, more, r.body)
			}
		}
	}
	if len(w.seen()) != 0 {
		t.Errorf("servers saw %+v", w.seen())
	}
}

// There are agents that write null for what they do not have.
func TestNullState(t *testing.T) {
	w := newWorld(t)
	const params = `{"name":"mcp_files_slow","requestState":null,"inputResponses":null}`
	r := w.modern("1", "tools/call", "mcp_files_slow", params)
	wantJSON(t, "modern", r.body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"structuredContent":{"name":"slow"}}}`)
	r = w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`)
	wantJSON(t, "legacy", r.body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"name":"slow"}}}`)
}

func TestForwardCutsAnswers(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"name":"x","requestState":"s","_meta":{}}`, `{"name":"y"}`},
		{`{"requestState":"s","inputResponses":{},"name":"x","_meta":{}}`, `{"name":"y"}`},
		{`{"_meta":{},"inputResponses":{},"name":"x" , "requestState":"s" }`, `{"name":"y" }`},
		{`{"name":"y","arguments":{"requestState":1},"inputResponses":{}}`, `{"name":"y","arguments":{"requestState":1}}`},
	} {
		p := readParams([]byte(tt.in))
		if got := string(p.forward(nil, "name", "y")); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

func TestSameArguments(t *testing.T) {
	for _, same := range [][]string{
		{``, `null`, `{}`, ` { } `},
		{`{"a":1,"b":[1,2]}`, "{ \"b\" : [ 1 ,\t2 ]\n, \"a\":1}", `{"b":[1,2],"a":1.0}`, `{"\u0061":10e-1,"b":[0.1e1,20E-1]}`},
		{`{"s":"é\n/"}`, `{"s":"\u00e9\u000a\/"}`},
		{`{"n":0}`, `{"n":-0}`, `{"n":0.0}`, `{"n":0e5}`},
		{`{"n":100}`, `{"n":1e2}`, `{"n":1E+2}`, `{"n":100.000}`},
		{`{"n":-1.5e-7}`, `{"n":-15E-8}`, `{"n":-0.00000015}`},
		{`{"o":{"x":{"p":true,"q":null}}}`, `{"o":{"x":{"q":null,"p":true}}}`},
	} {
		want := sameArguments([]byte(same[0]))
		for _, s := range same[1:] {
			if sameArguments([]byte(s)) != want {
				t.Errorf("%s and %s differ", same[0], s)
			}
		}
	}
	seen := map[digest]string{}
	for _, s := range []string{
		`{}`, `{"a":1}`, `{"a":"1"}`, `{"a":[1]}`, `{"a":{"1":1}}`, `{"a":true}`, `{"a":"true"}`, `{"a":null}`, `{"a":""}`, `{"a":[]}`, `{"a":{}}`,
		`{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":[[1],2]}`, `{"a":[[1,2]]}`, `{"a":[12]}`, `{"a":-1}`, `{"a":10}`, `{"a":0.1}`, `{"a":0}`,
		`{"a":9007199254740993}`, `{"a":9007199254740992}`, `{"a":1e400}`, `{"a":1e99999999999}`, `{"a":10e99999999999}`,
		`{"a":1,"b":2}`, `{"a":2,"b":1}`, `{"ab":1}`, `{"a":{"b":1},"c":1}`, `{"a":{"b":1,"c":1}}`, `{"a":"b\",\"c\":\""}`,
	} {
		d := sameArguments([]byte(s))
		if was, ok := seen[d]; ok {
			t.Errorf("%s and %s are the same", was, s)
		}
		seen[d] = s
	}
}

// FuzzSameArguments: the walk ends, whatever it is given, and for JSON its result
// does not depend on white space.
func FuzzSameArguments(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"c\""}]}`, `[}`, `{"a"`, `{"a":}`, `"`, `[1,`, `{,`, "\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		same := sameArguments([]byte(s)) == sameArguments([]byte(" "+s+"\n"))
		if _, err := wire.Valid([]byte(s), wire.Limits{}); err == nil && !same && strings.TrimSpace(s) != "null" {
			t.Errorf("white space around %q matters", s)
		}
	})
}

func TestSpentIsBounded(t *testing.T) {
	var s spent
	later := time.Now().Add(time.Hour).UnixNano()
	const half = maxSpent / 2
	name := func(i int) (n nonce) { copy(n[:], fmt.Sprint(i)); return n }
	for i := range half {
		if first, room := s.add(name(i), "a", later); !first || !room {
			t.Fatalf("%d: %v %v", i, first, room)
		}
	}
	if first, room := s.add(name(half), "a", later); first || room {
		t.Error("one caller has more than its share")
	}
	if first, room := s.add(name(0), "a", later); first || !room {
		t.Error("used again")
	}
	if first, room := s.add(name(half), "b", time.Now().UnixNano()); !first || !room {
		t.Error("another caller has no room")
	}
	s.sweep(time.Now().Add(spentSweep))
	if s.was(name(half)) || !s.was(name(0)) || len(s.has) != 1 {
		t.Errorf("after the sweep %d of %d callers are left", len(s.m), len(s.has))
	}
}

// However many states a few callers use, another one finds room; and what was used
// stays so.
func TestSpentIsShared(t *testing.T) {
	var s spent
	later, n := time.Now().Add(time.Hour).UnixNano(), 0
	name := func(i int) (n nonce) { copy(n[:], fmt.Sprint(i)); return n }
	for _, caller := range []string{"a", "b", "c", "d"} {
		before := n
		for {
			if first, room := s.add(name(n), caller, later); !room {
				break
			} else if !first {
				t.Fatalf("%d was used before", n)
			}
			n++
		}
		if n-before < maxSpent/32 {
			t.Errorf("%s has room for %d", caller, n-before)
		}
	}
	for i := range n {
		if first, room := s.add(name(i), "e", later); first || !room {
			t.Fatalf("%d is forgotten", i)
		}
	}
	if n >= maxSpent {
		t.Errorf("%d are known", n)
	}
}

func TestStateIsRead(t *testing.T) {
	s := &state{kind: stateServer, expires: 5, server: "files", body: []byte("body")}
	s.nonce[3], s.request.args[1] = 1, 2
	f := New(Options{})
	raw, err := f.opt.Sealer.OpenUpTo(maxState, sealedState, nil, f.seal(s))
	if err != nil {
		t.Fatal(err)
	}
	got := readState(raw)
	if got == nil || got.kind != s.kind || got.nonce != s.nonce || got.expires != 5 || got.request != s.request || got.server != "files" || string(got.body) != "body" {
		t.Errorf("got %+v", got)
	}
	for n := range len(raw) - len("body") {
		if readState(raw[:n]) != nil {
			t.Errorf("read from %d bytes", n)
		}
	}
}
