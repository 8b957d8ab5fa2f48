package upstream

import (
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
)

// Settings is one entry of mcp_servers as it is written: references such as
// ${VAR} are still in place, and are resolved anew at every connect.
type Settings struct {
	// Enabled false keeps the entry but never connects. If nil, true.
	Enabled *bool `yaml:"enabled"`

	// Command is the program of a stdio server. It is looked up on the child's
	// own PATH when it holds no path separator; ~ is expanded.
	Command string `yaml:"command"`
	// Args are handed to Command as they are, without a shell.
	Args []string `yaml:"args,args"`
	// Env is merged last over the child's baseline environment.
	Env map[string]string `yaml:"env"`
	// Cwd is the child's working directory. If empty, the sidecar's own.
	Cwd string `yaml:"cwd"`
	// InheritProxyEnv hands the proxy variables of the sidecar to the child.
	InheritProxyEnv bool `yaml:"inherit_proxy_env"`

	// URL is the endpoint of an HTTP server: http, https or http+unix.
	URL string `yaml:"url"`
	// Headers go out with every request to URL's origin and nowhere else.
	Headers map[string]string `yaml:"headers"`
	// Transport is "", "http", "streamable-http", "stdio" or "sse".
	Transport string `yaml:"transport"`
	// Protocol is auto (also when empty), modern, stateless or 2026-07-28,
	// legacy or handshake.
	Protocol string `yaml:"protocol"`
	// SkipPreflight is accepted; this implementation never probes with HEAD.
	SkipPreflight bool `yaml:"skip_preflight"`
	// StrictRedirectHeaders is accepted; cross-origin redirects are never followed.
	StrictRedirectHeaders bool `yaml:"strict_redirect_headers"`
	// SSLVerify is true (default), false, or the path of a CA bundle in PEM.
	SSLVerify SSLVerify `yaml:"ssl_verify"`
	// ClientCert is a combined PEM path, or [cert, key], or [cert, key, passphrase].
	ClientCert []string `yaml:"client_cert,stringorlist"`
	// ClientKey is the PEM path of the key when ClientCert names one path.
	ClientKey string `yaml:"client_key"`
	// IdentityHeader tells an HTTP server who calls.
	IdentityHeader *auth.IdentityHeader `yaml:"identity_header"`
	// Auth is "", "none", "header" or "oauth".
	Auth  string     `yaml:"auth"`
	OAuth auth.OAuth `yaml:"oauth"`

	// Builtin names an in-process server that the program registers.
	Builtin string `yaml:"builtin"`

	// Timeout bounds one call. If zero, 300s. If negative, there is no bound.
	Timeout time.Duration `yaml:"timeout"`
	// ConnectTimeout bounds one whole start: spawn or dial, handshake and probe.
	// If zero, 60s.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// KeepaliveInterval is the cadence of the liveness probe. If zero, 180s; at least 5s.
	KeepaliveInterval time.Duration `yaml:"keepalive_interval"`
	// IdleTimeout recycles a stdio server after so long without a call. If zero, never.
	IdleTimeout time.Duration `yaml:"idle_timeout_seconds"`
	// MaxLifetime recycles a stdio server at this age. If zero, never.
	MaxLifetime time.Duration `yaml:"max_lifetime_seconds"`
	// Lifecycle holds the same two keys; the ones above win.
	Lifecycle Lifecycle `yaml:"lifecycle"`
	// RelistInterval reads the lists again so often, for servers that never say
	// that they changed. If zero, never; at least 5s.
	RelistInterval time.Duration `yaml:"relist_interval"`
	// Lazy starts the server at its first call, from the cached schema.
	Lazy bool `yaml:"lazy"`

	// SupportsParallelToolCalls lets one agent session run several calls at once.
	SupportsParallelToolCalls bool `yaml:"supports_parallel_tool_calls"`
	// Serialize is "" or "process": one call at a time from anyone.
	Serialize string `yaml:"serialize"`
	// MaxConcurrency bounds the calls in flight. If zero, 64.
	MaxConcurrency int `yaml:"max_concurrency"`
	// Isolation is shared (also when empty), per_caller or per_session.
	Isolation string `yaml:"isolation"`
	// MaxProcesses bounds the processes of one stdio server: the one that most
	// calls share, and those for agents that can be asked. If zero, 4; if 1,
	// agents are not asked. With isolation it bounds the processes of agents, and
	// zero means 64.
	MaxProcesses int `yaml:"max_processes"`
	// MaxMessageBytes bounds one message from the server, after decompression.
	// If zero, 16 MiB.
	MaxMessageBytes int `yaml:"max_message_bytes"`
	// OnDown is keep (also when empty: tools stay listed) or hide.
	OnDown string `yaml:"on_down"`

	// Trust is full (also when empty) or untrusted.
	Trust string `yaml:"trust"`
	// Tools filters what the server contributes.
	Tools policy.Tools `yaml:"tools,tools"`
	// Naming overrides the naming template for this server.
	Naming string `yaml:"naming"`

	// Sampling, Elicitation and Roots limit what the server may ask of agents.
	Sampling    policy.Sampling    `yaml:"sampling"`
	Elicitation policy.Elicitation `yaml:"elicitation"`
	Roots       policy.Roots       `yaml:"roots"`
}

// SSLVerify says how a server's certificate is checked; zero is the system pool.
type SSLVerify struct {
	Off    bool
	CAFile string
}

// Lifecycle is the nested spelling of the two recycling keys.
type Lifecycle struct {
	IdleTimeout time.Duration `yaml:"idle_timeout_seconds"`
	MaxLifetime time.Duration `yaml:"max_lifetime_seconds"`
}
