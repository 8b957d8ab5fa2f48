package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// envFile adds the variables of the file that VS Code's key names; env wins.
func (e *entry) envFile(n *node) {
	bad := func(msg string) {
		e.faults = append(e.faults, e.f.fault(n, join(append(e.path[:2:2], "envFile")...), msg))
	}
	if n.kind != text || strings.TrimSpace(n.text) == "" {
		bad("must be the path of a file")
		return
	}
	dir := filepath.Dir(e.f.path)
	v := upstream.Vars{Lookup: e.l.c.Lookup(DefaultProfile), Home: e.l.c.home, Workspace: e.l.c.Profile().Workspace}
	if base := filepath.Base(dir); v.Workspace == "" && (base == ".vscode" || base == ".cursor") {
		v.Workspace = filepath.Dir(dir)
	}
	path, err := v.Expand(strings.TrimSpace(n.text))
	if err != nil {
		bad(err.Error())
		return
	}
	vars, faults, warnings := readEnvFile(e.l.absFrom(dir, path), path)
	for _, f := range faults {
		bad(elsewhere(f))
	}
	e.l.warn(warnings...)
	for k, val := range e.s.Settings.Env {
		vars[k] = val
	}
	if len(faults) == 0 {
		e.s.Settings.Env = vars
	}
}

// elsewhere words a fault of another file for a line that has a place already.
func elsewhere(f Fault) string {
	if f.Line == 0 {
		return f.File + ": " + f.Msg
	}
	return fmt.Sprintf("%s: line %d %s", f.File, f.Line, f.Msg)
}
