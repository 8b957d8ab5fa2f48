// Package config turns files, environment and flags into one valid value, and
// reports all that is wrong with them at once.
package config

import (
	"log/slog"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/proxy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// What holds where nothing is configured.
const (
	DefaultListen    = "127.0.0.1:8808"
	DefaultOpsListen = "127.0.0.1:8809"
	DefaultListWait  = 5 * time.Second
	// DefaultProfile is the only profile of this version.
	DefaultProfile = "default"
)

// Config is a valid configuration; defaults are filled in. It prints as a
// summary only: Effective shows the values, without the secrets.
type Config struct {
	// Files are the files that were read, as they were named. It may be empty.
	Files []string
	// Listen are the addresses of the MCP endpoint: host:port or unix:PATH.
	Listen []string
	// OpsListen is the address of the health endpoints. If empty, there are none.
	OpsListen     string
	Naming        string
	MaxNameLength int
	// ListWait bounds how long a list waits for first connects. If zero, it does
	// not wait.
	ListWait time.Duration
	// Servers are in the order of the files and of the entries in them.
	Servers []Server
	// Profiles holds the default profile, and no other in this version.
	Profiles map[string]proxy.Profile
	Auth     auth.Settings
	// Credentials says how logins at servers are kept. Its paths are absolute.
	Credentials auth.Credentials
	// InsecureNoAuth opens TCP listeners to every caller.
	InsecureNoAuth bool
	// Cleaning is whether texts from servers are cleaned for the model.
	Cleaning bool
	// Egress says how connections to servers leave; its references are not resolved.
	Egress egress.Settings
	Limits proxy.Limits
	// StateDir is where tokens and the like are kept. If empty, none is known.
	StateDir string
	Log      Log
	// Warnings are what deserves a word but stops nothing.
	Warnings []Fault

	env      map[string]string
	home     string
	files    []*file
	origins  map[string]string
	document *node // our own files, merged; nil when there is none
}

// A Server is one configured server.
type Server struct {
	Name     string
	Settings upstream.Settings
	// File, Line and Column say where the entry stands.
	File         string
	Line, Column int
	// Foreign is whether the file belongs to another program.
	Foreign bool
	// Err is what keeps this server, and only this one, from starting; nil when
	// nothing does. It has a line for every fault, with its place: see Faults.
	Err error

	file  *file
	node  *node
	block string // the key that the entry stands under
}

// Log says what is logged, and how.
type Log struct {
	// Level is debug, info (also when empty), warn or error.
	Level string `yaml:"level"`
	// Format is text (also when empty) or json.
	Format string `yaml:"format"`
}

// SlogLevel returns Level as log/slog has it.
func (l Log) SlogLevel() slog.Level {
	var level slog.Level
	if l.Level == "" || level.UnmarshalText([]byte(l.Level)) != nil {
		return slog.LevelInfo
	}
	return level
}

// Policy is the policy block as far as it has life.
type Policy struct {
	// Cleaning removes hidden characters from texts of servers. If nil, true.
	Cleaning *bool `yaml:"cleaning"`
}

// document is the top level of our own file, apart from mcp_servers.
type document struct {
	Listen        []string                 `yaml:"listen,stringorlist"`
	OpsListen     string                   `yaml:"ops_listen"`
	Naming        string                   `yaml:"naming"`
	MaxNameLength int                      `yaml:"max_name_length"`
	ListWait      *time.Duration           `yaml:"list_wait"`
	Profiles      map[string]proxy.Profile `yaml:"profiles"`
	Auth          auth.Settings            `yaml:"auth"`
	Credentials   auth.Credentials         `yaml:"credentials"`
	Policy        Policy                   `yaml:"policy"`
	Egress        egress.Settings          `yaml:"egress"`
	Limits        proxy.Limits             `yaml:"limits"`
	StateDir      string                   `yaml:"state_dir"`
	Log           Log                      `yaml:"log"`
}

// String keeps secrets out of logs.
func (c *Config) String() string { return "config with " + count(len(c.Servers), "server") }

// GoString keeps secrets out of logs.
func (c *Config) GoString() string { return c.String() }

// LogValue keeps secrets out of logs.
func (c *Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String keeps secrets out of logs.
func (s Server) String() string { return "server " + s.Name }

// GoString keeps secrets out of logs.
func (s Server) GoString() string { return s.String() }

// LogValue keeps secrets out of logs.
func (s Server) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Upstreams returns the servers as upstream wants them.
func (c *Config) Upstreams() []upstream.Server {
	out := make([]upstream.Server, len(c.Servers))
	for i := range c.Servers {
		s := &c.Servers[i]
		out[i] = upstream.Server{Name: s.Name, Settings: &s.Settings, Err: s.Err}
	}
	return out
}

// NoStateDir says why StateDir is empty, and what to do; it is empty when it is not.
func (c *Config) NoStateDir() string {
	switch {
	case c.StateDir != "":
		return ""
	case c.env["XDG_STATE_HOME"] != "":
		return "no state directory: HOME is not set and XDG_STATE_HOME is not an absolute path; give --state-dir DIR"
	}
	return "no state directory: neither HOME nor XDG_STATE_HOME is set; give --state-dir DIR"
}

// Profile returns the default profile.
func (c *Config) Profile() proxy.Profile { return c.Profiles[DefaultProfile] }

// WorkIn makes dir the workspace of profiles that name none: an agent that starts
// us on its standard input does so where it works.
func (c *Config) WorkIn(dir string) {
	for name, p := range c.Profiles {
		if p.Workspace == "" {
			p.Workspace = dir
			c.Profiles[name] = p
		}
	}
}

// Lookup returns how references of a profile's servers find variables: in the
// .env files beside the configuration, then in the environment. A variable that
// is empty counts as absent.
func (c *Config) Lookup(profile string) func(name string) (string, bool) {
	files := c.files
	return func(name string) (string, bool) { return c.find(files, name) }
}

// ServerLookup is Lookup for one server, which sees only the .env of its own file.
func (c *Config) ServerLookup(server string) func(name string) (string, bool) {
	var files []*file
	for i := range c.Servers {
		if c.Servers[i].Name == server {
			files = []*file{c.Servers[i].file}
		}
	}
	return func(name string) (string, bool) { return c.find(files, name) }
}

func (c *Config) find(files []*file, name string) (string, bool) {
	for _, f := range files {
		if v := f.vars.vars[name]; v != "" {
			return v, true
		}
	}
	v := c.env[name]
	return v, v != ""
}

// ProxyVars gives the references of the egress block their values.
func (c *Config) ProxyVars() upstream.Vars {
	return upstream.Vars{Lookup: c.Lookup(DefaultProfile), Home: c.home}
}

// Vars gives a server's references their values.
func (c *Config) Vars(server, profile string) upstream.Vars {
	return upstream.Vars{Lookup: c.ServerLookup(server), Home: c.home, Workspace: c.Profiles[profile].Workspace}
}
