package config

import (
	"reflect"
	"slices"
	"strings"
)

// leasts are the numbers whose zero stands for a default, with the least that can
// be written for them. Whoever writes 0 means "none" or "no limit", and would get
// neither. Of servers' keys, the part behind the server's name; of profiles',
// behind the profile's.
var leasts = map[string]string{
	"max_name_length": "24", "profiles.max_name_length": "24",
	"limits.request_bytes": "1024", "limits.in_flight_bytes": "1048576", "limits.depth": "16", "limits.sessions": "1",
	"limits.session_idle": "1s", "limits.connections": "1", "limits.page_bytes": "1024", "limits.answer_bytes": "65536",
	"limits.stream_queue": "1", "limits.replay_bytes": "65536", "limits.parked": "1", "limits.parked_per_caller": "1",
	"limits.parked_time": "1s",

	"mcp_servers.connect_timeout": moreThan0, "mcp_servers.progress_timeout": moreThan0, "mcp_servers.keepalive_interval": "5s",
	"mcp_servers.max_concurrency": "1", "mcp_servers.max_processes": "1", "mcp_servers.max_message_bytes": "1024",
	"mcp_servers.lifecycle.retry_pause": "10ms", "mcp_servers.lifecycle.retry_pause_max": "10ms",
	"mcp_servers.lifecycle.probe_interval": "1s", "mcp_servers.lifecycle.wake_wait": "10ms", "mcp_servers.lifecycle.stop_grace": "10ms",
	"mcp_servers.lifecycle.connect_retries": "1, or -1 for none", "mcp_servers.lifecycle.reconnect_retries": "1, or -1 for none",
	"mcp_servers.breaker.failures": "1, or -1 for no breaker", "mcp_servers.breaker.open": "1s", "mcp_servers.breaker.probe_timeout": "10ms",
	"mcp_servers.max_queue": "1, or -1 for none", "mcp_servers.queue_wait": "10ms", "mcp_servers.keepalive_timeout": "10ms",
	"mcp_servers.max_in_flight_bytes": "1048576",
	"mcp_servers.rlimits.nofile":      "4", "mcp_servers.rlimits.nproc": "1", "mcp_servers.rlimits.as": "1", "mcp_servers.rlimits.cpu": "1",
	"mcp_servers.rlimits.fsize":           "1",
	"mcp_servers.sampling.max_tokens_cap": "1, or enabled: false for none", "mcp_servers.sampling.max_rpm": "1, or enabled: false for none", "mcp_servers.sampling.timeout": moreThan0,
	"mcp_servers.elicitation.timeout": moreThan0, "mcp_servers.oauth.timeout": moreThan0,
}

const moreThan0 = "" // durations that may be as short as anybody likes

// zeros are the numbers whose zero means what it says.
var zeros = []string{
	"list_wait", "profiles.reserve", "mcp_servers.timeout", "mcp_servers.relist_interval",
	"mcp_servers.idle_timeout_seconds", "mcp_servers.max_lifetime_seconds",
	"mcp_servers.lifecycle.idle_timeout_seconds", "mcp_servers.lifecycle.max_lifetime_seconds",
	"mcp_servers.rlimits.core", "mcp_servers.sampling.max_tool_rounds", "mcp_servers.oauth.redirect_port",
}

// zero says what is wrong with a zero at path, if anything is. Other programs let
// it pass, so in their files only what limits questions counts; see unlimited.
func (d *decoder) zero(v reflect.Value, path []string) string {
	if d.foreign && !guards(path) || !v.IsZero() {
		return ""
	}
	return least(path)
}

// least says what can be written at path, if zero cannot.
func least(path []string) string {
	least, ok := leasts[plainKey(path)]
	switch {
	case !ok:
		return ""
	case least == moreThan0:
		return "must be more than 0"
	}
	return "must be at least " + least
}

// unlimited takes a zero of a foreign file that stands for a default for a warning.
func (d *decoder) unlimited(p *pair, v reflect.Value, path []string) bool {
	msg := least(path)
	if !d.foreign || guards(path) || msg == "" || p.val.kind != number && p.val.kind != text {
		return false
	}
	trial := reflect.New(v.Type()).Elem()
	if d.fill(p.val, p.place(), trial, "", path) != "" || !trial.IsZero() {
		return false
	}
	d.warn(p.place(), path, msg+", ignored")
	return true
}

