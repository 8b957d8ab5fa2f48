package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// TestZeros holds that of every number somebody decided what its zero means.
func TestZeros(t *testing.T) {
	var found []string
	numbers(reflect.TypeFor[document](), "", &found)
	numbers(reflect.TypeFor[upstream.Settings](), serversKey+".", &found)
	for _, key := range found {
		if _, least := leasts[key]; least == slices.Contains(zeros, key) {
			t.Errorf("%s: want it in one of leasts and zeros", key)
		}
	}
	if n := len(leasts) + len(zeros); n != len(found) {
		t.Errorf("got %d numbers, and %d in leasts and zeros", len(found), n)
	}
}

func numbers(t reflect.Type, prefix string, found *[]string) {
	for _, f := range fields(t) {
		ft := t.Field(f.index).Type
		if ft.Kind() == reflect.Pointer || ft.Kind() == reflect.Map {
			ft = ft.Elem()
		}
		switch {
		case ft.Kind() == reflect.Struct && ft != sslVerifyType:
			numbers(ft, prefix+f.key+".", found)
		case ft.Kind() == reflect.Int || ft == durationType:
			*found = append(*found, prefix+f.key)
		}
	}
}

// TestSwitches holds that a mere yes or no in place of what a server may ask means
// what it says, in every kind of file.
func TestSwitches(t *testing.T) {
	const entry = `{"command":"x","sampling":false,"elicitation":"off","roots":true}`
	for name, text := range map[string]string{
		"c.yaml":      "listen: 127.0.0.1:1\nmcp_servers: {a: " + entry + "}\n",
		"config.yaml": "model: x\nmcp_servers: {a: " + entry + "}\n",
		"mcp.json":    `{"mcpServers":{"a":` + entry + `}}`,
	} {
		c := load(t, name, text)
		if len(c.Warnings) > 0 || c.Servers[0].Err != nil {
			t.Errorf("%s: got %v, error %v", name, c.Warnings, c.Servers[0].Err)
		}
		s := c.Servers[0].Settings
		if got := policy.Offers(&s.Sampling, &s.Elicitation, &s.Roots); got != policy.AnswerRoots {
			t.Errorf("%s: got %b, want roots alone", name, got)
		}
		for path, want := range map[string]string{"sampling": "false", "elicitation": "false", "roots": "true"} {
			if got := effective(c, "mcp_servers.a."+path+".enabled"); !strings.HasPrefix(got, want+" "+name+":") {
				t.Errorf("%s: %s: got %q", name, path, got)
			}
		}
	}
}

func effective(c *Config, path string) string {
	for _, s := range c.Effective() {
		if s.Path == path {
			return s.Value.String() + " " + s.Origin
		}
	}
	return ""
}

// TestForeignClosed holds that a limit of questions that is not understood in
// another program's file is not a lost limit: the questions are refused.
func TestForeignClosed(t *testing.T) {
	for entry, want := range map[string]string{
		`"sampling":{"enable":false}`:                     `a.sampling: unknown key "enable" (did you mean "enabled"?), sampling is off for this server`,
		`"sampling":{"enabled":"never"}`:                  `a.sampling.enabled: must be true or false, sampling is off for this server`,
		`"sampling":{"enabled":null}`:                     `a.sampling.enabled: has no value: write true or false, sampling is off for this server`,
		`"sampling":{"allowed_models":{"a":1}}`:           `a.sampling.allowed_models: must be a list of strings, not a mapping, sampling is off for this server`,
		`"sampling":{"model":["a"]}`:                      `a.sampling.model: must be a string, not a list, sampling is off for this server`,
		`"sampling":["none"]`:                             `a.sampling: must be true, false or a mapping, not a list, sampling is off for this server`,
		`"sampling":{"endpoint":{"timeout":1}}`:           `a.sampling.endpoint: unknown key "timeout", sampling is off for this server`,
		`"elicitation":"never"`:                           `a.elicitation: must be true, false or a mapping, not a string, elicitation is off for this server`,
		`"elicitation":{"allow_secrets":"no way"}`:        `a.elicitation.allow_secrets: must be true or false, elicitation is off for this server`,
		`"roots":{"enabled":"never"}`:                     `a.roots.enabled: must be true or false, roots is off for this server`,
		`"roots":{"only":["/tmp"]}`:                       `a.roots: unknown key "only", roots is off for this server`,
		`"sampling":{"max_rpm":0}`:                        `a.sampling.max_rpm: must be at least 1, or enabled: false for none, ignored`,
		`"elicitation":{"timeout":0}`:                     `a.elicitation.timeout: must be more than 0, ignored`,
		`"max_processes":0`:                               `a.max_processes: must be at least 1, ignored`,
		`"connect_timeout":0`:                             `a.connect_timeout: must be more than 0, ignored`,
		`"lifecycle":{"retry_pause":"0s"}`:                `a.lifecycle.retry_pause: must be at least 10ms, ignored`,
		`"sampling":{"allowed_models":"m"}`:               ``,
		`"roots":null`:                                    `a.roots: has no value: write true or false, or leave the key out, roots is off for this server`,
		`"isolation":null`:                                `a.isolation: has no value: write shared, per_session or per_caller, ignored`,
		`"sampling":{"model":"m","allowed_models":["n"]}`: `a.sampling.model: is not in allowed_models, so every request would fail, sampling is off for this server`,
	} {
		c := load(t, "mcp.json", `{"mcpServers":{"a":{"command":"x",`+entry+`}}}`)
		if c.Servers[0].Err != nil {
			t.Errorf("%s: got error %v", entry, c.Servers[0].Err)
		}
		if got := strings.Join(warnings(c), "\n"); !strings.HasSuffix(got, want) || (got == "") != (want == "") || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q", entry, got, want)
		}
		for _, kind := range questions {
			off := strings.Contains(want, kind+" is off")
			if got := effective(c, "mcp_servers.a."+kind+".enabled"); strings.HasPrefix(got, "false ") != off {
				t.Errorf("%s: got %s.enabled %q", entry, kind, got)
			}
		}
	}
}

