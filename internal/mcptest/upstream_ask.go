package mcptest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Question is a request that a tool puts to its client before it answers. The
// text $N in its params becomes the argument n of the call, as raw JSON.
type Question struct{ Method, Params string }

// askWait bounds the wait for an answer.
const askWait = time.Minute

// An asking is the way from a fake server to its client during one call.
type asking struct {
	send func(msg string)
	gone <-chan struct{} // nil over stdio
}

// questions are the requests of a fake server that wait for an answer.
type questions struct {
	mu   sync.Mutex
	last int
	open map[string]chan Message
}

func (q *questions) add() (id string, answer chan Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == nil {
		q.open = map[string]chan Message{}
	}
	q.last++
	id, answer = fmt.Sprintf(`"ask-%d"`, q.last), make(chan Message, 1)
	q.open[id] = answer
	return id, answer
}

func (q *questions) drop(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, id)
}

// answer takes a response to a question; others are ignored.
func (q *questions) answer(m Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.open[string(m.ID)]; c != nil {
		delete(q.open, string(m.ID))
		c <- m
	}
}

// Open is the number of questions that wait for an answer.
func (u *Upstream) Open() int {
	u.asked.mu.Lock()
	defer u.asked.mu.Unlock()
	return len(u.asked.open)
}

// ask runs the rounds of a legacy call and returns the member that answers it.
func (u *Upstream) ask(a asking, m *Message) string {
	var got []string
	for _, round := range u.Asks[nameOf(m.Params)] {
		answers, err := u.round(a, m, round)
		if err != nil {
			return failure(-32603, err.Error())
		}
		got = append(got, answers...)
	}
	return told(false, got)
}

// round puts all questions of a round, then waits for their answers.
func (u *Upstream) round(a asking, m *Message, round []Question) ([]string, error) {
	ids, answers := make([]string, len(round)), make([]chan Message, len(round))
	for i, q := range round {
		ids[i], answers[i] = u.asked.add()
		defer u.asked.drop(ids[i])
		a.send(`{"jsonrpc":"2.0","id":` + ids[i] + `,"method":` + quote(q.Method) + `,"params":` + q.params(m) + `}`)
	}
	var out []string
	limit := time.After(askWait)
	for _, c := range answers {
		select {
		case r := <-c:
			out = append(out, outcome(r))
		case <-a.gone:
			return nil, errors.New("the client is gone")
		case <-limit:
			return nil, errors.New("no answer to a question")
		}
	}
	return out, nil
}

func (q *Question) params(m *Message) string {
	return strings.ReplaceAll(q.Params, "$N", string(Member(Member(m.Params, "arguments"), "n")))
}

func outcome(r Message) string {
	if r.Error != nil {
		return `{"error":` + string(r.Error) + `}`
	}
	return string(r.Result)
}

// told is the member of a result that shows the answers, in order.
func told(modern bool, got []string) string {
	return result(modern, `"content":[{"type":"text","text":`+quote(strings.Join(got, " "))+`}]`)
}

// input answers a call of the modern era whose tool asks: with the next round,
// or with what it was told. Its requestState holds all that is known so far.
func (u *Upstream) input(m *Message) string {
	rounds := u.Asks[nameOf(m.Params)]
	at, got := openState(Text(m.Params, "requestState"))
	if at > 0 && at <= len(rounds) {
		responses := Member(m.Params, "inputResponses")
		for i := range rounds[at-1] {
			r := Member(responses, "q"+strconv.Itoa(i))
			if r == nil {
				at--
				break
			}
			got = append(got, string(r))
		}
	}
	if at >= len(rounds) {
		return told(true, got)
	}
	var asks []string
	for i, q := range rounds[at] {
		asks = append(asks, `"q`+strconv.Itoa(i)+`":{"method":`+quote(q.Method)+`,"params":`+q.params(m)+`}`)
	}
	return `"result":{"resultType":"input_required","inputRequests":{` + strings.Join(asks, ",") + `},"requestState":` + quote(sealState(at+1, got)) + `}`
}

type askState struct {
	At  int
	Got []string
}

func sealState(at int, got []string) string {
	b, _ := json.Marshal(askState{at, got})
	return base64.StdEncoding.EncodeToString(b)
}

func openState(text string) (at int, got []string) {
	b, err := base64.StdEncoding.DecodeString(text)
	var s askState
	if err != nil || json.Unmarshal(b, &s) != nil {
		return 0, nil
	}
	return s.At, s.Got
}

// asks reports whether a request is a call of a tool that asks.
func (u *Upstream) asks(m *Message) bool {
	return m.Method == "tools/call" && u.Asks[nameOf(m.Params)] != nil
}

// askHTTP serves a legacy call whose tool asks, on its own stream.
func (u *Upstream) askHTTP(w http.ResponseWriter, r *http.Request, m *Message) {
	w.Header().Set("Content-Type", "text/event-stream")
	var mu sync.Mutex
	send := func(msg string) {
		mu.Lock()
		defer mu.Unlock()
		io.WriteString(w, Event(msg))
		http.NewResponseController(w).Flush()
	}
	for _, n := range u.notes(m) {
		send(n)
	}
	member := u.ask(asking{send: send, gone: r.Context().Done()}, m)
	send(`{"jsonrpc":"2.0","id":` + idOrNull(m) + `,` + member + `}`)
}
