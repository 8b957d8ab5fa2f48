//go:build !linux && !darwin

package tls

import (
	"io/fs"
	"time"
)

// changed is not known here; the time of the last write has to do.
func changed(fs.FileInfo) time.Time { return time.Time{} }
