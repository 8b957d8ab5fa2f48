package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A serverState is what the retry of a modern server's call needs, beside what
// the agent brings.
type serverState struct {
	state []byte  // the server's requestState, raw; nil when it gave none
	ours  []keyed // answers that the agent was not asked for
	asked []keyed // questions that it was asked
}

// A keyed is a question or an answer under the server's name for it.
type keyed struct {
	key, method string
	raw         []byte // an answer, or the question's parameters
}

// seal writes s as the body of a state. Questions that are long are left out: then
// the answers are judged without them.
func (s *serverState) seal(server string) ([]byte, error) {
	b := s.append(nil)
	if len(b) > maxStateBody/2 {
		for i := range s.asked {
			s.asked[i].raw = nil
		}
		b = s.append(nil)
	}
	if len(b) > maxStateBody {
		return nil, tooLong(server, fmt.Sprintf("requestState: %d bytes, %d fit", len(b), maxStateBody))
	}
	return b, nil
}

func (s *serverState) append(b []byte) []byte {
	b = appendField(b, s.state)
	for _, list := range [][]keyed{s.ours, s.asked} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, k := range list {
			b = appendField(appendField(appendField(b, []byte(k.key)), []byte(k.method)), k.raw)
		}
	}
	return b
}

// openServerState reads what seal has written.
func openServerState(b []byte) (s *serverState, ok bool) {
	s = new(serverState)
	if s.state, b, ok = cutField(b); !ok {
		return nil, false
	}
	if len(s.state) == 0 {
		s.state = nil
	}
	for _, list := range []*[]keyed{&s.ours, &s.asked} {
		if *list, b, ok = cutKeyed(b); !ok {
			return nil, false
		}
	}
	return s, true
}

func cutKeyed(b []byte) (list []keyed, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > maxInputs {
		return nil, nil, false
	}
	b = b[used:]
	for range n {
		var field [3][]byte
		for i := range field {
			if field[i], b, ok = cutField(b); !ok {
				return nil, nil, false
			}
		}
		list = append(list, keyed{string(field[0]), string(field[1]), field[2]})
	}
	return list, b, true
}

// members are those of the retry, each with its comma: the agent's answers and
// ours, and the server's own requestState.
func (s *serverState) members(responses []byte) string {
	for _, k := range s.ours {
		if responses == nil {
			responses = emptyObject
		}
		member := wire.AppendQuote(nil, k.key)
		responses = withFront(without(responses, k.key), string(member)+":"+string(k.raw)+",")
	}
	if responses == nil {
		return stateMember(s.state)
	}
	return `"inputResponses":` + string(responses) + `,` + stateMember(s.state)
}

// resumeServer makes a modern server's call again with the answers of the agent.
func (x *exchange) resumeServer(ctx context.Context, server string, c *upstream.Call, s *state) (outcome, error) {
	b, ok := openServerState(s.body)
	if !ok {
		return outcome{}, errStateForm
	}
	for _, k := range b.asked {
		if err := x.checkResponse(&k); err != nil {
			return outcome{}, err
		}
	}
	if err := x.spend(s); err != nil {
		return outcome{}, err
	}
	responses, err := x.reviewed(server, b.asked, x.began(s))
	if err != nil {
		return outcome{}, err
	}
	next := *c
	next.Params = withMembers(c.Params, b.members(responses))
	o, err := x.detached(ctx, server, &next)
	return x.through(ctx, server, c, o, err)
}

func (x *exchange) checkResponse(k *keyed) *wire.Error {
	if r, ok := wire.Get(x.params.responses, k.key); ok {
		if why := malformed(k.method, r); why != "" {
			return badResponse(k.key, why)
		}
	}
	return nil
}

// reviewed returns the agent's answers as the server may have them. Where none
// must change they are the agent's bytes.
func (x *exchange) reviewed(server string, asked []keyed, began time.Time) ([]byte, error) {
	out := x.params.responses
	for _, k := range asked {
		from, to, ok := wire.Find(out, k.key)
		if !ok {
			continue
		}
		r, err := x.review(about{server, k.method, began}, &k, out[from:to])
		if err != nil {
			return nil, cannot(server, k.method+": "+err.Message)
		}
		if !bytes.Equal(r, out[from:to]) {
			out = wire.Splice(nil, out, wire.Edit{From: from, To: to, With: r})
		}
	}
	return out, nil
}

// review decides on one answer.
func (x *exchange) review(q about, k *keyed, result []byte) ([]byte, *wire.Error) {
	a := x.f.asker(q.server)
	if a == nil {
		return nil, nobody("questions of this server are not answered")
	}
	var params []byte
	if len(k.raw) > 0 {
		params = k.raw
	}
	out, err := x.judge(a, q, params, result, byAgent)
	if err != nil && k.method == methodElicit {
		return noElicitation(refused), nil
	}
	return out, err
}
