package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// A Provider is an authorization server, as discovered for one MCP server. As
// JSON it can be kept.
type Provider struct {
	// Issuer is exactly as in its metadata.
	Issuer string `json:"issuer"`
	Meta   *Meta  `json:"meta"`
	// Scopes are the scopes_supported of the protected resource.
	Scopes []string `json:"scopes,omitempty"`
	// Resource names what tokens are for (RFC 8707).
	Resource string `json:"resource"`
	// Legacy is true when the server has no protected resource metadata: it, or what
	// stands at its origin, is the authorization server, as MCP 2025-03-26 had it.
	Legacy bool `json:"legacy,omitempty"`
	// Defaults is true when there is no metadata at all and the endpoints are those
	// that MCP 2025-03-26 presumes.
	Defaults bool `json:"defaults,omitempty"`
}

// Meta is what the metadata of an authorization server says (RFC 8414, OpenID
// Connect Discovery, RFC 8628, RFC 9207), as far as it is used. Its URLs have
// been checked.
type Meta struct {
	Issuer                                     string   `json:"issuer"`
	AuthorizationEndpoint                      string   `json:"authorization_endpoint,omitempty"`
	TokenEndpoint                              string   `json:"token_endpoint"`
	RegistrationEndpoint                       string   `json:"registration_endpoint,omitempty"`
	DeviceAuthorizationEndpoint                string   `json:"device_authorization_endpoint,omitempty"`
	RevocationEndpoint                         string   `json:"revocation_endpoint,omitempty"`
	ScopesSupported                            []string `json:"scopes_supported,omitempty"`
	GrantTypesSupported                        []string `json:"grant_types_supported,omitempty"`
	TokenEndpointAuthMethodsSupported          []string `json:"token_endpoint_auth_methods_supported,omitempty"`
	TokenEndpointAuthSigningAlgValuesSupported []string `json:"token_endpoint_auth_signing_alg_values_supported,omitempty"`
	CodeChallengeMethodsSupported              []string `json:"code_challenge_methods_supported,omitempty"`
	ClientIDMetadataDocumentSupported          bool     `json:"client_id_metadata_document_supported,omitempty"`
	AuthorizationResponseIssParameterSupported bool     `json:"authorization_response_iss_parameter_supported,omitempty"`
}

// resourceMeta is what the metadata of a protected resource says (RFC 9728).
type resourceMeta struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported"`
}

const (
	maxDocument  = 256 << 10
	maxListed    = 200 // entries of a list in metadata
	maxListEntry = 256
)

// trim bounds the lists. What is no scope, method or grant is dropped.
func (m *Meta) trim() {
	for _, l := range []*[]string{&m.ScopesSupported, &m.GrantTypesSupported, &m.TokenEndpointAuthMethodsSupported,
		&m.TokenEndpointAuthSigningAlgValuesSupported, &m.CodeChallengeMethodsSupported} {
		*l = tokens(*l)
	}
}

// tokens are those of a list that may be scopes (RFC 6749, 3.3).
func tokens(list []string) []string {
	var out []string
	for _, s := range list {
		if s != "" && len(s) <= maxListEntry && !strings.ContainsFunc(s, notInScope) && len(out) < maxListed {
			out = append(out, s)
		}
	}
	return out
}

func notInScope(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }

// discoveryVersion goes with requests for metadata, as MCP 2025-03-26 wants it.
const discoveryVersion = "2025-11-25"

// A document is what stands at a well-known place.
type document struct {
	body []byte // nil: there is none
	// moved is true when the place redirected.
	moved bool
}

// fetch gets a JSON object. That there is none is no error: many servers answer
// 404 with a page, and some answer 200 with one.
func (s *Server) fetch(ctx context.Context, u *url.URL) (document, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return document{}, errURL
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("MCP-Protocol-Version", discoveryVersion)
	resp, err := s.do(req)
	if err != nil {
		return document{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch code := resp.StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		return document{}, statusError(code)
	case code != http.StatusOK:
		return document{}, nil
	}
	body, err := readBody(resp, maxDocument)
	if err != nil || !isObject(resp.Header, body) {
		return document{}, err
	}
	return document{body: body, moved: resp.Request != nil && resp.Request.URL.String() != u.String()}, nil
}

// isObject reports whether an answer is a JSON object, by its type and its look.
func isObject(h http.Header, body []byte) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	if kind == "text/html" {
		return false
	}
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) && json.Valid(body)
}

// do sends a request with the server's User-Agent. Its errors quote no URL, which
// may hold what is secret.
func (s *Server) do(req *http.Request) (*http.Response, error) {
	if ua := s.Settings.UserAgent; ua != "" {
		req.Header.Set("User-Agent", ua)
	}
	resp, err := s.HTTP.Do(req)
	if fault := (*url.Error)(nil); errors.As(err, &fault) {
		err = fault.Err
	}
	return resp, slow(err)
}

// A slowError says in one way what net/http says in several.
type slowError struct{ err error }

func (e *slowError) Error() string { return "no complete answer in time" }

func (e *slowError) Unwrap() error { return e.err }

func slow(err error) error {
	if t, ok := err.(interface{ Timeout() bool }); ok && t.Timeout() {
		return &slowError{err}
	}
	return err
}

// statusError is an HTTP status in words.
func statusError(code int) error {
	return fmt.Errorf("status %d %s", code, http.StatusText(code))
}

func readBody(resp *http.Response, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = fmt.Errorf("the answer is longer than %d KiB", most>>10)
	}
	return body, slow(err)
}

// decode reads an object. A member of the wrong type is as good as absent; what is
// needed is checked afterwards.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	if fault := (*json.UnmarshalTypeError)(nil); errors.As(err, &fault) {
		return nil
	}
	if err != nil {
		return errors.New("is not valid JSON") // the error may quote it
	}
	return nil
}
