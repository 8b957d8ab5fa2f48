package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flavor is whose file a file is.
type flavor uint8

const (
	own    flavor = iota
	hermes        // config.yaml or mcp_servers.yaml of Hermes
	client        // mcpServers or servers in JSON: Claude, Cursor, Gemini, VS Code
	claude        // ~/.claude.json of Claude Code, without servers of the user
)

// hermesKeys are top-level keys that Hermes' config.yaml has and ours has not.
var hermesKeys = []string{
	"_config_version", "agent", "approvals", "auxiliary", "browser", "checkpoints", "code_execution", "command_allowlist",
	"compression", "context", "cron", "curator", "custom_providers", "delegation", "discord", "display", "fallback_model",
	"fallback_providers", "gateway", "goals", "group_sessions_per_user", "hooks", "human_delay", "image_gen", "kanban",
	"logging", "mcp", "memory", "model", "network", "openrouter", "personalities", "platform_toolsets", "platforms",
	"plugins", "privacy", "prompt_caching", "provider_routing", "providers", "quick_commands", "security",
	"session_reset", "sessions", "skills", "slack", "smart_model_routing", "streaming", "stt", "telegram", "terminal",
	"timeouts", "timezone", "tool_loop_guardrails", "toolsets", "tts", "unauthorized_dm_behavior", "updates", "voice",
	"web", "whatsapp", "worktree",
}

// guess tells whose file it is by what it holds.
func (f *file) guess() flavor {
	switch {
	case f.root == nil:
		return own
	case f.hermes:
		return hermes
	case f.json && (f.root.get("mcpServers") != nil || f.root.get("servers") != nil):
		return client
	case f.json && claudeState(f.root):
		return claude
	case f.json:
		return own
	}
	ours := topKeys()
	known := false
	for _, p := range f.root.pairs {
		if p.key != "mcp_servers" && slices.Contains(ours, p.key) {
			return own
		}
		known = known || slices.Contains(hermesKeys, p.key)
	}
	if known || f.root.get("mcp_servers") == nil && bare(f.root) {
		return hermes
	}
	return own
}

// bare reports whether a mapping is nothing but servers.
func bare(n *node) bool {
	for _, p := range n.pairs {
		if p.val.get("command") == nil && p.val.get("url") == nil {
			return false
		}
	}
	return len(n.pairs) > 0
}

// listed is a server and the key of the mapping that it stands in.
type listed struct {
	pair
	block string
}

// entries returns the servers of the file. What else a foreign file holds belongs
// to another program; only keys of ours are worth a word.
func (f *file) entries() (servers []listed, faults, warnings []Fault) {
	blocks := []string{serversKey}
	switch {
	case f.flavor == claude:
		return nil, []Fault{f.noUserServers()}, nil
	case f.flavor == client:
		blocks = []string{"mcpServers", "servers"}
	case f.flavor == hermes && f.root.get(serversKey) == nil && bare(f.root):
		return inBlock(f.root.pairs, serversKey), nil, nil
	}
	for _, b := range blocks {
		p := f.root.pair(b)
		switch {
		case p == nil || p.val.kind == null:
		case p.val.kind != mapping:
			faults = append(faults, f.fault(p.at, b, fmt.Sprintf("must be a mapping, not %s", p.val.kind)))
		default:
			servers = append(servers, inBlock(p.val.pairs, b)...)
		}
	}
	if f.flavor == own {
		return servers, faults, nil
	}
	for _, p := range f.root.pairs {
		if slices.Contains(topKeys(), p.key) && !slices.Contains(blocks, p.key) {
			warnings = append(warnings, f.fault(p.at, p.key, "ignored: only the servers of another program's file are read"))
		}
	}
	return servers, faults, warnings
}

func inBlock(pairs []pair, block string) []listed {
	out := make([]listed, len(pairs))
	for i, p := range pairs {
		out[i] = listed{p, block}
	}
	return out
}

// A translation rewrites a foreign entry into our keys; places stay.
type translation struct {
	client   bool
	entry    *node
	envFile  *node // the value of envFile, if any
	warnings []note
}

type note struct {
	at   *node
	path string
	msg  string
}

func translate(entry *node, fl flavor) translation {
	t := translation{client: fl == client, entry: entry}
	t.disabled()
	t.rename("serverUrl", "url")
	t.rename("httpUrl", "url")
	t.typed()
	t.filters()
	if p := t.entry.pair("envFile"); p != nil {
		t.envFile = p.val
		t.entry = t.entry.without("envFile")
	}
	if t.client {
		t.millis()
		t.trust()
	}
	return t
}

