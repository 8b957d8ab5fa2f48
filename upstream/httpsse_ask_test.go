package upstream

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// questionEvent asks for roots under an id.
func questionEvent(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"roots/list"}`
}

// replied waits for our answer to a question.
func replied(t *testing.T, f *fakeSSE, id string) string {
	t.Helper()
	var body string
	eventually(t, "the answer to "+id, func() bool {
		for _, m := range f.got("") {
			if string(m.ID) == id {
				body = m.Body
			}
		}
		return body != ""
	})
	return body
}

func dialSSEAsker(t *testing.T, f *fakeSSE) *lineConn {
	t.Helper()
	return dialedSSE(t, newSSE(t, f), nil, env{offers: []byte(`{"roots":{}}`)})
}

// A question belongs to the only call that can be asked. Its answer does not wait
// for the call's own POST.
func TestSSEQuestion(t *testing.T) {
	leaks(t)
	f := &fakeSSE{}
	release := make(chan struct{})
	f.call = func(f *fakeSSE, m rpc) {
		f.event(questionEvent(`"q"`))
		<-release
		f.answer(m, `"done"`)
	}
	c := dialSSEAsker(t, f)
	if got, want := f.got("initialize")[0].Body, `"capabilities":{"roots":{}}`; !strings.Contains(got, want) {
		t.Errorf("initialize: got %s, want %s", got, want)
	}
	done := make(chan error, 1)
	go func() { _, err := c.Do(t.Context(), askedCall("x", echoAsked)); done <- err }()
	if got, want := replied(t, f, `"q"`), `{"jsonrpc":"2.0","id":"q","result":{"to":"fake roots/list","params":null}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A question that could be about several calls, or about none, reaches nobody.
func TestSSEQuestionWhose(t *testing.T) {
	leaks(t)
	f := &fakeSSE{}
	release := make(chan struct{})
	entered := make(chan struct{})
	f.call = func(f *fakeSSE, m rpc) {
		entered <- struct{}{}
		<-release
		f.answer(m, `"done"`)
	}
	c := dialSSEAsker(t, f)
	f.event(questionEvent("1"))
	if got := replied(t, f, "1"); !strings.Contains(got, sharedByAll) {
		t.Errorf("no call: got %s", got)
	}
	done := make(chan error, 2)
	never := func(context.Context, Question) ([]byte, *wire.Error) {
		t.Error("somebody was asked")
		return nil, nil
	}
	for range cap(done) {
		go func() { _, err := c.Do(t.Context(), askedCall("x", never)); done <- err }()
		<-entered
	}
	f.event(questionEvent("2"))
	if got := replied(t, f, "2"); !strings.Contains(got, severalCalls) {
		t.Errorf("two calls: got %s", got)
	}
	close(release)
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A question that may be about a call which another agent gave up is not taken for
// this one's.
func TestSSEQuestionOfAnother(t *testing.T) {
	leaks(t)
	f := &fakeSSE{}
	f.call = func(f *fakeSSE, m rpc) {
		if m.Params.Name == "ask" {
			f.event(questionEvent(string(m.ID) + "00"))
			replied(t, f, string(m.ID)+"00")
			f.answer(m, `"done"`)
		}
	}
	c := dialSSEAsker(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	given := askedCall("silent", echoAsked)
	given.who = "a"
	go func() {
		eventually(t, "the call", func() bool { return len(f.got("tools/call")) == 1 })
		cancel()
	}()
	if _, err := c.Do(ctx, given); err == nil {
		t.Error("a call that was given up succeeded")
	}
	for who, want := range map[string]string{"b": calledOff, "a": "fake roots/list"} {
		call := askedCall("ask", echoAsked)
		call.who = who
		if _, err := c.Do(t.Context(), call); err != nil {
			t.Error(err)
		}
		calls := f.got("tools/call")
		if got := replied(t, f, fmt.Sprintf("%s00", calls[len(calls)-1].ID)); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", who, got, want)
		}
	}
}
