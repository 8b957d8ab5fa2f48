package policy

import "time"

// Answers is a set of kinds of questions: what an agent can answer, or what a
// server may ask.
type Answers uint8

// The kinds of questions that MCP has.
const (
	AnswerSampling      Answers = 1 << iota // sampling/createMessage
	AnswerSamplingTools                     // the same with tools
	AnswerForm                              // elicitation/create with a schema
	AnswerURL                               // elicitation/create with a URL
	AnswerRoots                             // roots/list
)

// Sampling limits what a server may ask of the agent's model. The keys are the
// seed's, but for endpoint.
type Sampling struct {
	// Enabled false refuses every request. If nil, true.
	Enabled *bool `yaml:"enabled"`
	// Model replaces the server's hints. If empty, they are relayed.
	Model string `yaml:"model"`
	// MaxTokensCap bounds maxTokens of a request. If zero, 4096.
	MaxTokensCap int `yaml:"max_tokens_cap"`
	// Timeout bounds the wait for an answer. If zero, 30s.
	Timeout time.Duration `yaml:"timeout"`
	// MaxRPM bounds the requests within any 60 seconds. If zero, 10.
	MaxRPM int `yaml:"max_rpm"`
	// MaxToolRounds bounds the answers in a row that call tools; a text answer
	// starts anew. If nil, 5; if zero, no request may bring tools.
	MaxToolRounds *int `yaml:"max_tool_rounds"`
	// AllowedModels, when it is not empty, must hold the model that is asked for.
	// Where none is, these are asked for.
	AllowedModels []string `yaml:"allowed_models,stringorlist"`
	// LogLevel is debug, info (also when empty), warning or warn.
	LogLevel string `yaml:"log_level"`
	// ExposeClientTools tells the server that requests may bring tools, if
	// MaxToolRounds allows any.
	ExposeClientTools bool `yaml:"expose_client_tools"`
	// Endpoint, if its URL is set, answers in place of agents that cannot.
	Endpoint Endpoint `yaml:"endpoint"`
}

// An Endpoint is a chat completions URL in the form that OpenAI gave it.
type Endpoint struct {
	// URL is the base, such as https://api.openai.com/v1. If empty, there is none.
	URL string `yaml:"url"`
	// KeyFile holds the bearer key. If empty, none is sent.
	KeyFile string `yaml:"key_file"`
	// Model is asked for when neither sampling.model nor a hint names one.
	Model string `yaml:"model"`
}

// Elicitation limits what a server may ask of the agent's user.
type Elicitation struct {
	// Enabled false refuses every request. If nil, true.
	Enabled *bool `yaml:"enabled"`
	// Timeout bounds the wait for the user. If zero, 300s.
	Timeout time.Duration `yaml:"timeout"`
	// AllowSecrets lets forms ask for what looks like a secret.
	AllowSecrets bool `yaml:"allow_secrets"`
}

// Roots says whether a server may ask for the agent's workspace.
type Roots struct {
	// Enabled false refuses every request. If nil, true.
	Enabled *bool `yaml:"enabled"`
}

// Offers returns what a server with these settings may ask.
func Offers(s *Sampling, e *Elicitation, r *Roots) (a Answers) {
	if on(s.Enabled) {
		a |= AnswerSampling
		if s.tools() {
			a |= AnswerSamplingTools
		}
	}
	if on(e.Enabled) {
		a |= AnswerForm | AnswerURL
	}
	if on(r.Enabled) {
		a |= AnswerRoots
	}
	return a
}

func on(b *bool) bool { return b == nil || *b }

// tools reports whether requests may bring tools.
func (s *Sampling) tools() bool { return s.ExposeClientTools && s.maxToolRounds() > 0 }

func (s *Sampling) maxTokensCap() int { return positive(s.MaxTokensCap, 4096) }

func (s *Sampling) timeout() time.Duration { return positive(s.Timeout, 30*time.Second) }

func (s *Sampling) maxRPM() int { return positive(s.MaxRPM, 10) }

func (s *Sampling) maxToolRounds() int {
	if s.MaxToolRounds == nil {
		return 5
	}
	return *s.MaxToolRounds
}

func (e *Elicitation) timeout() time.Duration { return positive(e.Timeout, 300*time.Second) }

func positive[T int | time.Duration](n, otherwise T) T {
	if n <= 0 {
		return otherwise
	}
	return n
}

// Capabilities returns the client capabilities that declare a, as a raw object.
func (a Answers) Capabilities() []byte {
	var parts []string
	if a&AnswerSampling != 0 {
		s := `"sampling":{}`
		if a&AnswerSamplingTools != 0 {
			s = `"sampling":{"tools":{}}`
		}
		parts = append(parts, s)
	}
	switch a & (AnswerForm | AnswerURL) {
	case AnswerForm:
		parts = append(parts, `"elicitation":{"form":{}}`)
	case AnswerURL:
		parts = append(parts, `"elicitation":{"url":{}}`)
	case AnswerForm | AnswerURL:
		parts = append(parts, `"elicitation":{"form":{},"url":{}}`)
	}
	if a&AnswerRoots != 0 {
		parts = append(parts, `"roots":{}`)
	}
	out := []byte("{")
	for i, p := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p...)
	}
	return append(out, '}')
}