func (t *translation) warn(p *pair, msg string) {
	t.warnings = append(t.warnings, note{p.at, p.key, msg})
}

func (t *translation) disabled() {
	p := t.entry.pair("disabled")
	if p == nil {
		return
	}
	off, msg := boolish(p.val)
	switch {
	case p.val.kind == null:
	case msg != "":
		t.warn(p, msg+", ignored")
	case off:
		no := &node{kind: boolean, text: "false", file: p.val.file, line: p.val.line, column: p.val.column}
		t.entry = t.entry.with(pair{key: "enabled", at: p.at, val: no})
	}
	t.entry = t.entry.without("disabled")
}

// rename gives a value our key; the more specific foreign key wins.
func (t *translation) rename(from, to string) {
	p := t.entry.pair(from)
	if p == nil {
		return
	}
	if t.entry.get(to) != nil {
		t.warn(p, fmt.Sprintf("wins over %q", to))
	}
	t.entry = t.entry.without(from).with(pair{key: to, at: p.at, val: p.val})
}

// transportOf are the values of type.
var transportOf = map[string]string{
	"stdio": "stdio", "local": "stdio", "sse": "sse", "http": "http", "remote": "http",
	"streamable-http": "http", "streamablehttp": "http", "streamable_http": "http",
}

func (t *translation) typed() {
	p := t.entry.pair("type")
	if p == nil {
		return
	}
	t.entry = t.entry.without("type")
	if p.val.kind == null || t.entry.get("transport") != nil {
		return
	}
	val := *p.val
	if known, ok := transportOf[strings.ToLower(strings.TrimSpace(val.text))]; ok {
		val.text = known
	} else {
		t.warn(p, fmt.Sprintf("unknown type %.40q, ignored", val.text))
		return
	}
	t.entry = t.entry.with(pair{key: "transport", at: p.at, val: &val})
}

// filters gives the filters of other programs their place under tools.
func (t *translation) filters() {
	tools := t.entry.get("tools")
	if tools == nil {
		tools = &node{kind: mapping, file: t.entry.file, line: t.entry.line, column: t.entry.column}
	}
	tools = asTools(tools)
	found := false
	for _, k := range []struct{ from, to string }{{"includeTools", "include"}, {"excludeTools", "exclude"}, {"disabledTools", "exclude"}} {
		p := t.entry.pair(k.from)
		if p == nil {
			continue
		}
		t.entry = t.entry.without(k.from)
		if tools.kind == mapping && tools.get(k.to) == nil {
			tools = tools.with(pair{key: k.to, at: p.at, val: p.val})
			found = true
			continue
		}
		t.warn(p, "ignored: the tools are filtered by another key already")
	}
	if found {
		t.entry = t.entry.with(pair{key: "tools", at: t.entry, val: cutExcluded(tools)})
	}
}

// cutExcluded takes the excluded names out of include: where these keys come from
// the exclusion wins, here the inclusion does.
func cutExcluded(tools *node) *node {
	inc, exc := tools.get("include"), tools.get("exclude")
	if inc == nil || exc == nil || inc.kind != list || exc.kind != list {
		return tools
	}
	left := *inc
	left.items = slices.DeleteFunc(slices.Clone(inc.items), func(n *node) bool {
		return slices.ContainsFunc(exc.items, func(e *node) bool { return e.text == n.text })
	})
	return tools.with(pair{key: "include", at: inc, val: &left})
}

// millis reads a large time-out as what it is in the files of these programs.
func (t *translation) millis() {
	p := t.entry.pair("timeout")
	if p == nil || p.val.kind != number {
		return
	}
	ms, err := strconv.ParseFloat(p.val.text, 64)
	if err != nil || ms < 1000 {
		return
	}
	val := *p.val
	val.text = strconv.FormatFloat(ms/float64(time.Second/time.Millisecond), 'f', -1, 64)
	t.warn(p, "1000 and more are taken for milliseconds")
	t.entry = t.entry.with(pair{key: "timeout", at: p.at, val: &val})
}

// trust true says elsewhere "do not ask me", which is not ours to grant.
func (t *translation) trust() {
	if p := t.entry.pair("trust"); p != nil && p.val.kind == boolean {
		t.warn(p, "ignored: whether to ask is the agent's business")
		t.entry = t.entry.without("trust")
	}
}
