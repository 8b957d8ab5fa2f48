package upstream

import (
	"io/fs"
	"os"
	"syscall"
)

// nofollow refuses symbolic links, and does not wait for the other end of a pipe.
const nofollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// ownFile reports whether nobody but us, or root, can have written the file.
func ownFile(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().Perm()&0o022 == 0 && (int(st.Uid) == os.Geteuid() || st.Uid == 0)
}
