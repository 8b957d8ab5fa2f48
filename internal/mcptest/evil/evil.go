// Package evil holds MCP servers and proxies that fail, each in one way of its
// own, and are good in everything else.
//
// A fault shows from the start of the server, or when its tool misbehave is
// called. Whatever floods, hangs or refuses to die comes to an end by itself, and
// nobody listens beyond loopback.
package evil

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A Transport says how the server of a fault is reached.
type Transport string

// The transports. A proxy is no server: it stands between.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
	HTTPS Transport = "https"
	Proxy Transport = "proxy"
)

// The groups of faults.
const (
	Pipes    = "S" // of servers behind a pipe
	Web      = "U" // of servers behind HTTP
	TLS      = "T" // of certificates and handshakes
	Egress   = "P" // of proxies on the way out
	Reported = "R" // what users of gateways and agents report
)

// A Fault is one way to fail.
type Fault struct {
	// ID names it, such as S4a: group, number and variant.
	ID string
	// Group is the first letter of most IDs.
	Group string
	// Says is what the server does.
	Says string
	// Transport is how it is reached.
	Transport Transport
	// Start is true when the server is bad from its start, false when the tool
	// misbehave makes it so.
	Start bool
	// Fine is true when its calls must be answered all the same.
	Fine bool

	versions []string // what the server speaks; nil means all of both eras
	tools    func() []string
	pipe     pipeFault
	web      webFault
	serve    func(*Server, net.Conn) // instead of any HTTP
	secure   secureFault
}

// A pipeFault is what a stdio server does otherwise; nil members do nothing.
type pipeFault struct {
	start func(*Pipe)                          // before anything is read
	line  func(*Pipe, *mcptest.Message) bool   // sees each message; true if that was all
	call  func(*Pipe, *mcptest.Message) string // misbehave: a member that answers, or "" for none
	out   func([]byte) []byte                  // sees each line that goes out
	stays bool                                 // outlives SIGTERM and the end of its input
}

// A webFault is what an HTTP server does otherwise.
type webFault struct {
	call   mcptest.Fault                                          // misbehave, or each POST with Always
	get    http.HandlerFunc                                       // instead of GET
	around func(*Server, http.ResponseWriter, *http.Request) bool // sees each request; true if that was all
	closed bool                                                   // nobody listens
}

// Faults are all of them, by group and number.
func Faults() []Fault {
	return slices.Concat(pipeFaults(), listFaults(), webFaults(), streamFaults(), sessionFaults(), secureFaults(), proxyFaults(), reportedFaults())
}

// Find returns the fault with an ID.
func Find(id string) (*Fault, error) {
	all := Faults()
	if i := slices.IndexFunc(all, func(f Fault) bool { return f.ID == id }); i >= 0 {
		return &all[i], nil
	}
	return nil, fmt.Errorf("no fault %q", id)
}

// The bounds of what a fault may do.
const (
	floodFor  = 3 * time.Second  // how long a flood lasts
	hangFor   = 60 * time.Second // and how long something hangs, or refuses to die
	floodMost = 256 << 20        // bytes of an answer without end
)

// A Server is one server, or proxy, with one fault.
type Server struct {
	Fault *Fault
	// Journal keeps what it saw and did, across restarts.
	Journal Journal
	// Always has an HTTP server fail each request as it would a call of misbehave.
	Always bool

	good  *mcptest.Upstream
	url   string // of an HTTP server, once it listens
	other string // another origin, which notes what it gets
	web   webState
}

// NewServer returns a server with this fault, whose journal is in dir.
func NewServer(f *Fault, dir string) *Server {
	s := &Server{Fault: f, Journal: Journal{dir}}
	s.good = &mcptest.Upstream{Versions: f.versions, Info: `{"name":"evil","version":"` + f.ID + `"}`, Tools: slices.Clone(goodTools)}
	if f.tools != nil {
		s.good.Tools = append(s.good.Tools, f.tools()...)
	}
	return s
}
