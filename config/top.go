package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/proxy"
)

// maxSocketPath is the shortest sun_path of our platforms, less its NUL.
const maxSocketPath = 103

// settle puts flags and environment over the file's values, checks the result
// and fills in what nobody set.
func (l *loader) settle(doc *document) {
	c, set := l.c, &l.set
	l.paths(doc)
	c.Listen = trimmed(first(set.Listen, doc.Listen, []string{DefaultListen}))
	c.OpsListen = strings.TrimSpace(cmp.Or(set.OpsListen, doc.OpsListen, DefaultOpsListen))
	c.Naming = cmp.Or(set.Naming, doc.Naming, policy.DefaultNaming)
	c.MaxNameLength = cmp.Or(doc.MaxNameLength, policy.DefaultMaxName)
	c.ListWait = DefaultListWait
	if doc.ListWait != nil {
		c.ListWait = *doc.ListWait
	}
	c.Auth = doc.Auth
	c.Auth.TokenFile = cmp.Or(l.fromDir(set.TokenFile), doc.Auth.TokenFile)
	c.Credentials = doc.Credentials
	c.Cleaning = doc.Policy.Cleaning == nil || *doc.Policy.Cleaning
	c.Limits, c.Egress = doc.Limits, doc.Egress
	c.Egress.Proxy = strings.TrimSpace(c.Egress.Proxy)
	c.StateDir = cmp.Or(l.fromDir(set.StateDir), doc.StateDir, l.stateDir())
	c.Log = Log{Level: cmp.Or(set.LogLevel, doc.Log.Level), Format: cmp.Or(set.LogFormat, doc.Log.Format)}
	l.profiles(doc.Profiles)
	l.listeners()
	l.values()
}

func first(lists ...[]string) []string {
	for _, s := range lists {
		if len(s) > 0 {
			return s
		}
	}
	return nil
}

// paths makes the file's own paths start from the folder of the file that holds
// them.
func (l *loader) paths(doc *document) {
	for _, p := range []struct {
		val *string
		key []string
	}{{&doc.Auth.TokenFile, []string{"auth", "token_file"}}, {&doc.StateDir, []string{"state_dir"}}, {&doc.Egress.CAFile, []string{"egress", "ca_file"}},
		{&doc.Credentials.KeyFile, []string{"credentials", "key_file"}}, {&doc.Credentials.SeedDir, []string{"credentials", "seed_dir"}}} {
		if *p.val == "" || strings.HasPrefix(*p.val, "${") {
			continue
		}
		dir := l.in.Dir
		if at := l.c.document.at(nil, p.key); at != nil && at.file != nil {
			dir = filepath.Dir(at.file.path)
		}
		*p.val = l.absFrom(dir, strings.TrimSpace(*p.val))
	}
}

func (l *loader) fromDir(path string) string {
	if path == "" {
		return ""
	}
	return l.abs(path)
}

// stateDir is where XDG puts state.
func (l *loader) stateDir() string {
	dir := l.c.env["XDG_STATE_HOME"]
	if !filepath.IsAbs(dir) {
		if l.in.Home == "" {
			return ""
		}
		dir = filepath.Join(l.in.Home, ".local", "state")
	}
	return filepath.Join(dir, "mcp-sidecar")
}

func (l *loader) profiles(all map[string]proxy.Profile) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != DefaultProfile {
			l.fault("only the profile \"default\" is supported in this version", "profiles", name)
		}
	}
	p := all[DefaultProfile]
	p.Workspace = strings.TrimSpace(cmp.Or(l.set.Workspace, p.Workspace))
	if p.Workspace != "" {
		p.Workspace = l.abs(p.Workspace)
	}
	l.c.Profiles = map[string]proxy.Profile{DefaultProfile: p}
}

// fault reports a fault of the value at a path of our own files, wherever that
// value came from.
func (l *loader) fault(msg string, path ...string) { l.bad(l.place(msg, path...)) }

func (l *loader) place(msg string, path ...string) Fault { return l.c.Place(msg, path...) }

// Place makes a fault of what was found about the value at a path of the top level
// elsewhere.
func (c *Config) Place(msg string, path ...string) Fault {
	if from := c.origins[strings.Join(path, ".")]; from != "" {
		return Fault{Path: from, Msg: msg}
	}
	at := c.document.at(nil, path)
	if at == nil || at.file == nil {
		return Fault{Path: join(path...), Msg: msg}
	}
	return at.file.fault(at, join(path...), msg)
}