// TestOpenSettings holds what is said of settings that look stricter than they are.
func TestOpenSettings(t *testing.T) {
	c := load(t, "c.yaml", `
limits: {parked: 2, parked_per_caller: 3}
mcp_servers:
  a: {command: x, sampling: {allowed_models: [], log_level: warn}}
  b: {command: x, sampling: {allowed_models: "gpt-*", endpoint: {}}}
  c: {command: x, sampling: {endpoint: {url: "https://e.example/v1"}}}
  d: {command: x, sampling: {allowed_models: m, endpoint: {url: "https://e.example/v1"}}}
  e: {command: x, sampling: {max_tool_rounds: 0, expose_client_tools: true}}
  f: {command: x, sampling: {enabled: false, expose_client_tools: true, endpoint: {url: "https://e.example/v1", model: m}}}
  g: {url: "https://e.example/mcp", max_processes: 2}
  h: {command: x, max_processes: 1}
  i: {command: x, max_processes: 1, isolation: per_caller}
  j: {command: x, max_processes: 1, sampling: false, elicitation: false, roots: false}
`)
	want := []string{
		"c.yaml:2:40: limits.parked_per_caller: is more than limits.parked, so one caller can take every place",
		"c.yaml:4:30: mcp_servers.a.sampling.allowed_models: an empty list allows every model: leave the key out, or write enabled: false",
		"c.yaml:5:46: mcp_servers.b.sampling.allowed_models.0: names are compared as they are: * and ? stand for themselves",
		"c.yaml:5:55: mcp_servers.b.sampling.endpoint: names no url, so there is no endpoint",
		"c.yaml:6:30: mcp_servers.c.sampling.endpoint: no model is named here, so only requests that hint at one are answered",
		"c.yaml:8:71: mcp_servers.e.sampling.expose_client_tools: max_tool_rounds: 0 refuses tools, so this does nothing",
		"c.yaml:9:73: mcp_servers.f.sampling.endpoint: sampling is off, so nothing is asked of it",
		"c.yaml:10:52: mcp_servers.g.max_processes: has no effect on a server with a url: it is for one with a command",
		"c.yaml:11:34: mcp_servers.h.max_processes: 1 leaves none to ask from: sampling, elicitation and roots reach nobody, unless the server speaks 2026-07-28; isolation, or 2 and more, lets it ask",
	}
	if diff := cmp.Diff(want, warnings(c)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"m"}, c.Servers[3].Settings.Sampling.AllowedModels); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

// TestEffectiveQuestions holds that what a server may ask can be read, and that
// what is shown for a default is one.
func TestEffectiveQuestions(t *testing.T) {
	c := load(t, "c.yaml", `
mcp_servers:
  a: {command: x, sampling: {max_rpm: 3}}
  b: {url: "http://127.0.0.1:1/", roots: false}
  c: {command: x, isolation: per_caller, elicitation: {enabled: true}}
`)
	for path, want := range map[string]string{
		"a.sampling.enabled": "true default", "a.sampling.max_rpm": "3 c.yaml:3", "a.sampling.max_tokens_cap": "4096 default",
		"a.sampling.endpoint.url": "none default", "a.elicitation.enabled": "true default", "a.roots.enabled": "true default",
		"a.max_processes": "4 default", "b.max_processes": "", "c.max_processes": "64 default", "b.roots.enabled": "false c.yaml:4",
		"a.isolation": "shared default", "c.isolation": "per_caller c.yaml:5", "c.elicitation.enabled": "true c.yaml:5",
	} {
		if got := effective(c, "mcp_servers."+path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	a := policy.NewAsker("s", policy.Sampling{}, policy.Elicitation{}, policy.Roots{})
	if got := fmt.Sprint(a.Timeout("sampling/createMessage")); got != serverZeroMeans["sampling.timeout"] {
		t.Errorf("got %s for sampling", got)
	}
	if got := fmt.Sprint(a.Timeout("elicitation/create")); got != serverZeroMeans["elicitation.timeout"] {
		t.Errorf("got %s for elicitation", got)
	}
}
