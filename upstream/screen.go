package upstream

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// Screen refuses an entry whose command is a shell that is told to reach the
// network, or to touch what survives a restart of the machine: that is what an
// entry looks like which somebody slipped into a configuration. It reads settings
// as they are written or resolved, opens nothing, and is a tripwire: a script in a
// file, or a word that is put together at run time, passes.
//
// What it refuses is told by word; the arguments may hold secrets. Screening false
// does not matter here: whoever asks decides.
func Screen(s *Settings) error { return screen(s, s.Command) }

// screen looks at the program under a further name, where a link hides the first.
func screen(s *Settings, real string) error {
	for _, command := range []string{s.Command, real} {
		for _, r := range readings(command, s.Args) {
			if err := r.screen(s); err != nil {
				return err
			}
			if r.all {
				return nil // others see no more
			}
		}
	}
	return nil
}

// screen looks at what a reading says is run.
func (r reading) screen(s *Settings) error {
	from, to := r.at, r.at+1
	if r.all {
		from, to = -1, len(s.Args)
	}
	for i := from; i < to; i++ {
		text, at := s.Command, []string{"command"}
		if i >= 0 {
			text, at = s.Args[i], []string{"args", strconv.Itoa(i)}
		}
		if word, does := suspicious(text); word != "" {
			return setting(refusedEntry(r.how, word, does), at...)
		}
	}
	return nil
}

// screen looks at what is about to be started.
func (r *Resolved) screen() error {
	real, err := filepath.EvalSymlinks(r.Command)
	if err != nil {
		real = r.Command
	}
	err = screen(r.Settings, real)
	if off := r.Settings.Screening; err != nil && off != nil && !*off {
		r.lifted, err = err, nil
	}
	return err
}

func refusedEntry(how, word, does string) error {
	return fmt.Errorf("refused by screening: %s, and %q %s; run the program without that, or set screening: false for this server", how, word, does)
}
