package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// A modern agent on standard input and output is asked and answers as over HTTP,
// and can cancel while its request waits.
func TestParkedOverStdio(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			told, _ := putTo(ctx, c, methodElicit, formQuestion)
			if strings.Contains(told, "decline") {
				<-ctx.Done()
				return upstream.Response{}, ctx.Err()
			}
			c.Notify("notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":1}`, c.ProgressToken))
			return result(`{"content":[],"structuredContent":[` + told + `]}`), nil
		}
		in, toUs := io.Pipe()
		fromUs, out := io.Pipe()
		ended := make(chan error)
		go func() { ended <- w.front.ServeStdio(context.Background(), in, out) }()
		lines := bufio.NewReader(fromUs)
		say := func(id string, a modernAsk) {
			body := strings.Replace(modernBody(id, a.method, a.params, `,"progressToken":`+id), `clientCapabilities":{}`, `clientCapabilities":`+allOf, 1)
			io.WriteString(toUs, body+"\n")
		}
		hear := func() string {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSuffix(line, "\n")
		}
		state := func() (p pausedResult) {
			var m struct{ Result pausedResult }
			if line := hear(); json.Unmarshal([]byte(line), &m) != nil || m.Result.RequestState == nil {
				t.Fatalf("want a question, got %s", line)
			}
			return m.Result
		}
		say("1", slowCall(""))
		p := state()
		io.WriteString(toUs, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`+"\n") // it is over
		say("2", p.retry(slowCall(""), `{"q1":`+formAnswer+`}`))
		if got, want := hear(), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		wantJSON(t, "result", hear(), strings.Replace(fmt.Sprintf(parkDone, formAnswer), `"id":1`, `"id":2`, 1))

		say("3", slowCall(""))
		p = state()
		say("4", p.retry(slowCall(""), `{"q1":{"action":"decline"}}`))
		synctest.Wait()
		io.WriteString(toUs, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`+"\n")
		synctest.Wait()
		if s := w.front.Stats(); s.Parked != 0 {
			t.Errorf("after the cancel %d calls are parked", s.Parked)
		}
		toUs.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
