package config

import (
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// softened are the settings whose wrong values the foreign program passes over,
// with what holds instead.
var softened = map[string]func(*upstream.Settings, []string){
	"protocol":             func(s *upstream.Settings, _ []string) { s.Protocol = "" },
	"trust":                func(s *upstream.Settings, _ []string) { s.Trust = "untrusted" },
	"transport":            func(s *upstream.Settings, _ []string) { s.Transport = "" },
	"auth":                 func(s *upstream.Settings, _ []string) { s.Auth = "" },
	"identity_header":      func(s *upstream.Settings, _ []string) { s.IdentityHeader = nil },
	"progress_timeout":     func(s *upstream.Settings, _ []string) { s.ProgressTimeout = 0 },
	"connect_timeout":      func(s *upstream.Settings, _ []string) { s.ConnectTimeout = 0 },
	"keepalive_interval":   softKeepalive,
	"idle_timeout_seconds": func(s *upstream.Settings, _ []string) { s.IdleTimeout = 0 },
	"max_lifetime_seconds": func(s *upstream.Settings, _ []string) { s.MaxLifetime = 0 },
	"lifecycle":            softLifecycle,
	"sampling":             softSampling,
	"elicitation":          func(s *upstream.Settings, _ []string) { s.Elicitation.Timeout = 0 },
}

// softKeepalive raises what is too short to the floor.
func softKeepalive(s *upstream.Settings, _ []string) {
	if s.KeepaliveInterval = max(s.KeepaliveInterval, 0); s.KeepaliveInterval > 0 {
		s.KeepaliveInterval = 5 * time.Second
	}
}

// softLifecycle leaves out what the other spelling of a key contradicts, or all.
func softLifecycle(s *upstream.Settings, path []string) {
	l := &s.Lifecycle
	switch {
	case path[1] == "idle_timeout_seconds" && l.IdleTimeout > 0:
		l.IdleTimeout = 0
	case path[1] == "max_lifetime_seconds" && l.MaxLifetime > 0:
		l.MaxLifetime = 0
	default:
		*l = upstream.Lifecycle{}
	}
}

func softSampling(s *upstream.Settings, path []string) {
	switch path[1] {
	case "model":
		no := false
		s.Sampling.Enabled = &no
	case "max_tokens_cap":
		s.Sampling.MaxTokensCap = 0
	case "timeout":
		s.Sampling.Timeout = 0
	case "max_rpm":
		s.Sampling.MaxRPM = 0
	case "max_tool_rounds":
		s.Sampling.MaxToolRounds = nil
	case "log_level":
		s.Sampling.LogLevel = ""
	case "endpoint":
		s.Sampling.Endpoint = policy.Endpoint{}
	}
}

// soften takes for warnings what the foreign program takes for warnings.
func (e *entry) soften() {
	s := &e.s.Settings
	if s.URL != "" && s.Command != "" {
		e.warn("command is set too, url wins", "url")
		s.Command = ""
	}
	for _, f := range s.Validate(e.s.Name) {
		if f.Severity != upstream.Broken || len(f.Path) == 0 || softened[f.Path[0]] == nil {
			continue
		}
		soft := softened[f.Path[0]]
		soft(s, f.Path)
		what := ", ignored"
		switch {
		case f.Path[0] == "trust":
			what = `, taken for "untrusted"`
		case f.Path[0] == "sampling" && f.Path[1] == "model":
			what = ", sampling is off for this server"
		}
		e.warn(f.Msg+what, f.Path...)
	}
}
