package main

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/mcp-sidecar/mcp-sidecar/config"
)

// Bounds of what a line of check shows: of one value, and of the names in a mapping.
const (
	briefValue = 60
	briefNames = 8
)

// brief prints what holds for all in a line, and each server in one.
func (p *program) brief(a *app, servers []checked) error {
	files := strings.Join(a.cfg.Files, ", ")
	fmt.Fprintf(p.stdout, "%s: %s\n", legibleText(files), a.topLine())
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	for i := range servers {
		c := &servers[i]
		kind, target := c.target()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", oneLine(c.s.Name), kind, target, a.way(c), settings(c.s.Own(), targets...))
	}
	w.Flush()
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(p.stdout, strings.TrimRight(line, " \n"))
	}
	return nil
}

// topLine is where agents are listened to, and what else is set.
func (a *app) topLine() string {
	line := "listen=" + strings.Join(a.cfg.Listen, ",")
	if a.cfg.OpsListen != "" {
		line += " ops_listen=" + a.cfg.OpsListen
	}
	return strings.TrimSpace(line + " " + settings(a.cfg.Top(), "listen", "ops_listen"))
}

// targets are the keys that say what a server is, and so are not repeated.
var targets = []string{"enabled", "command", "args", "url", "builtin"}

// target is what kind of server this is, and what is started or dialled.
func (c *checked) target() (kind, target string) {
	var words []string
	for _, s := range c.s.Own() {
		switch s.Path {
		case "command", "url", "builtin":
			kind, words = s.Path, append([]string{s.Value.String()}, words...)
		case "args":
			words = append(words, s.Value.List()...)
		}
	}
	if off(c.s.Settings.Enabled) {
		kind = "disabled"
	}
	return kind, oneLine(strings.Join(words, " "))
}

// way says how the server's connections leave; proxies without their credentials.
func (a *app) way(c *checked) string {
	switch {
	case off(c.s.Settings.Enabled):
		return "-"
	case len(c.faults) > 0 || c.r == nil:
		return "does not start"
	case a.egress == nil:
		return "?"
	case c.r.Socket != "":
		return "unix socket"
	case c.r.URL != nil:
		return a.leaving(c.r.URL, c.r.Settings.Egress.Proxy)
	case c.r.Command == "":
		return "in process"
	case !c.r.Settings.Egress.Fenced():
		return "unfenced"
	case c.r.Settings.Egress.Via == "direct":
		return "fenced, direct"
	}
	return "fenced, " + a.leaving(anywhere, c.r.Settings.Egress.Proxy)
}

// anywhere stands for what a fenced program connects to.
var anywhere = &url.URL{Scheme: "https", Host: "192.0.2.1"}

func (a *app) leaving(to *url.URL, override string) string {
	route, err := a.egress.Route(to, override)
	switch {
	case err != nil:
		return "?"
	case route.Proxied():
		return "via " + route.String()
	}
	return route.String()
}

// settings lists what is set as key=value, but the keys that are left out. Of
// mappings of texts it shows the names.
func settings(all []config.Setting, leftOut ...string) string {
	var out []string
	names := map[string][]string{}
	for _, s := range all {
		block, name, _ := strings.Cut(s.Path, ".")
		switch {
		case slices.Contains(leftOut, s.Path):
		case block == "headers" || block == "env":
			if names[block] = append(names[block], oneLine(name)); len(names[block]) == 1 {
				out = append(out, block)
			}
		default:
			out = append(out, s.Path+"="+oneLine(s.Value.String()))
		}
	}
	for i, key := range out {
		if n := names[key]; n != nil {
			out[i] = key + "=[" + some(n) + "]"
		}
	}
	return strings.Join(out, " ")
}

// some joins the first of many.
func some(names []string) string {
	if more := len(names) - briefNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:briefNames], " "), more)
	}
	return strings.Join(names, " ")
}

// oneLine makes a value fit for a column.
func oneLine(s string) string {
	s = legibleText(strings.Join(strings.Fields(s), " "))
	if r := []rune(s); len(r) > briefValue {
		return string(r[:briefValue-1]) + "…"
	}
	return s
}
