// Package vault keeps OAuth credentials on disk: a directory for each profile, a
// file for each server.
package vault

import (
	"encoding/json"
	"log/slog"
	"time"
)

// A Vault is the directory of one profile's credentials.
type Vault struct {
	// Dir is made, 0700, when something is first saved.
	Dir string
	// Seed, if set, is a directory that is only read, for servers that Dir has
	// nothing of: a mounted Kubernetes secret.
	Seed string
	// Key, if set, encrypts what is kept; 32 bytes.
	Key []byte
	// Log may be nil.
	Log *slog.Logger
}

// An Entry is all that is kept for one server.
type Entry struct {
	Server, URL string
	// Issuer is whose the tokens are.
	Issuer                       string
	Access, Type, Refresh, Scope string
	Expiry                       time.Time // of Access; zero: not known
	Client                       *Client   // nil when none is known
	// Provider is the authorization server's metadata, as whoever keeps it wants it.
	Provider json.RawMessage
	// RefusedDocument is true when the issuer refused the client id metadata document.
	RefusedDocument bool
	Updated         time.Time
}

// A Client is who we are to one issuer.
type Client struct {
	ID, Secret, AuthMethod string
	SecretExpires          time.Time
	RedirectURIs           []string
	Kind, Issuer           string
}
