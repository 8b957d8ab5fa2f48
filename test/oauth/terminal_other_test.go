//go:build npm && !linux

package oauth

import "os"

// terminal is a pipe where no pseudo-terminal is opened.
func terminal() (in, keys *os.File, err error) { return os.Pipe() }
