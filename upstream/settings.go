package upstream

import (
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/egress"
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
	// Rlimits bound the processes of a stdio server. If zero, they are as ours.
	Rlimits Rlimits `yaml:"rlimits"`
	// Screening false starts a command that Screen refuses. If nil, true.
	Screening *bool `yaml:"screening"`

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

	// Egress says how connections leave: through which proxy for a url, and what a
	// command's process may reach.
	Egress egress.Server `yaml:"egress"`

	// Builtin names an in-process server that the program registers.
	Builtin string `yaml:"builtin"`

	// Timeout bounds one call. If zero, 300s. If negative, there is no bound.
	Timeout time.Duration `yaml:"timeout"`
	// ProgressTimeout bounds the wait for news of a call: progress and log messages
	// begin it anew, up to Timeout in all. If zero, there is no such bound.
	ProgressTimeout time.Duration `yaml:"progress_timeout"`
	// ConnectTimeout bounds one whole start: spawn or dial, handshake and probe.
	// If zero, 60s.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// KeepaliveInterval is the cadence of the liveness probe. If zero, 180s; at least 5s.
	KeepaliveInterval time.Duration `yaml:"keepalive_interval"`
	// KeepaliveTimeout bounds the answer to one probe. If zero, 30s.
	KeepaliveTimeout time.Duration `yaml:"keepalive_timeout"`
	// IdleTimeout recycles a stdio server after so long without a call. If zero, never.
	IdleTimeout time.Duration `yaml:"idle_timeout_seconds"`
	// MaxLifetime recycles a stdio server at this age. If zero, never.
	MaxLifetime time.Duration `yaml:"max_lifetime_seconds"`
	// Lifecycle holds the same two keys, which the ones above win over, and how a
	// connection that failed is made again.
	Lifecycle Lifecycle `yaml:"lifecycle"`
	// Breaker keeps calls from a server that fails them one after the other.
	Breaker Breaker `yaml:"breaker"`
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
	// MaxQueue bounds the calls that wait for one of these places. If zero, 256; if
	// negative, none waits.
	MaxQueue int `yaml:"max_queue"`
	// QueueWait bounds how long a call waits for a place. If zero, 30s.
	QueueWait time.Duration `yaml:"queue_wait"`
	// MaxInFlightBytes bounds what the server's requests and answers take of memory
	// at one moment. If zero, 128 MiB; a single message may always have its own limit.
	MaxInFlightBytes int `yaml:"max_in_flight_bytes"`
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

// Lifecycle says how long a connection lives, and how it is made again. Numbers
// without another source are those of Hermes Agent.
type Lifecycle struct {
	// IdleTimeout and MaxLifetime are the nested spelling of the two recycling keys.
	IdleTimeout time.Duration `yaml:"idle_timeout_seconds"`
	MaxLifetime time.Duration `yaml:"max_lifetime_seconds"`
	// ConnectRetries is how often a first connect that failed is tried again before
	// the server is parked. If zero, 3; if negative, it is parked at once.
	ConnectRetries int `yaml:"connect_retries"`
	// ReconnectRetries is the same for a connection that was lost. If zero, 5.
	ReconnectRetries int `yaml:"reconnect_retries"`
	// RetryPause is the pause before the first of them; it doubles up to
	// RetryPauseMax. If zero, 1s and 60s.
	RetryPause    time.Duration `yaml:"retry_pause"`
	RetryPauseMax time.Duration `yaml:"retry_pause_max"`
	// ProbeInterval is how often a parked server, or one that wants a login, is
	// tried. If zero, 300s.
	ProbeInterval time.Duration `yaml:"probe_interval"`
	// WakeWait bounds how long a call waits for a connection that is being made
	// again. If zero, 15s.
	WakeWait time.Duration `yaml:"wake_wait"`
	// StopGrace is how long a process may take to end when its input closes, and
	// again after SIGTERM. If zero, 2s.
	StopGrace time.Duration `yaml:"stop_grace"`
}

// Breaker is the breaker block of one server.
type Breaker struct {
	// Failures is how many calls must fail in a row. If zero, 3; if negative, there
	// is no breaker.
	Failures int `yaml:"failures"`
	// Open is how long no call passes then, unless a probe shows before that the
	// server is well. If zero, 60s.
	Open time.Duration `yaml:"open"`
	// ProbeTimeout bounds the one call that is let through afterwards. If zero, 10s.
	ProbeTimeout time.Duration `yaml:"probe_timeout"`
}
