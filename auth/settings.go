package auth

import (
	"strings"
	"time"
)

// IdentityHeader is one header that tells an upstream who calls.
type IdentityHeader struct {
	Name string `yaml:"name"`
	// ValueFrom is static (also when empty) or profile.
	ValueFrom string `yaml:"value_from"`
	// Value is sent verbatim when ValueFrom is static.
	Value string `yaml:"value"`
}

// OAuth is the oauth block of one server.
type OAuth struct {
	ClientID                string        `yaml:"client_id"`
	ClientSecret            string        `yaml:"client_secret"`
	ClientName              string        `yaml:"client_name"`
	Scope                   string        `yaml:"scope"`
	RedirectPort            int           `yaml:"redirect_port"`
	RedirectURI             string        `yaml:"redirect_uri"`
	RedirectHost            string        `yaml:"redirect_host"`
	TokenEndpointAuthMethod string        `yaml:"token_endpoint_auth_method"`
	ApplicationType         string        `yaml:"application_type"`
	ClientMetadataURL       string        `yaml:"client_metadata_url"`
	CIMD                    *bool         `yaml:"cimd"`
	UserAgent               string        `yaml:"user_agent"`
	Timeout                 time.Duration `yaml:"timeout"`
	Flow                    string        `yaml:"flow"`
	AcceptMissingISS        string        `yaml:"accept_missing_iss"`
	// AllowHosts are hosts, addresses and networks of authorization servers that may
	// be private. An entry that begins with http:// allows plain HTTP, too.
	AllowHosts []string `yaml:"allow_hosts,stringorlist"`
	// Grant is how tokens are got: by a person (authorization_code, also if empty),
	// client_credentials, or jwt_bearer.
	Grant string `yaml:"grant"`
	// PrivateKeyFile signs what proves who the client is; its kid and algorithm are
	// the two that follow. AssertionFile is such a proof, ready made.
	PrivateKeyFile    string `yaml:"private_key_file"`
	PrivateKeyID      string `yaml:"private_key_id"`
	SigningAlgorithm  string `yaml:"signing_algorithm"`
	AssertionFile     string `yaml:"assertion_file"`
	AssertionAudience string `yaml:"assertion_audience"`
	// AuthorizeParams are further parameters of the URL that a person visits.
	AuthorizeParams map[string]string `yaml:"authorize_params"`
}

// Credentials is how what logins bring is kept in the state directory.
type Credentials struct {
	// KeyFile, if set, holds the key that it is encrypted with: 32 bytes, as they
	// are, in base64 or in hexadecimal.
	KeyFile string `yaml:"key_file"`
	// SeedDir, if set, is a directory that is only read, such as a mounted
	// Kubernetes secret, with files as they stand in the state directory.
	SeedDir string `yaml:"seed_dir"`
}

// Validate reports what is wrong. It opens nothing.
func (c *Credentials) Validate(rep func(key, msg string)) {
	for _, f := range []struct{ key, path string }{{"key_file", c.KeyFile}, {"seed_dir", c.SeedDir}} {
		if strings.ContainsRune(f.path, 0) {
			rep(f.key, "holds a NUL byte")
		}
	}
}

// Settings is the auth block: who may call us.
type Settings struct {
	// TokenFile holds the bearer tokens that TCP listeners demand, one a line.
	// If empty, a token is made in the state directory at the first start.
	TokenFile string `yaml:"token_file"`
	// AllowedHosts are further values of the Host header, as host or host:port.
	// Loopback names and the listen address always pass.
	AllowedHosts []string `yaml:"allowed_hosts,stringorlist"`
	// AllowedOrigins are exact web origins that browsers may call from.
	AllowedOrigins []string `yaml:"allowed_origins,stringorlist"`
}
