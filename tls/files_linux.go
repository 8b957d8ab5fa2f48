package tls

import (
	"io/fs"
	"syscall"
	"time"
)

// changed is when the file's inode last changed. No tool sets it back, as cp -p
// and tar do with the time of the last write.
func changed(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return time.Time{}
}
