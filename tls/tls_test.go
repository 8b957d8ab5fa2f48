package tls

import (
	"crypto/tls"
	"testing"
)

func TestClientConfig(t *testing.T) {
	c := ClientConfig()
	if c.MinVersion != tls.VersionTLS12 || c.InsecureSkipVerify {
		t.Errorf("got MinVersion %x, InsecureSkipVerify %v", c.MinVersion, c.InsecureSkipVerify)
	}
	if c == ClientConfig() {
		t.Error("the configuration is shared")
	}
}