func (l *loader) listeners() {
	c := l.c
	seen := map[string]bool{}
	for _, a := range c.Listen {
		if msg := listenFault(a); msg != "" {
			l.fault(fmt.Sprintf("%.120q: %s", a, msg), "listen")
		}
		if seen[a] && !strings.HasSuffix(a, ":0") {
			l.fault(fmt.Sprintf("%.120q is listed twice", a), "listen")
		}
		seen[a] = true
		if c.InsecureNoAuth && !local(a) {
			l.warn(l.place(fmt.Sprintf("%.120q is open to the network without a token (insecure-no-auth)", a), "listen"))
		}
	}
	if strings.EqualFold(c.OpsListen, "off") {
		c.OpsListen = ""
		return
	}
	if msg := listenFault(c.OpsListen); msg != "" {
		l.fault(fmt.Sprintf("%.120q: %s", c.OpsListen, msg), "ops_listen")
	}
	if seen[c.OpsListen] && !strings.HasSuffix(c.OpsListen, ":0") {
		l.fault(fmt.Sprintf("%.120q is an address of listen too", c.OpsListen), "ops_listen")
	}
}

// listenFault says what is wrong with host:port or unix:PATH.
func listenFault(a string) string {
	if path, ok := strings.CutPrefix(a, "unix:"); ok {
		switch {
		case path == "" || strings.ContainsRune(path, 0):
			return "a socket needs a path, as in unix:/run/mcp.sock"
		case len(path) > maxSocketPath:
			return fmt.Sprintf("the socket's path is longer than %d bytes", maxSocketPath)
		}
		return ""
	}
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return "must be host:port or unix:PATH"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "the port must be a number from 0 to 65535"
	}
	if strings.ContainsAny(host, "/ \x00") {
		return "must be host:port or unix:PATH"
	}
	return ""
}

func local(a string) bool {
	if strings.HasPrefix(a, "unix:") {
		return true
	}
	host, _, _ := net.SplitHostPort(a)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// values checks what is neither an address nor a server.
func (l *loader) values() {
	c, p := l.c, l.c.Profile()
	if c.ListWait < 0 {
		l.fault("must not be negative", "list_wait")
	}
	if msg := proxy.NameLengthFault(c.MaxNameLength); msg != "" {
		l.fault(msg, "max_name_length")
		return
	}
	c.Auth.Validate(func(key, msg string) { l.fault(msg, "auth", key) })
	c.Credentials.Validate(func(key, msg string) { l.fault(msg, "credentials", key) })
	c.Limits.Validate(func(key, msg string) { l.fault(msg, "limits", key) })
	if emptyProxy(c.document) {
		l.fault("is empty: write direct for none, or leave the key out for what the environment says", "egress", "proxy")
	}
	c.Egress.Validate(func(key, msg string) { l.fault(msg, "egress", key) })
	l.direct()
	l.parked()
	before := len(l.faults)
	p.Validate(c.MaxNameLength, func(key, msg string) { l.fault(msg, "profiles", DefaultProfile, key) })
	if len(l.faults) == before {
		l.naming(c.Naming, "naming")
		l.naming(p.Naming, "profiles", DefaultProfile, "naming")
	}
	l.word(c.Log.Level, []string{"debug", "info", "warn", "error"}, "log", "level")
	l.word(c.Log.Format, []string{"text", "json"}, "log", "format")
}

// direct warns of exemptions from a proxy where there is none. A server's own proxy
// knows no exemptions.
func (l *loader) direct() {
	e := &l.c.Egress
	if e.Proxy != "direct" {
		return
	}
	const none = "egress.proxy is direct, so there is no proxy to go past and this does nothing"
	if len(e.NoProxy) > 0 {
		l.warn(l.place(none, "egress", "no_proxy"))
	}
	if e.ResolveNames {
		l.warn(l.place(none, "egress", "resolve_names"))
	}
}

// parked warns where one caller may have more than there is.
func (l *loader) parked() {
	all, one := l.c.Limits.Parked, l.c.Limits.ParkedPerCaller
	if all > 0 && one > all {
		l.warn(l.place("is more than limits.parked, so one caller can take every place", "limits", "parked_per_caller"))
	}
}

func (l *loader) naming(template string, path ...string) {
	p := l.c.Profile()
	if template == "" {
		return
	}
	if _, err := policy.CompileNaming(template, cmp.Or(p.MaxNameLength, l.c.MaxNameLength), p.Reserve); err != nil {
		l.fault(err.Error(), path...)
	}
}

func (l *loader) word(val string, known []string, path ...string) {
	if val != "" && !slices.Contains(known, val) {
		l.fault("unknown value, use one of "+strings.Join(known, ", "), path...)
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
