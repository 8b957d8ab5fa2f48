package config

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
)

// TestQuestions holds that every key of what servers may ask arrives.
func TestQuestions(t *testing.T) {
	dir := write(t, map[string]string{"sub/c.yaml": `
mcp_servers:
  a:
    command: x
    sampling:
      enabled: no
      model: " m "
      max_tokens_cap: 7
      timeout: 1.5
      max_rpm: 3
      max_tool_rounds: 0
      allowed_models: [m, n]
      log_level: debug
      expose_client_tools: true
      endpoint: {url: "https://e.example/v1?key=hunter2", key_file: k, model: n}
    elicitation: {enabled: false, timeout: 2m, allow_secrets: true}
    roots: {enabled: false}
  b: {command: x, sampling: {endpoint: {url: "http://localhost:11434/v1", key_file: "${HOME}/k"}}}
  c: {command: x, sampling: {endpoint: {url: "${CHAT}", key_file: ~/k}}}
`})
	c, err := Load(Input{Files: []string{"sub/c.yaml"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	off, zero := false, 0
	want := policy.Sampling{
		Enabled: &off, Model: "m", MaxTokensCap: 7, Timeout: 1500 * time.Millisecond, MaxRPM: 3, MaxToolRounds: &zero,
		AllowedModels: []string{"m", "n"}, LogLevel: "debug", ExposeClientTools: true,
		Endpoint: policy.Endpoint{URL: "https://e.example/v1?key=hunter2", KeyFile: filepath.Join(dir, "sub/k"), Model: "n"},
	}
	s := c.Servers[0].Settings
	if diff := cmp.Diff(want, s.Sampling); diff != "" {
		t.Errorf("sampling (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(policy.Elicitation{Enabled: &off, Timeout: 2 * time.Minute, AllowSecrets: true}, s.Elicitation); diff != "" {
		t.Errorf("elicitation (-want +got):\n%s", diff)
	}
	if s.Roots.Enabled == nil || *s.Roots.Enabled {
		t.Errorf("got roots %+v", s.Roots)
	}
	if got := fmt.Sprint(c.Servers[1].Settings.Sampling.Endpoint.KeyFile, " ", c.Servers[2].Settings.Sampling.Endpoint.KeyFile); got != "${HOME}/k ~/k" {
		t.Errorf("got key files %q", got)
	}
	for _, set := range c.Effective() {
		if set.Path == "mcp_servers.a.sampling.endpoint.url" && set.Value.String() != "https://e.example/v1?key=[redacted]" {
			t.Errorf("got %s", set.Value)
		}
	}
}

// TestQuestionsAdvice holds what is said of settings that work and surprise.
func TestQuestionsAdvice(t *testing.T) {
	c := load(t, "c.yaml", `
mcp_servers:
  a: {command: x, sampling: {allowed_models: [n], endpoint: {url: "http://e.example/v1", model: o}}}
  b: {command: x, sampling: {model: n, allowed_models: [n], endpoint: {url: "http://[::1]/v1", model: n}}}
  c: {command: x, sampling: {enabled: true}, elicitation: {enabled: true}, roots: {enabled: true}}
`)
	want := []string{
		"c.yaml:3:67: mcp_servers.a.sampling.endpoint.url: is not encrypted: what servers ask, and the key, can be read on the way",
		"c.yaml:3:97: mcp_servers.a.sampling.endpoint.model: is not in allowed_models, so it is never asked for",
	}
	if diff := cmp.Diff(want, warnings(c)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestForeignQuestions holds that what another program passes over costs no more
// here, and that no limit is looser for it than by default.
func TestForeignQuestions(t *testing.T) {
	dir := write(t, map[string]string{"config.yaml": `mcp_servers:
  a:
    command: x
    sampling: {max_tokens_cap: lots, timeout: -1, max_rpm: 0, max_tool_rounds: -3, log_level: loud, allowed_models: [m], endpoint: {url: nowhere}}
    elicitation: {timeout: soon}
`})
	c, err := Load(Input{Files: []string{"hermes:config.yaml"}, Dir: dir})
	if err != nil || c.Servers[0].Err != nil {
		t.Fatal(err, c.Servers[0].Err)
	}
	if diff := cmp.Diff(policy.Sampling{AllowedModels: []string{"m"}}, c.Servers[0].Settings.Sampling); diff != "" {
		t.Errorf("sampling (-want +got):\n%s", diff)
	}
	want := []string{
		"config.yaml:4:32: mcp_servers.a.sampling.max_tokens_cap: must be a whole number, not a string, ignored",
		"config.yaml:4:47: mcp_servers.a.sampling.timeout: must not be negative, ignored",
		"config.yaml:4:60: mcp_servers.a.sampling.max_rpm: must be at least 1, or enabled: false for none, ignored",
		"config.yaml:4:80: mcp_servers.a.sampling.max_tool_rounds: must not be negative, ignored",
		"config.yaml:4:95: mcp_servers.a.sampling.log_level: unknown value, use one of debug, info, warning, ignored",
		"config.yaml:4:138: mcp_servers.a.sampling.endpoint.url: invalid URL: the scheme must be https or http, ignored",
		`config.yaml:5:28: mcp_servers.a.elicitation.timeout: must be seconds or a duration such as "90s", "5m" or "1h30m", ignored`,
	}
	if diff := cmp.Diff(want, warnings(c)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
