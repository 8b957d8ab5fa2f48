package policy

import (
	"errors"
	"fmt"
	"slices"
)

const (
	maxPatterns   = 10_000
	maxPatternLen = 1 << 10
	// maxFiltered bounds the work of one decision: a longer name than any
	// pattern could spell out is filtered away.
	maxFiltered = 4 << 10
)

// A Filter decides which of a server's tools pass. A nil Filter passes all.
type Filter struct {
	include, exclude   *nameSet // nil when absent
	resources, prompts bool
	both               []string
	tools              Tools // as written, for Idle
}

// Compile checks all patterns and reports every fault at once.
func (t Tools) Compile() (*Filter, error) {
	include, err1 := compileSet("include", t.Include)
	exclude, err2 := compileSet("exclude", t.Exclude)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	f := &Filter{
		include:   include,
		exclude:   exclude,
		resources: t.Resources == nil || *t.Resources,
		prompts:   t.Prompts == nil || *t.Prompts,
		tools:     t,
	}
	if exclude != nil {
		f.both = intersect(t.Include, t.Exclude)
	}
	return f, nil
}

// Allow reports whether a tool passes, by the name that its server gave it. An
// include list is the only way in where there is one; else all but the excluded
// pass.
func (f *Filter) Allow(rawName string) bool {
	switch {
	case f == nil || f.include == nil && f.exclude == nil:
		return true
	case len(rawName) > maxFiltered:
		return false
	case f.include != nil:
		return f.include.has(rawName)
	}
	return !f.exclude.has(rawName)
}

// Resources reports whether the wrappers for resources are wanted.
func (f *Filter) Resources() bool { return f == nil || f.resources }

// Prompts reports whether the wrappers for prompts are wanted.
func (f *Filter) Prompts() bool { return f == nil || f.prompts }

// Both returns the entries that stand in include and in exclude, in the order
// of include. They pass, because exclude has no say beside include: a warning
// is due.
func (f *Filter) Both() []string {
	if f == nil {
		return nil
	}
	return f.both
}

// maxIdle bounds the work of Idle: patterns times names.
const maxIdle = 1_000_000

// Idle returns the entries of the list in force that match none of names: slips
// of the pen, more often than not. list is "include" or "exclude".
func (f *Filter) Idle(names []string) (list string, idle []string) {
	if f == nil {
		return "", nil
	}
	list, entries := "include", f.tools.Include
	if f.include == nil {
		list, entries = "exclude", f.tools.Exclude
	}
	if len(entries)*len(names) > maxIdle {
		return list, nil
	}
	for _, e := range entries {
		set := nameSet{exact: map[string]struct{}{}}
		set.add(e)
		if !slices.ContainsFunc(names, set.has) {
			idle = append(idle, e)
		}
	}
	return list, idle
}

// nameSet is a list of exact names and globs.
type nameSet struct {
	exact map[string]struct{}
	globs []glob
}

// compileSet returns nil for a nil list: absent is not the same as empty.
func compileSet(key string, list []string) (*nameSet, error) {
	if list == nil {
		return nil, nil
	}
	if len(list) > maxPatterns {
		return nil, fmt.Errorf("%s: %d entries, limit %d", key, len(list), maxPatterns)
	}
	s := &nameSet{exact: make(map[string]struct{}, len(list))}
	var errs []error
	for i, p := range list {
		if len(p) > maxPatternLen {
			errs = append(errs, fmt.Errorf("%s[%d]: %q… has %d bytes, limit %d", key, i, p[:32], len(p), maxPatternLen))
			continue
		}
		s.add(p)
	}
	return s, errors.Join(errs...)
}

// add keeps a glob as an exact name too, because a tool may be called just so.
func (s *nameSet) add(pattern string) {
	s.exact[pattern] = struct{}{}
	if isGlob(pattern) {
		s.globs = append(s.globs, compileGlob(pattern))
	}
}

func (s *nameSet) has(name string) bool {
	if _, ok := s.exact[name]; ok {
		return true
	}
	for _, g := range s.globs {
		if g.match(name) {
			return true
		}
	}
	return false
}

func intersect(a, b []string) []string {
	in := make(map[string]bool, len(b))
	for _, s := range b {
		in[s] = true
	}
	var both []string
	for _, s := range a {
		if in[s] {
			both = append(both, s)
			in[s] = false
		}
	}
	return both
}
