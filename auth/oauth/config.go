// Package oauth gets and keeps tokens for MCP servers that want OAuth 2.1: it finds
// their authorization servers, registers, lets people log in, and refreshes.
package oauth

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

// A Server is one MCP server that wants OAuth, its references resolved.
type Server struct {
	// Name is that of its entry; credentials are kept under it.
	Name string
	// URL is the MCP endpoint, for which tokens are.
	URL      *url.URL
	Settings auth.OAuth
	// HTTP is for metadata and token requests. Guard.Client makes it.
	HTTP *http.Client
	// NoDocument is true when the authorization server refused the client id
	// metadata document before.
	NoDocument bool
	// Log may be nil.
	Log *slog.Logger
}

// Resource is the server's resource identifier (RFC 8707): its URL without
// fragment, scheme and host in lower case.
func (s *Server) Resource() string {
	u := *s.URL
	u.Fragment, u.RawFragment, u.User = "", "", nil
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	return u.String()
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}
