package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Starts reports what would keep the server's process from starting, of what the
// machine decides: where it is to run, and the limits that we may not pass. Nothing
// is started. What is missing now may be there later, so this is a look and no more.
func (r *Resolved) Starts() error {
	if r.Command == "" {
		return nil
	}
	var errs SettingErrors
	if err := directory(r.Dir); err != nil {
		errs = append(errs, &SettingError{Path: []string{"cwd"}, Err: fmt.Errorf("%q: %w", clip(r.Dir), err)})
	}
	for _, l := range r.Settings.Rlimits.list() {
		if one := (*SettingError)(nil); errors.As(allowed([]rlimit{l}), &one) {
			errs = append(errs, one)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &Error{Server: r.Server, Kind: Config, Err: &placeError{errs}}
}

// A placeError is what Starts found.
type placeError struct{ error }

func (e *placeError) Unwrap() error { return e.error }

// errNoDir is of what is there, and no directory.
var errNoDir = errors.New("is no directory")

// directory says why a process cannot start in dir; empty is our own.
func directory(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such directory")
	case err != nil:
		return bareCause(err)
	case !info.IsDir():
		return errNoDir
	}
	return nil
}
