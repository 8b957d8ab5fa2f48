package upstream

import (
	"errors"
	"fmt"
)

// process looks at how a stdio server's process is started.
func (c *check) process() {
	c.rlimits()
	if on := c.s.Enabled; on == nil || *on {
		c.screening()
	}
}

// rlimits must be positive; what the machine allows shows at the start.
func (c *check) rlimits() {
	l := &c.s.Rlimits
	core := 0
	if l.Core != nil {
		core = *l.Core
	}
	for _, r := range []struct {
		key   string
		value int
	}{{"nofile", l.NoFile}, {"nproc", l.NProc}, {"as", l.AS}, {"cpu", l.CPU}, {"fsize", l.FSize}, {"core", core}} {
		if r.value < 0 {
			c.bad("must not be negative", "rlimits", r.key)
		}
	}
	if n := l.AS; n > 0 && n < minSpace {
		c.bad(fmt.Sprintf("is in bytes, and no program starts in less than %d", minSpace), "rlimits", "as")
	}
	if n := l.NoFile; n > 0 && n < minFiles {
		c.bad(fmt.Sprintf("must be at least %d", minFiles), "rlimits", "nofile")
	}
}

// minSpace is less than any program maps to begin with.
const minSpace = 1 << 20

// minFiles is what a program has open that has opened nothing yet, and one more to
// load itself.
const minFiles = 4

// screening keeps this server alone from starting. What references bring in is
// looked at again when it starts.
func (c *check) screening() {
	var at *SettingError
	if !errors.As(Screen(c.s), &at) {
		return
	}
	if s := c.s.Screening; s != nil && !*s {
		c.advise("is off; it would say of "+at.Path[0]+": "+at.Err.Error(), "screening")
		return
	}
	c.add(Pending, at.Err.Error(), at.Path...)
}
