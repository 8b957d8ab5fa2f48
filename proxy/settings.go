package proxy

import "time"

// Limits bound what agents and answers may cost. Zero means the default.
type Limits struct {
	// RequestBytes bounds one message from an agent. If zero, 16 MiB.
	RequestBytes int `yaml:"request_bytes"`
	// InFlightBytes bounds all messages from agents that are held at once;
	// newcomers wait. One caller gets at most half of it, or one message; up to an
	// eighth is kept for messages of at most 64 KiB. If zero, 256 MiB.
	InFlightBytes int `yaml:"in_flight_bytes"`
	// Depth bounds the nesting of a message from an agent. If zero, 128.
	Depth int `yaml:"depth"`
	// Sessions bounds the live sessions of legacy agents; idle ones make room for
	// new ones. If zero, 1000.
	Sessions int `yaml:"sessions"`
	// SessionIdle ends a session that neither asked nor listened. If zero, 1h.
	SessionIdle time.Duration `yaml:"session_idle"`
	// Connections bounds the TCP connections of one listener. If zero, 1000.
	Connections int `yaml:"connections"`
	// PageBytes bounds one page of a list. If zero, 4 MiB.
	PageBytes int `yaml:"page_bytes"`
	// AnswerBytes bounds one answer to an agent; there are agents that hang up
	// over 10 MiB. If zero, 10 MiB less 64 KiB.
	AnswerBytes int `yaml:"answer_bytes"`
	// StreamQueue bounds the messages that wait for one slow reader, which weigh
	// 1 MiB at most besides. If zero, 256.
	StreamQueue int `yaml:"stream_queue"`
	// ReplayBytes bounds what one session keeps of its streams for an agent that
	// loses a connection and comes back within 5 minutes. If zero, 1 MiB.
	ReplayBytes int `yaml:"replay_bytes"`
	// Parked bounds the calls that have asked an agent of 2026-07-28 something and
	// are not over; at the limit a server's question is refused. If zero, 256.
	Parked int `yaml:"parked"`
	// ParkedPerCaller bounds those of one caller. If zero, 32.
	ParkedPerCaller int `yaml:"parked_per_caller"`
	// ParkedTime bounds the wait for an agent's next request. If zero, 10m.
	ParkedTime time.Duration `yaml:"parked_time"`
}

// Profile is one entry of profiles: a view that agents get.
type Profile struct {
	// Servers names the servers of the profile. If nil, all of them.
	Servers []string `yaml:"servers,stringorlist"`
	// Naming overrides the naming template.
	Naming string `yaml:"naming"`
	// MaxNameLength overrides the limit of exposed names. If zero, the top level's.
	MaxNameLength int `yaml:"max_name_length"`
	// Reserve is taken off the limit, for agents that prefix names again.
	Reserve int `yaml:"reserve"`
	// UtilityTools adds list_resources and its like per server. If nil, true.
	UtilityTools *bool `yaml:"utility_tools"`
	// Prefer decides collisions across servers: the first named wins.
	Prefer []string `yaml:"prefer,stringorlist"`
	// Workspace is what ${workspaceFolder} means in this profile.
	Workspace string `yaml:"workspace"`
}
