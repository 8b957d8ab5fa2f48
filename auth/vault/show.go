package vault

import (
	"fmt"
	"log/slog"
)

// Format shows what an entry has and none of its secrets, whatever the verb.
func (e Entry) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "credentials{server: %q, issuer: %q, access: %t, refresh: %t, client: %t}",
		e.Server, e.Issuer, e.Access != "", e.Refresh != "", e.Client != nil)
}

// LogValue is what a log shows of an entry.
func (e Entry) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(e)) }

// Format shows whose a client is and none of its secrets, whatever the verb.
func (c Client) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "client{kind: %q, issuer: %q, secret: %t}", c.Kind, c.Issuer, c.Secret != "")
}

// LogValue is what a log shows of a client.
func (c Client) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(c)) }
