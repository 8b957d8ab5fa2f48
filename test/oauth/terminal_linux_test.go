//go:build npm

package oauth

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal.
func terminal() (in, keys *os.File, err error) {
	keys, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		in, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		keys.Close()
		return nil, nil, err
	}
	return in, keys, nil
}
