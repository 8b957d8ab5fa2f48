package policy

import "time"

// An Asker is what one server may ask of agents. It may be used concurrently.
type Asker struct {
	server      string
	sampling    Sampling
	elicitation Elicitation
	roots       Roots
}

// NewAsker returns the limits of a server's questions.
func NewAsker(server string, s Sampling, e Elicitation, r Roots) *Asker {
	return &Asker{server: server, sampling: s, elicitation: e, roots: r}
}

// Offers returns what the server may ask.
func (a *Asker) Offers() Answers { return Offers(&a.sampling, &a.elicitation, &a.roots) }

// Timeout bounds the wait for an answer to a question.
func (a *Asker) Timeout(method string) time.Duration {
	d, zero := a.elicitation.Timeout, 300*time.Second
	if method == "sampling/createMessage" {
		d, zero = a.sampling.Timeout, 30*time.Second
	}
	if d <= 0 {
		return zero
	}
	return d
}
