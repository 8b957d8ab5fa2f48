package oauth

// A Proof is how a server's client proves who it is without a secret, and whether
// it needs a person.
type Proof struct {
	// Grant is GrantClient or GrantJWT. If empty, a person logs in.
	Grant string
	// KeyFile is a private key in PEM that signs client assertions; KeyID is its
	// kid, if it has one. Algorithm is ES256, RS256, PS256 or EdDSA; if empty, what
	// fits the key.
	KeyFile, KeyID, Algorithm string
	// AssertionFile is a ready assertion, such as a Kubernetes service account
	// token, read again for each request.
	AssertionFile string
	// Audience is whom assertions are for. If empty, the issuer.
	Audience string
}

// proofOf is what a server's settings say of it.
var proofOf = func(*Server) Proof { return Proof{} }
