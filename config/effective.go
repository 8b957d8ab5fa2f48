package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// A Setting is one effective value, ready to be shown.
type Setting struct {
	Path string `json:"path"`
	// Value never holds a secret.
	Value Value `json:"value"`
	// Origin is file:line, a flag, a variable's name, or "default".
	Origin string `json:"origin"`
}

const byDefault = "default"

// zeroMeans is what zero stands for at the top level.
var zeroMeans = map[string]any{
	"limits.request_bytes": 16777216, "limits.in_flight_bytes": 268435456, "limits.depth": 128,
	"limits.sessions": 1000, "limits.session_idle": "1h0m0s", "limits.connections": 1000,
	"limits.page_bytes": 4194304, "limits.stream_queue": 256, "limits.replay_bytes": 1048576, "limits.answer_bytes": 10420224,
	"limits.parked": 256, "limits.parked_per_caller": 32, "limits.parked_time": "10m0s",
	"profiles.default.max_name_length": "as above", "profiles.default.naming": "as above",
	"profiles.default.utility_tools": true, "profiles.default.servers": "all",
	"auth.token_file": "in the state directory", "log.level": "info", "log.format": "text",
	"state_dir": "none", "egress.proxy": "as the environment says", "egress.ca_file": "the system's roots",
}

// serverZeroMeans is what zero stands for in a server, of what is worth a line
// for every one: how long things take, how many there may be, and all that the
// server may ask.
var serverZeroMeans = map[string]any{
	"timeout": "5m0s", "connect_timeout": "1m0s", "protocol": "auto", "trust": "full",
	"supports_parallel_tool_calls": false, "isolation": "shared", "max_concurrency": 64, "lazy": false,
	"sampling.enabled": true, "sampling.model": "as the server hints", "sampling.max_tokens_cap": 4096, "sampling.timeout": "30s",
	"sampling.max_rpm": 10, "sampling.max_tool_rounds": 5, "sampling.allowed_models": "all", "sampling.log_level": "info",
	"sampling.expose_client_tools": false, "sampling.endpoint.url": "none",
	"elicitation.enabled": true, "elicitation.timeout": "5m0s", "elicitation.allow_secrets": false,
	"roots.enabled": true,
}

// lived are more such keys, whose defaults upstream knows.
var lived = []string{
	"keepalive_interval", "keepalive_timeout", "max_queue", "queue_wait", "max_in_flight_bytes",
	"lifecycle.connect_retries", "lifecycle.reconnect_retries", "lifecycle.retry_pause", "lifecycle.retry_pause_max",
	"lifecycle.probe_interval", "lifecycle.wake_wait",
	"breaker.failures", "breaker.open", "breaker.probe_timeout",
}

// opened are the blocks of a server that are looked into where nobody set them.
var opened = append([]string{"lifecycle", "breaker"}, questions...)

// Effective returns every value in force and where it comes from: of the servers
// what is set and what else matters, then all of the top level. Secrets are
// redacted.
func (c *Config) Effective() []Setting {
	var v viewer
	for i := range c.Servers {
		s := &c.Servers[i]
		v.origin, v.processes = s.origin, s.Settings.DefaultProcesses()
		v.inForce = reflect.ValueOf(s.Settings.InForce())
		v.walk(reflect.ValueOf(s.Settings), []string{serversKey, s.Name})
	}
	v.all, v.origin = true, c.origin
	v.walk(reflect.ValueOf(c.inForce()), nil)
	if from := c.origins["insecure-no-auth"]; from != "" {
		v.out = append(v.out, Setting{"insecure_no_auth", Value{c.InsecureNoAuth}, from})
	}
	return v.out
}

// inForce is the top level as a file would have it.
func (c *Config) inForce() document {
	doc := document{
		Egress: c.Egress, Listen: c.Listen, OpsListen: c.OpsListen, Naming: c.Naming, MaxNameLength: c.MaxNameLength, ListWait: &c.ListWait,
		Profiles: c.Profiles, Auth: c.Auth, Credentials: c.Credentials, Policy: Policy{Cleaning: &c.Cleaning}, Limits: c.Limits, StateDir: c.StateDir, Log: c.Log,
	}
	if doc.OpsListen == "" {
		doc.OpsListen = "off"
	}
	return doc
}

// origin says where a top-level value comes from.
func (c *Config) origin(path []string) string {
	if from := c.origins[strings.Join(path, ".")]; from != "" {
		return from
	}
	return origin(c.document.lookup(path), byDefault)
}

func (s *Server) origin(path []string) string {
	return origin(s.node.lookup(path[2:]), fmt.Sprintf("%s:%d", s.File, s.Line))
}

func origin(at *node, otherwise string) string {
	if at == nil || at.file == nil {
		return otherwise
	}
	return fmt.Sprintf("%s:%d", at.file.name, at.line)
}

// A viewer collects settings from structs.
type viewer struct {
	all bool // zero values too
	// processes is what max_processes is where nobody says so; zero where it is
	// of no use.
	processes int
	// inForce is the server with what holds where nobody says so.
	inForce reflect.Value
	origin  func(path []string) string
	out     []Setting
}

func (v *viewer) walk(s reflect.Value, path []string) {
	for _, f := range fields(s.Type()) {
		v.value(s.Field(f.index), extend(path, f.key))
	}
}

func (v *viewer) value(val reflect.Value, path []string) {
	if !v.all && val.IsZero() && !(val.Kind() == reflect.Struct && len(path) > 2 && slices.Contains(opened, path[2])) {
		v.serverDefault(path)
		return
	}
	if val.Kind() == reflect.Pointer && !val.IsNil() {
		val = val.Elem()
	}
	switch {
	case val.Type() == sslVerifyType:
		v.add(path, showVerify(val.Interface().(upstream.SSLVerify)), false)
	case val.Kind() == reflect.Struct:
		v.walk(val, path)
	case val.Kind() == reflect.Map:
		for _, k := range slices.Sorted(maps.Keys(asMap(val))) {
			v.value(val.MapIndex(reflect.ValueOf(k)), extend(path, k))
		}
	default:
		empty := val.IsZero() || val.Kind() == reflect.Slice && val.Len() == 0
		v.add(path, show(val, path), empty)
	}
}

// serverDefault shows what holds where a server says nothing, or zero.
func (v *viewer) serverDefault(path []string) {
	if len(path) < 3 {
		return
	}
	key := strings.Join(path[2:], ".")
	means, ok := serverZeroMeans[key]
	if key == "max_processes" && v.processes > 0 {
		means, ok = v.processes, true
	}
	if slices.Contains(lived, key) || key == "lifecycle.stop_grace" && v.processes > 0 {
		means, ok = show(dig(v.inForce, path[2:]), path), true
	}
	if ok {
		v.out = append(v.out, Setting{Path: join(path...), Value: Value{means}, Origin: byDefault})
	}
}

// dig returns the field at a path of keys.
func dig(v reflect.Value, path []string) reflect.Value {
	for _, key := range path {
		for _, f := range fields(v.Type()) {
			if f.key == key {
				v = v.Field(f.index)
				break
			}
		}
	}
	return v
}

func (v *viewer) add(path []string, shown any, empty bool) {
	p := join(path...)
	from := v.origin(path)
	if means, ok := zeroMeans[p]; ok && from == byDefault && empty {
		shown = means
	}
	v.out = append(v.out, Setting{Path: p, Value: Value{shown}, Origin: from})
}

func asMap(v reflect.Value) map[string]struct{} {
	m := make(map[string]struct{}, v.Len())
	for _, k := range v.MapKeys() {
		m[k.String()] = struct{}{}
	}
	return m
}
