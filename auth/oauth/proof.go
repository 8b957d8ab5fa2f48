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
func proofOf(s *Server) Proof {
	o := &s.Settings
	p := Proof{Grant: o.Grant, KeyFile: o.PrivateKeyFile, KeyID: o.PrivateKeyID, Algorithm: o.SigningAlgorithm,
		AssertionFile: o.AssertionFile, Audience: o.AssertionAudience}
	if p.Grant == grantPerson {
		p.Grant = ""
	}
	return p
}

// grantPerson is the grant that needs a person.
const grantPerson = "authorization_code"
