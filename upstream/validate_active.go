package upstream

import (
	"fmt"
	"slices"
)

// tools bounds the filter; an unclosed [ is literal, so no glob is wrong.
func (c *check) tools() {
	before := len(c.faults)
	for _, l := range []struct {
		key   string
		items []string
	}{{"include", c.s.Tools.Include}, {"exclude", c.s.Tools.Exclude}} {
		if len(l.items) > maxItems {
			c.bad(fmt.Sprintf("more than %d items", maxItems), "tools", l.key)
		}
		for i, g := range l.items {
			if len(g) > maxGlobBytes {
				c.bad(fmt.Sprintf("longer than %d bytes", maxGlobBytes), "tools", l.key, fmt.Sprint(i))
			}
		}
	}
	if _, err := c.s.Tools.Compile(); err != nil && len(c.faults) == before {
		c.bad(err.Error(), "tools")
	}
	for i, name := range c.s.Tools.Exclude {
		if slices.Contains(c.s.Tools.Include, name) {
			c.advise("is in include too, and include wins", "tools", "exclude", fmt.Sprint(i))
		}
	}
}

// inactive names what is understood but has no life in this version yet.
func (c *check) inactive() {
	s := c.s
	if s.Enabled != nil && !*s.Enabled || s.whose()&^forURL != 0 { // others have no use for it: see fits
		return
	}
	for _, k := range s.quiet() {
		c.advise("has no effect without auth: oauth", k)
	}
}

// quiet lists the keys that are set and change nothing.
func (s *Settings) quiet() []string {
	var keys []string
	for _, k := range []struct {
		key  string
		used bool
	}{
		{"oauth", s.Auth != "oauth" && s.OAuth.Set()},
	} {
		if k.used {
			keys = append(keys, k.key)
		}
	}
	return keys
}