// plainKey is a path without the name of the server or profile.
func plainKey(path []string) string {
	switch {
	case len(path) > 2 && slices.Contains(blocks, path[0]):
		return serversKey + "." + strings.Join(path[2:], ".")
	case len(path) > 2 && path[0] == "profiles":
		return "profiles." + strings.Join(path[2:], ".")
	}
	return strings.Join(path, ".")
}

// blocks are the keys that servers stand under, in anybody's file.
var blocks = []string{serversKey, "mcpServers", "servers"}

// questions are the keys that limit what a server may ask.
var questions = []string{"sampling", "elicitation", "roots"}

// guards reports whether a path is that of a limit of questions.
func guards(path []string) bool { return len(path) > 2 && slices.Contains(questions, path[2]) }

// switches gives the limits of questions that are written as a mere yes or no
// their whole form.
func switches(entry *node) *node {
	for _, k := range questions {
		p := entry.pair(k)
		if p == nil || p.val.kind == list || p.val.kind == mapping {
			continue
		}
		if _, msg := boolish(p.val); msg != "" {
			continue
		}
		val := &node{kind: mapping, file: p.val.file, line: p.val.line, column: p.val.column}
		val.pairs = []pair{{key: "enabled", at: p.at, val: p.val}}
		entry = entry.with(pair{key: k, at: p.at, val: val})
	}
	return entry
}

// softer are the limits of questions for which a value that is not understood is
// left out, because their default is a limit too.
var softer = []string{"max_tokens_cap", "max_rpm", "max_tool_rounds", "timeout", "log_level"}

// cost says what a fault in a foreign file costs: nothing but the value, or, where
// a limit would be lost by that, all questions of its kind.
func (d *decoder) cost(path []string, known bool) string {
	if !guards(path) || known && len(path) == 4 && slices.Contains(softer, path[3]) {
		return "ignored"
	}
	d.closed = append(d.closed, path[2])
	return path[2] + " is off for this server"
}

// shut refuses the kinds of questions whose limits could not be read.
func (e *entry) shut(kinds []string) {
	s, no := &e.s.Settings, false
	for _, k := range kinds {
		switch k {
		case "sampling":
			s.Sampling.Enabled = &no
		case "elicitation":
			s.Elicitation.Enabled = &no
		case "roots":
			s.Roots.Enabled = &no
		}
	}
}

// noValue says what is wrong with a key that stands there without a value, where
// that would be the same as no limit of questions, or as one connection for all.
func noValue(p *pair, path []string) string {
	switch {
	case p.val.kind != null || len(path) < 3:
	case len(path) == 3 && guards(path):
		return "has no value: write true or false, or leave the key out"
	case len(path) == 3 && p.key == "isolation":
		return "has no value: write shared, per_session or per_caller"
	case len(path) != 4 || !guards(path):
	case p.key == "enabled":
		return "has no value: write true or false"
	case p.key == "allowed_models":
		return "has no value: name models, or leave the key out for any"
	}
	return ""
}

// emptyProxy finds a proxy that is an empty text: whoever writes that means none, and
// would get whichever proxy holds for all.
func emptyProxy(root *node) bool {
	p := root.get("egress").pair("proxy")
	return p != nil && (p.val.kind == null || p.val.kind == text && strings.TrimSpace(p.val.text) == "")
}

func (e *entry) emptyProxy() {
	const msg = "is empty: write direct for none"
	switch {
	case !emptyProxy(e.s.node):
	case e.s.Foreign:
		e.warn(msg+", ignored", "egress", "proxy")
	default:
		e.bad(msg+", or leave the key out for the proxy that holds for all servers", "egress", "proxy")
	}
}

// emptyEndpoint warns of a chat endpoint that says nothing.
func (e *entry) emptyEndpoint() {
	n := e.s.node.get("sampling").get("endpoint")
	if n != nil && (n.kind == null || n.kind == mapping && len(n.pairs) == 0) {
		e.warn("names no url, so there is no endpoint", "sampling", "endpoint")
	}
}
