package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// announce prints, for people, where the endpoint is, how clients reach it and
// what was found. Health says "started" when it is done.
func (r *running) announce(ctx context.Context, tokenPath string) {
	if r.p.records != nil {
		r.announceRecords(ctx, tokenPath)
		return
	}
	out := r.p.stderr
	for i, addr := range r.cfg.Listen {
		if strings.HasPrefix(addr, "unix:") {
			fmt.Fprintf(out, "endpoint    %s  path /mcp\n", addr)
			continue
		}
		r.clients(endpoint(r.addrs[i]), tokenPath)
	}
	if r.opsAddr != "" {
		fmt.Fprintf(out, "health      http://%s/readyz\n", r.opsAddr)
	}
	r.settle(ctx, startupWait)
	r.health.Started()
	if ctx.Err() != nil {
		return
	}
	for _, name := range r.set.Names() {
		fmt.Fprintf(out, "server      %s: %s\n", name, r.describe(name))
	}
	names := r.exposed()
	fmt.Fprintf(out, "tools       %d: %s%s\n", len(names), abridge(names, 12), r.asleep())
}

// exposed are the names of the tools that agents see.
func (r *running) exposed() (names []string) {
	snap, _ := r.views.of("")
	for route := range snap.Tools() {
		names = append(names, route.Exposed)
	}
	return names
}

// announceRecords is announce for programs: a record of the log for each line.
func (r *running) announceRecords(ctx context.Context, tokenPath string) {
	for i, addr := range r.cfg.Listen {
		if !strings.HasPrefix(addr, "unix:") {
			addr = endpoint(r.addrs[i])
		}
		r.log.Info("listening", "endpoint", addr, "token_file", tokenPath)
	}
	if r.opsAddr != "" {
		r.log.Info("health endpoints", "url", "http://"+r.opsAddr+"/readyz")
	}
	r.settle(ctx, startupWait)
	r.health.Started()
	if ctx.Err() != nil {
		return
	}
	for _, name := range r.set.Names() {
		st, _ := r.set.Status(name)
		r.log.Info("server found", "server", name, "state", st.State, "tools", st.Tools, "summary", r.describe(name))
	}
	r.log.Info("started", "tools", len(r.exposed()))
}

// endpoint makes a URL that a local client can use of a listener's address.
func endpoint(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + addr + "/mcp"
}

// clients prints what makes each client use the endpoint at.
func (r *running) clients(at, tokenPath string) {
	out := r.p.stderr
	fmt.Fprintf(out, "endpoint    %s\n", at)
	header, json, yaml := "", "", ""
	if tokenPath != "" {
		fmt.Fprintf(out, "token       %s\n", tokenPath)
		header = fmt.Sprintf(` --header "Authorization: Bearer $(cat %s)"`, shellWord(tokenPath))
		json = `,"headers":{"Authorization":"Bearer ${env:MCP_SIDECAR_TOKEN}"}`
		yaml = `, headers: {Authorization: "Bearer ${MCP_SIDECAR_TOKEN}"}`
	}
	fmt.Fprintf(out, "claude      claude mcp add --transport http sidecar %s%s\n", at, header)
	fmt.Fprintf(out, `cursor      {"mcpServers":{"sidecar":{"url":"%s"%s}}}`+"\n", at, json)
	fmt.Fprintf(out, `vscode      {"servers":{"sidecar":{"type":"http","url":"%s"%s}}}`+"\n", at, json)
	fmt.Fprintln(out, "hermes      mcp_servers:")
	for _, name := range r.set.Names() {
		fmt.Fprintf(out, "              %s: {url: %q%s}\n", yamlKey(name), at+"/"+url.PathEscape(name), yaml)
	}
	if tokenPath != "" {
		fmt.Fprintf(out, "            where the client needs: export MCP_SIDECAR_TOKEN=\"$(cat %s)\"\n", shellWord(tokenPath))
	}
}

// asleep counts the servers that start with their first call.
func (r *running) asleep() string {
	n := 0
	for _, name := range r.set.Names() {
		if st, _ := r.set.Status(name); st.State == upstream.Lazy {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d lazy, not spawned yet)", n)
}

// soon is how long before its end a certificate is spoken of.
const soon = 30 * 24 * time.Hour

// ends says when the client certificate does, if that is soon.
func ends(st *upstream.Status) string {
	if st.CertificateUntil.IsZero() || time.Until(st.CertificateUntil) > soon {
		return ""
	}
	return ", client certificate until " + st.CertificateUntil.UTC().Format(time.DateOnly)
}

func (a *app) describe(name string) string {
	st, _ := a.set.Status(name)
	switch st.State {
	case upstream.Ready:
		return fmt.Sprintf("%s, %s, MCP %s%s", st.State, a.share(name, st.Tools), st.Info.Version, ends(&st))
	case upstream.Degraded:
		return fmt.Sprintf("%s, %s, MCP %s: %v", st.State, a.share(name, st.Tools), st.Info.Version, st.Err)
	case upstream.Lazy:
		return a.share(name, st.Tools) + " (lazy, starts on first use)"
	case upstream.Recycled:
		return a.share(name, st.Tools) + " (recycled, starts with the next call)"
	case upstream.Parked, upstream.NeedsLogin:
		return fmt.Sprintf("%s, %s, tried again in %v: %v", st.State, a.share(name, st.Tools), time.Until(st.RetryAt).Round(time.Second), st.Err)
	}
	if st.Err != nil {
		return fmt.Sprintf("%s: %v", st.State, st.Err)
	}
	return string(st.State)
}

// share says how many of a server's tools agents see.
func (a *app) share(name string, has int) string {
	snap, ok := a.views.of("")
	if !ok {
		return fmt.Sprintf("%d tool(s)", has)
	}
	shown := 0
	for range snap.Native(aggregate.Tools, name) {
		shown++
	}
	if shown == has {
		return fmt.Sprintf("%d tool(s)", has)
	}
	return fmt.Sprintf("%d of %d tool(s)", shown, has)
}

// yamlKey quotes a name where YAML needs it.
func yamlKey(name string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
	}
	first := name != "" && (name[0] >= 'a' && name[0] <= 'z' || name[0] >= 'A' && name[0] <= 'Z')
	switch strings.ToLower(name) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		first = false
	}
	if first && strings.IndexFunc(name, func(c rune) bool { return !plain(c) }) < 0 {
		return name
	}
	return string(wire.AppendQuote(nil, name))
}

// abridge joins at most n names.
func abridge(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, " ")
	}
	return strings.Join(names[:n], " ") + fmt.Sprintf(" and %d more", len(names)-n)
}

// shellWord quotes s for a POSIX shell where it must.
func shellWord(s string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/._-+:@%", c)
	}
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
