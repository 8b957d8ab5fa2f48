//go:build npm

package parts

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// The addresses of the network of its own. None is loopback's, so that none is
// direct by rule; the hosts file there has the names.
const (
	toolsHost = "10.77.0.1"
	otherHost = "10.77.0.2"
	proxyHost = "10.77.0.3"
	exitHost  = "10.77.0.9" // proxies connect from here

	toolsName = "tools.corp.test"
	otherName = "other.corp.test"
	proxyName = "proxy.corp.test"
)

// insideEnv tells the test binary that it runs inside.
const insideEnv = "MCP_SIDECAR_PARTS_INSIDE"

// noNetwork is why there is no network of its own, or nothing.
var noNetwork string

// enterNetwork runs the test binary again, in the same process, in namespaces for
// its network and its mounts.
func enterNetwork() {
	if os.Getenv(insideEnv) != "" {
		os.Unsetenv(insideEnv)
		if err := furnish(); err != nil {
			noNetwork = err.Error()
		}
		return
	}
	path, err := exec.LookPath("unshare")
	if err != nil {
		noNetwork = err.Error()
		return
	}
	flags := []string{"--net", "--mount"}
	if os.Getuid() != 0 {
		flags = append(flags, "--user", "--map-root-user")
	}
	if out, err := exec.Command(path, append(flags, "true")...).CombinedOutput(); err != nil {
		noNetwork = fmt.Sprintf("unshare: %v: %s", err, out)
		return
	}
	exe, err := os.Executable()
	if err == nil {
		args := append(append([]string{"unshare"}, flags...), exe)
		err = syscall.Exec(path, append(args, os.Args[1:]...), append(os.Environ(), insideEnv+"=1"))
	}
	noNetwork = err.Error()
}

// furnish gives the network its addresses and names.
func furnish() error {
	hosts, err := os.CreateTemp("", "hosts")
	if err != nil {
		return err
	}
	defer os.Remove(hosts.Name())
	fmt.Fprintf(hosts, "127.0.0.1 localhost\n%s %s\n%s %s\n%s %s\n", toolsHost, toolsName, otherHost, otherName, proxyHost, proxyName)
	hosts.Close()
	os.Chmod(hosts.Name(), 0o644)
	commands := []string{"ip link set lo up", "mount --bind " + hosts.Name() + " /etc/hosts"}
	for _, addr := range []string{toolsHost, otherHost, proxyHost, exitHost} {
		commands = append(commands, "ip address add "+addr+"/32 dev lo")
	}
	for _, c := range commands {
		f := strings.Fields(c)
		if out, err := exec.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %v: %s", c, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// needsNetwork skips what cannot do without addresses of its own.
func needsNetwork(t *testing.T) {
	t.Helper()
	if noNetwork != "" {
		t.Skipf("needs a network namespace of its own: %s", noNetwork)
	}
}
