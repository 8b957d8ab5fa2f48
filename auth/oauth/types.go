package oauth

import "time"

// A Challenge is what an MCP server said with 401 or 403.
type Challenge struct {
	Status                                           int
	ResourceMetadata, Scope, Error, ErrorDescription string
}

// A Client is who we are to one authorization server.
type Client struct {
	ID, Secret string
	// AuthMethod is none, client_secret_post, client_secret_basic or private_key_jwt.
	AuthMethod    string
	SecretExpires time.Time // zero: never
	RedirectURIs  []string
	Kind          string // how it came about: see the Kind constants
	Issuer        string // whom it is known to
}

// The kinds of clients.
const (
	Configured = "configured" // oauth.client_id
	Document   = "document"   // a client id metadata document
	Registered = "registered" // dynamic registration
)

// A Token is what a token endpoint answered.
type Token struct {
	Access, Type, Refresh, Scope string
	Expiry                       time.Time // zero: not known
}
