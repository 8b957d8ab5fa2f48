package upstream

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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
	how := ""
	for _, command := range []string{s.Command, real} {
		if how = runsText(command, s.Args); how != "" {
			break
		}
	}
	if how == "" {
		return nil
	}
	if word, does := suspicious(s.Command); word != "" {
		return setting(refusedEntry(how, word, does), "command")
	}
	for i, a := range s.Args {
		if word, does := suspicious(a); word != "" {
			return setting(refusedEntry(how, word, does), "args", strconv.Itoa(i))
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

// shells run text.
var shells = words("bash sh zsh dash ash ksh fish csh tcsh mksh rbash cmd powershell pwsh")

// wrappers run another program, which stands somewhere among their arguments.
var wrappers = words(`env busybox toybox sudo doas su runuser nohup nice ionice timeout gtimeout setsid stdbuf time
	xargs chroot unshare nsenter setpriv script flock watch unbuffer tini dumb-init gosu su-exec chpst catchsegv
	systemd-run caffeinate arch taskset exec command`)

// An interpreter runs text where an option says so.
type interpreter struct {
	code  string // the options with text
	value string // other options that take the word behind them
}

var interpreters = map[string]interpreter{
	"python": {code: "-c", value: "-W -X --check-hash-based-pycs"},
	"node":   {code: "-e --eval -p --print -pe", value: "-r --require --import --loader --experimental-loader -C --conditions --env-file"},
	"nodejs": {code: "-e --eval -p --print -pe", value: "-r --require --import"},
	"bun":    {code: "-e --eval -p --print", value: "-r --preload --cwd"},
	"deno":   {code: "eval"},
	"perl":   {code: "-e -E", value: "-I"},
	"ruby":   {code: "-e", value: "-I -r"},
	"php":    {code: "-r -B -R -E --run", value: "-c -d"},
	"lua":    {code: "-e", value: "-l"},
	"osascript": {
		code: "-e", value: "-l",
	},
	"npx": {code: "-c --call", value: "-p --package"},
}

func words(s string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

// runsText says how a command line runs text as a program, or nothing where it
// does not.
func runsText(command string, args []string) string {
	line := strings.Fields(command) // a whole line for a shell, as some write it
	if len(line) == 0 {
		return ""
	}
	for _, name := range []string{program(command), program(line[0])} {
		if shells[name] {
			return fmt.Sprintf("the command is a shell (%s)", name)
		}
		rest := append(line[1:len(line):len(line)], args...)
		if in, ok := interpreters[name]; ok && in.givenText(rest) {
			return fmt.Sprintf("%s is given text to run", name)
		}
		if wrappers[name] {
			if inner := wrapped(rest); inner != "" {
				return fmt.Sprintf("%s runs %s", name, inner)
			}
		}
	}
	return ""
}

// versioned is what programs have behind their names: python3.12, bash-5.2.
var versioned = regexp.MustCompile(`[-.0-9]+$`)

// program is the bare name of a program.
func program(path string) string {
	name := filepath.Base(strings.ReplaceAll(path, `\`, "/"))
	name = strings.TrimSuffix(strings.ToLower(name), ".exe")
	return versioned.ReplaceAllString(name, "")
}

// wrapped finds what a wrapper runs. Its own options are not told apart from the
// program: a word that is a shell's name is taken for one.
func wrapped(args []string) string {
	for i, a := range args {
		for _, w := range strings.Fields(a) { // env -S has a whole line in one argument
			name := program(w)
			if shells[name] {
				return "a shell (" + name + ")"
			}
			if in, ok := interpreters[name]; ok && in.givenText(args[i+1:]) {
				return name + " with text to run"
			}
		}
	}
	return ""
}

// givenText reports whether one of the options before the first operand has text.
func (in interpreter) givenText(args []string) bool {
	code, value := strings.Fields(in.code), words(in.value)
	for i := 0; i < len(args); i++ {
		a := args[i]
		for _, c := range code {
			if a == c || strings.HasPrefix(a, "--") && strings.HasPrefix(a, c+"=") || cluster(a, c) {
				return true
			}
		}
		if !strings.HasPrefix(a, "-") {
			return false
		}
		if value[a] {
			i++
		}
	}
	return false
}

// cluster reports whether a is short options in one word of which the first or the
// last is opt: python's -Ic, perl's -ne, or -c with its text behind it.
func cluster(a, opt string) bool {
	if len(opt) != 2 || len(a) < 3 || a[0] != '-' || a[1] == '-' {
		return false
	}
	letters := strings.IndexFunc(a[1:], func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') }) < 0
	return a[1] == opt[1] || letters && a[len(a)-1] == opt[1]
}
