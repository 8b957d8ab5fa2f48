package upstream

import (
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// A reading says that a command line runs text as a program.
type reading struct {
	how string
	all bool // any argument, and the command, may be or reach the text
	at  int  // else the argument that is it; if negative, the command
}

// A word is one of a command line, and where it comes from.
type word struct {
	s   string
	arg string // what it stands in
	at  int    // the argument's index; negative in the command
}

// readings says how a command line runs text; nothing where it does not.
func readings(command string, args []string) []reading {
	rest := make([]word, len(args))
	for i, a := range args {
		rest[i] = word{a, a, i}
	}
	first := word{command, command, -1}
	out := readLine(start{}, first, rest)
	if strings.ContainsFunc(command, unicode.IsSpace) { // a path with blanks
		out = append(out, readProgram(start{}, program(command), rest)...)
	}
	return out
}

// A start is how a program is started: by which other one, if any, and how many
// there are before it.
type start struct {
	by    string
	depth int
}

// maxRunners bounds the programs of which each is told from the arguments of the
// one before. Behind them any word may be a program.
const maxRunners = 8

func (s start) runs(what string) string {
	if s.by == "" {
		return "the command is " + what
	}
	return s.by + " runs " + what
}

// readLine reads a program and its arguments. The program may be a whole line, as
// some write it.
func readLine(st start, first word, rest []word) []reading {
	line := strings.Fields(first.s)
	if len(line) == 0 {
		return nil
	}
	if len(line) > 1 {
		var all []word
		for _, w := range line[1:] {
			all = append(all, word{w, first.arg, first.at})
		}
		rest = append(all, rest...)
	}
	return readProgram(st, program(line[0]), rest)
}

func readProgram(st start, name string, rest []word) []reading {
	if shells[name] {
		return []reading{{how: st.runs("a shell (" + name + ")"), all: true}}
	}
	e, known := evaluators[name]
	var out []reading
	if known {
		out = e.read(st.by, name, rest)
	}
	if isWrapper(name) {
		out = append(out, wrapped(name, rest)...)
	}
	if known && e.runs {
		out = append(out, e.inner(start{name, st.depth + 1}, rest)...)
	}
	return out
}

// inner reads what a runner of projects starts.
func (e *evaluator) inner(st start, args []word) []reading {
	_, i := e.scan(args)
	switch {
	case i < 0:
		return nil
	case st.depth > maxRunners:
		return wrapped(st.by, args[i:])
	}
	first := args[i]
	out := readLine(st, first, args[i+1:])
	if strings.ContainsAny(first.s, " \t\n") && strings.ContainsAny(first.s, ";|&<>$`(\n") {
		out = append(out, reading{how: st.by + " is given text to run", at: first.at})
	}
	return out
}

// wrapped finds what a wrapper runs. Its own options are not told apart from the
// program: a word that is a shell's name is taken for one.
func wrapped(by string, args []word) (out []reading) {
	flat := flatten(args)
	seen := map[string]bool{}
	for i, w := range flat {
		name := program(w.s)
		if shells[name] {
			return append(out, reading{how: start{by: by}.runs("a shell (" + name + ")"), all: true})
		}
		e, ok := evaluators[name]
		if !ok || seen[name] {
			continue
		}
		seen[name] = e.anywhere || e.mark != nil // it has looked at all that follows
		out = append(out, e.read(by, name, flat[i+1:])...)
	}
	return out
}

// flatten parts arguments into words: env -S has a whole line in one.
func flatten(args []word) (out []word) {
	for _, a := range args {
		text := strings.TrimPrefix(strings.TrimPrefix(a.s, "--split-string="), "-S")
		for w := range strings.FieldsSeq(text) {
			out = append(out, word{strings.Trim(w, `"'`), a.arg, a.at})
		}
	}
	return out
}

// read says how an evaluator is given text.
func (e *evaluator) read(by, name string, rest []word) []reading {
	how := name + " is given text to run"
	if by != "" {
		how = by + " runs " + name + " with text to run"
	}
	if e.mark != nil {
		return e.marked(how, rest)
	}
	if text, _ := e.scan(rest); text || e.always {
		return []reading{{how: how, all: true}}
	}
	return nil
}

func (e *evaluator) marked(how string, rest []word) (out []reading) {
	for _, w := range rest {
		if !e.mark.MatchString(w.arg) || relays(w.arg) {
			continue
		}
		if !e.narrow {
			return []reading{{how: how, all: true}}
		}
		if n := len(out); n == 0 || out[n-1].at != w.at {
			out = append(out, reading{how: how, at: w.at})
		}
	}
	return out
}

// scan reports whether an option of the program's own has text, and else where the
// operand is that ends them; it is negative if there is none.
func (e *evaluator) scan(args []word) (text bool, operand int) {
	in, left := len(e.sub) == 0, e.operands
	for i := 0; i < len(args); i++ {
		a := args[i].s
		if text = text || e.hasText(a); text && in {
			return true, -1
		}
		switch {
		case (a == "--" || e.ends[a]) && in && !e.anywhere && i+1 < len(args):
			return false, i + 1
		case e.value[a]:
			i++
			text = text || i < len(args) && e.isData(args[i].s)
		case strings.HasPrefix(a, "-"), e.pass[a], e.anywhere:
		case !in && e.sub[a]:
			in = true
		case left > 0:
			left--
		case !in:
			return false, -1
		default:
			return text, i
		}
	}
	return text && in, -1
}

// hasText reports whether an argument is text, or the option for it.
func (e *evaluator) hasText(a string) bool {
	for c := range e.code {
		if a == c || strings.HasPrefix(a, "--") && strings.HasPrefix(a, c+"=") || cluster(a, c) {
			return true
		}
	}
	return e.isData(a)
}

var dataURL = regexp.MustCompile(`(?i)^(?:--?[\w-]+=)?data:\w`)

func (e *evaluator) isData(a string) bool { return e.data && dataURL.MatchString(a) }

// cluster reports whether a is short options in one word of which the first or the
// last is opt: python's -Ic, perl's -ne, or -c with its text behind it.
func cluster(a, opt string) bool {
	if len(opt) != 2 || len(a) < 3 || a[0] != '-' || a[1] == '-' {
		return false
	}
	letters := strings.IndexFunc(a[1:], func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') }) < 0
	return a[1] == opt[1] || letters && a[len(a)-1] == opt[1]
}

// versioned is what programs have behind their names: python3.12, bash-5.2.
var versioned = regexp.MustCompile(`[-.0-9]+$`)

// program is the bare name of a program.
func program(path string) string {
	name := strings.ToLower(filepath.Base(strings.ReplaceAll(path, `\`, "/")))
	for _, ext := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, ext)
	}
	return versioned.ReplaceAllString(name, "")
}

// A proxy command that only makes a connection for SSH is an ordinary one, whatever
// key it names: a known program, without a second one and without a shell's signs.
var (
	relayLine = regexp.MustCompile(`(?i)^(?:-o|-c)?\s*(?:ProxyCommand|core\.sshCommand)\s*[\s=]\s*(?:exec\s+)?(?:[\w./-]*/)?` +
		"(?:nc|ncat|netcat|socat|ssh|connect|connect-proxy|corkscrew|cloudflared|aws|gcloud|az|tailscale)(?:\\s+[^;|&<>$()`\\\\'\"!\\n]*)?$")
	relayRuns = regexp.MustCompile(`\s-\w*[ec](?:\s|$)|-exec\b|(?i:exec:|system:|shell:|command[\s=].*command[\s=])`)
)

func relays(arg string) bool { return relayLine.MatchString(arg) && !relayRuns.MatchString(arg) }
