package upstream

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Severity says what a Fault costs.
type Severity uint8

// The severities. Broken settings cannot be used. Pending ones keep this server
// alone from starting: they ask for protection that this version does not have
// yet, or screening refuses them. Advice changes nothing.
const (
	Broken Severity = iota
	Pending
	Advice
)

// A Fault is one thing that is wrong with a server's settings.
type Fault struct {
	// Path leads from the server's entry to the setting. If nil, the entry itself.
	Path     []string
	Msg      string
	Severity Severity
	// Missing is whether the fault is that something is not there.
	Missing bool
}

// Bounds of what one entry may hold.
const (
	maxNameBytes    = 128
	maxItems        = 1000
	maxGlobBytes    = 1024
	maxConcurrency  = 10_000
	maxProcesses    = 64
	maxMessageBytes = 1 << 30
	minMessageBytes = 1 << 10
	minInterval     = 5 * time.Second
)

// Validate reports what is wrong with the settings of the named server, in a
// stable order. It opens nothing, resolves no reference and changes nothing.
func (s *Settings) Validate(name string) []Fault {
	c := check{s: s}
	c.name(name)
	c.kind()
	c.stdio()
	c.process()
	c.http()
	c.numbers()
	c.lifecycle()
	c.s.Egress.Validate(c.s.URL == "", func(key, msg string) { c.bad(msg, "egress", key) })
	c.words()
	c.tools()
	c.sampling()
	c.elicitation()
	c.s.OAuth.Validate(func(key, msg string) { c.bad(msg, "oauth", key) })
	c.inactive()
	c.misplaced()
	c.clashes()
	return c.faults
}

type check struct {
	s      *Settings
	faults []Fault
}

func (c *check) add(sev Severity, msg string, path ...string) {
	c.faults = append(c.faults, Fault{Path: path, Msg: msg, Severity: sev})
}

func (c *check) bad(msg string, path ...string) { c.add(Broken, msg, path...) }
func (c *check) missing(msg string, path ...string) {
	c.faults = append(c.faults, Fault{Path: path, Msg: msg, Missing: true})
}

func (c *check) advise(msg string, path ...string) { c.add(Advice, msg, path...) }

func (c *check) name(name string) {
	switch {
	case strings.TrimSpace(name) == "":
		c.bad("a server needs a name")
	case len(name) > maxNameBytes:
		c.bad(fmt.Sprintf("the server's name is longer than %d bytes", maxNameBytes))
	case strings.ContainsFunc(name, unicode.IsControl):
		c.bad("the server's name holds a control character")
	case name == "." || name == "..":
		c.bad("a server cannot be named . or ..")
	case strings.ContainsAny(name, "/?#%"):
		c.advise("the name holds one of / ? # %, so its own endpoint /mcp/<server> is reached percent-encoded only")
	}
}

// kind wants exactly one of command, url and builtin.
func (c *check) kind() {
	set := make([]string, 0, 3)
	for _, k := range []struct{ key, val string }{
		{"command", c.s.Command}, {"url", c.s.URL}, {"builtin", c.s.Builtin},
	} {
		if k.val != "" {
			set = append(set, k.key)
		}
	}
	switch len(set) {
	case 0:
		c.missing(`needs "command" (a program) or "url" (an HTTP server)`)
	case 1:
	default:
		c.bad(fmt.Sprintf("%s are both set, use one", strings.Join(set, " and ")))
	}
}

func (c *check) stdio() {
	if strings.ContainsRune(c.s.Command, 0) {
		c.bad("holds a NUL byte", "command")
	}
	if strings.ContainsRune(c.s.Cwd, 0) {
		c.bad("holds a NUL byte", "cwd")
	}
	if len(c.s.Args) > maxItems {
		c.bad(fmt.Sprintf("more than %d items", maxItems), "args")
	}
	for i, a := range c.s.Args {
		if strings.ContainsRune(a, 0) {
			c.bad("holds a NUL byte", "args", fmt.Sprint(i))
		}
	}
	for _, k := range sortedKeys(c.s.Env) {
		c.env(k, c.s.Env[k])
	}
}

// loaders are variables by which a program is made to run foreign code.
var loaders = []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONSTARTUP", "BASH_ENV", "PERL5OPT", "RUBYOPT"}

