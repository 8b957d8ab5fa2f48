package oauth

import (
	"errors"
	"fmt"
	"strings"
)

// A LoginError says that a person has to act, mostly to log in.
type LoginError struct {
	Server, Reason string
	// Command is what helps; empty when no command does.
	Command string
	// Challenge is what the server said. After insufficient_scope its Scope is all
	// that a login should ask for, also what was granted before.
	Challenge Challenge
	// Permanent is true when the server still wants more after several logins with
	// the very scopes that it named.
	Permanent bool
	// Err, if not nil, is what the authorization server said.
	Err error
}

func (e *LoginError) Error() string {
	s := "server " + e.Server + ": oauth: "
	if e.Command == "" {
		return s + "not authorized: " + e.Reason
	}
	return s + "login needed: " + e.Reason + "; run: " + e.Command
}

func (e *LoginError) Unwrap() error { return e.Err }

func (h *held) login(reason string, c Challenge) *LoginError {
	e := &LoginError{Server: h.name, Reason: reason, Challenge: c}
	if !h.grant {
		e.Command = "mcp-sidecar login " + h.name
	}
	return e
}

// refusedBy tells what an authorization server said.
func (h *held) refusedBy(te *TokenError, what string, c Challenge) *LoginError {
	said := te.Code
	if said == "" {
		said = fmt.Sprintf("status %d", te.Status)
	}
	if te.Description != "" {
		said += ": " + te.Description
	}
	e := h.login(what+" ("+strings.TrimSuffix(said, ".")+")", c)
	e.Err = te
	return e
}

// isLogin returns the LoginError in err, or nil.
func isLogin(err error) *LoginError {
	var l *LoginError
	errors.As(err, &l)
	return l
}
