package upstream

import "syscall"

// nofollow refuses files that are symbolic links.
const nofollow = syscall.O_NOFOLLOW
