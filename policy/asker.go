package policy

import (
	"log/slog"
	"sync"
	"time"
)

// The methods by which servers ask.
const (
	askSampling    = "sampling/createMessage"
	askElicitation = "elicitation/create"
	askRoots       = "roots/list"
)

// An Asker is what one server may ask of agents. It may be used concurrently.
type Asker struct {
	// Cleaner cleans the texts of questions. If nil, everything is cleaned.
	Cleaner *Cleaner
	// Several reports whether more than one caller can come. If nil, there are
	// several once another one's request came.
	Several func() bool

	server      string
	sampling    Sampling
	elicitation Elicitation
	roots       Roots

	mu     sync.Mutex
	counts AskCounts
	rate   rate
	loops  loops
}

// AskCounts count the questions of one server.
type AskCounts struct {
	Sampling    SamplingCounts
	Elicitation ElicitationCounts
	Roots       RootsCounts
}

// SamplingCounts count sampling/createMessage. Errors are requests that were
// refused, that nobody answered, or whose answer was unusable. Tokens are those
// that answers speak of. ToolRounds are answers that call tools.
type SamplingCounts struct{ Requests, Errors, Tokens, ToolRounds uint64 }

// ElicitationCounts count elicitation/create. Incomplete are those of Accepted
// that lack required fields.
type ElicitationCounts struct{ Requests, Accepted, Incomplete, Declined, Cancelled, Errors uint64 }

// RootsCounts count roots/list.
type RootsCounts struct{ Requests, Errors uint64 }

// NewAsker returns the limits of a server's questions.
func NewAsker(server string, s Sampling, e Elicitation, r Roots) *Asker {
	return &Asker{server: server, sampling: s, elicitation: e, roots: r}
}

// Offers returns what the server may ask.
func (a *Asker) Offers() Answers { return Offers(&a.sampling, &a.elicitation, &a.roots) }

// HasEndpoint reports whether a chat endpoint may answer sampling requests.
func (a *Asker) HasEndpoint() bool { return a.sampling.Endpoint.URL != "" }

// LogLevel is the level at which sampling requests are to be logged.
func (a *Asker) LogLevel() slog.Level {
	switch a.sampling.LogLevel {
	case "debug":
		return slog.LevelDebug
	case "warning", "warn":
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// rootsTimeout is short, because no person answers.
const rootsTimeout = 30 * time.Second

// Timeout bounds the wait for an answer to a question.
func (a *Asker) Timeout(method string) time.Duration {
	switch method {
	case askSampling:
		return a.sampling.timeout()
	case askRoots:
		return rootsTimeout
	}
	return a.elicitation.timeout()
}

// Counts returns the counters as they stand.
func (a *Asker) Counts() AskCounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// Failed counts a question that passed Screen and got no answer.
func (a *Asker) Failed(method string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed(method)
}

func (a *Asker) failed(method string) {
	switch method {
	case askSampling:
		a.counts.Sampling.Errors++
	case askElicitation:
		a.counts.Elicitation.Errors++
	case askRoots:
		a.counts.Roots.Errors++
	}
}

func (a *Asker) asked(method string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch method {
	case askSampling:
		a.counts.Sampling.Requests++
	case askElicitation:
		a.counts.Elicitation.Requests++
	case askRoots:
		a.counts.Roots.Requests++
	}
}
