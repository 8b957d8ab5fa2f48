package config

import "fmt"

// claudeState reports whether a JSON file is what Claude Code keeps about itself.
func claudeState(root *node) bool {
	if root.get("numStartups") != nil || root.get("firstStartTime") != nil {
		return true
	}
	return projectServers(root) > 0
}

// projectServers counts the servers that Claude Code keeps by project.
func projectServers(root *node) (n int) {
	projects := root.get("projects")
	if projects == nil {
		return 0
	}
	for _, p := range projects.pairs {
		if s := p.val.get("mcpServers"); s != nil {
			n += len(s.pairs)
		}
	}
	return n
}

// noUserServers says what to do with a file of Claude Code that has no servers to
// read.
func (f *file) noUserServers() Fault {
	msg := "this is Claude Code's own file, and it has no mcpServers at its top level"
	if n := projectServers(f.root); n > 0 {
		msg += fmt.Sprintf("; what it keeps under projects (%s) is not read", count(n, "server"))
	}
	return f.whole(msg + `: copy the "mcpServers" of the project into a file of its own, such as .mcp.json, and name that one`)
}
