package upstream

import (
	"errors"
	"strings"
)

// A SettingError is what keeps one setting of a server from being used.
type SettingError struct {
	// Path leads from the server's entry to the setting: headers, X-Key.
	Path []string
	Err  error
}

func (e *SettingError) Error() string { return strings.Join(e.Path, ".") + ": " + e.Err.Error() }

func (e *SettingError) Unwrap() error { return e.Err }

// setting is an error of the setting at path. The text of err does not name it.
func setting(err error, path ...string) error {
	return &SettingError{Path: path, Err: err}
}

// SettingErrors are all that Resolve found at once. They print on one line, as
// logs and answers to agents want it.
type SettingErrors []*SettingError

func (l SettingErrors) Error() string {
	texts := make([]string, len(l))
	for i, e := range l {
		texts[i] = e.Error()
	}
	return strings.Join(texts, "; ")
}

func (l SettingErrors) Unwrap() []error {
	out := make([]error, len(l))
	for i, e := range l {
		out[i] = e
	}
	return out
}

// SettingFaults takes an error of Resolve apart. It returns nil when no setting
// is to blame.
func SettingFaults(err error) []*SettingError {
	var all SettingErrors
	if errors.As(err, &all) {
		return all
	}
	var one *SettingError
	if errors.As(err, &one) {
		return []*SettingError{one}
	}
	return nil
}