// literalPath finds a shell's way of naming PATH, which nothing here expands.
var literalPath = regexp.MustCompile(`\$PATH\b`)

func (c *check) env(key, val string) {
	switch {
	case key == "" || strings.ContainsAny(key, "=\x00"):
		c.bad("the name of an environment variable is empty or holds = or NUL", "env", key)
	case strings.ContainsRune(val, 0):
		c.bad("holds a NUL byte", "env", key)
	case slices.Contains(loaders, key):
		c.advise("changes what code the server loads", "env", key)
	case literalPath.MatchString(val):
		c.advise("holds a literal $PATH, which nothing expands: write ${PATH}", "env", key)
	case key == "PATH" && strings.Contains(strings.ReplaceAll(val, "${", ""), "$"):
		c.advise("holds a literal $: references are written ${NAME}", "env", key)
	}
}

func (c *check) numbers() {
	for _, d := range []struct {
		key string
		val time.Duration
	}{
		{"connect_timeout", c.s.ConnectTimeout}, {"progress_timeout", c.s.ProgressTimeout}, {"keepalive_interval", c.s.KeepaliveInterval},
		{"relist_interval", c.s.RelistInterval},
		{"idle_timeout_seconds", c.s.IdleTimeout}, {"max_lifetime_seconds", c.s.MaxLifetime},
	} {
		if d.val < 0 {
			c.bad("must not be negative", d.key)
		}
	}
	if c.s.Lifecycle.IdleTimeout < 0 {
		c.bad("must not be negative", "lifecycle", "idle_timeout_seconds")
	}
	if c.s.Lifecycle.MaxLifetime < 0 {
		c.bad("must not be negative", "lifecycle", "max_lifetime_seconds")
	}
	if p, all := c.s.ProgressTimeout, c.s.callTimeout(nil); p > 0 && all > 0 && p >= all {
		c.advise(fmt.Sprintf("has no effect: timeout (%v) ends a call before", all), "progress_timeout")
	}
	if k := c.s.KeepaliveInterval; k > 0 && k < minInterval {
		c.bad(fmt.Sprintf("must be at least %v", minInterval), "keepalive_interval")
	}
	if r := c.s.RelistInterval; r > 0 && r < minInterval {
		c.bad(fmt.Sprintf("must be at least %v", minInterval), "relist_interval")
	}
	c.within("max_concurrency", c.s.MaxConcurrency, 1, maxConcurrency)
	c.within("max_processes", c.s.MaxProcesses, 1, maxProcesses)
	c.within("max_message_bytes", c.s.MaxMessageBytes, minMessageBytes, maxMessageBytes)
}

// within checks a number whose zero is that nobody set it.
func (c *check) within(key string, n, low, high int) {
	if n != 0 && (n < low || n > high) {
		c.bad(fmt.Sprintf("must be from %d to %d", low, high), key)
	}
}

// Words that the settings know, apart from the empty one.
var (
	protocols  = []string{"auto", "modern", "stateless", VersionModern, "legacy", "handshake"}
	transports = []string{"http", "streamable-http", "stdio", "sse"}
	auths      = []string{"none", "header", "oauth"}
	trusts     = []string{"full", "untrusted"}
)

func (c *check) words() {
	for _, w := range []struct {
		key, val string
		known    []string
	}{
		{"protocol", c.s.Protocol, protocols},
		{"transport", c.s.Transport, transports},
		{"auth", c.s.Auth, auths},
		{"trust", c.s.Trust, trusts},
		{"serialize", c.s.Serialize, []string{"process"}},
		{"isolation", c.s.Isolation, []string{"shared", "per_caller", "per_session"}},
		{"on_down", c.s.OnDown, []string{"keep", "hide"}},
	} {
		if w.val != "" && !slices.Contains(w.known, w.val) {
			c.bad(fmt.Sprintf("unknown value, use one of %s", strings.Join(w.known, ", ")), w.key)
		}
	}
	switch {
	case c.s.Transport == "stdio" && c.s.URL != "":
		c.bad(`is "stdio", but the server has a url`, "transport")
	case c.s.Transport != "" && c.s.Transport != "stdio" && c.s.Command != "":
		c.bad("is for a url, but the server has a command", "transport")
	}
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
