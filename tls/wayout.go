package tls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"
)

// WayOut says what can be done about a connection that failed for TLS, in the words
// of the configuration; empty when the error is of another kind. roots is the key
// that names a bundle for this peer, such as ssl_verify, and c what it was met with.
func WayOut(err error, roots string, c Client) string {
	var unknown x509.UnknownAuthorityError
	var system x509.SystemRootsError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case (errors.As(err, &unknown) || errors.As(err, &system)) && c.CAFile != "":
		return "the bundle of " + roots + " does not hold who signed it"
	case errors.As(err, &unknown), errors.As(err, &system):
		return "if who signed it is known, trust that with " + roots + ": /path/to/ca.pem"
	case errors.As(err, &host):
		return "write the name that the certificate is for, or have it issued for this one"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return outOfTime(invalid.Cert)
	case errors.As(err, &record):
		return "no TLS is spoken there: write http:, or the port of https"
	}
	return c.refused(err)
}

func outOfTime(cert *x509.Certificate) string {
	if cert != nil && time.Now().Before(cert.NotBefore) {
		return "the clock of this machine is behind, or the certificate is for later"
	}
	return "the other side has to renew it, unless the clock of this machine is wrong"
}

// refused reads what the other side said when it ended the handshake. Package tls
// exports no type for that; its texts are those of RFC 8446, section 6.
func (c Client) refused(err error) string {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" || op.Err == nil {
		return ""
	}
	switch op.Err.Error() {
	case "tls: certificate required", "tls: bad certificate", "tls: unsupported certificate", "tls: revoked certificate",
		"tls: expired certificate", "tls: unknown certificate", "tls: unknown certificate authority", "tls: access denied":
		if c.CertFile != "" {
			return "the other side does not take the certificate of client_cert: one that is valid and signed by whom it trusts is needed"
		}
		return "the other side wants a client certificate: set client_cert, and client_key if the key is in another file"
	case "tls: handshake failure": // of servers of TLS 1.2
		if c.CertFile != "" {
			return "the other side may not take the certificate of client_cert"
		}
		return "the other side may want a client certificate: client_cert"
	case "tls: protocol version not supported":
		return "the other side speaks no TLS 1.2 or newer, and older is never used"
	}
	return ""
}
