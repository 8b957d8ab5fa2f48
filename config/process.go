package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// EnvPrefix begins the names of our environment variables.
const EnvPrefix = "MCP_SIDECAR_"

// Process is what can be set outside of any file: on the command line, or by
// variables that begin with MCP_SIDECAR_. Zero is "not set". The flag tag names
// the flag, the key tag the key of a file that it overrides.
type Process struct {
	Config         []string `env:"CONFIG" flag:"config"`
	Listen         []string `env:"LISTEN" flag:"listen" key:"listen"`
	OpsListen      string   `env:"OPS_LISTEN" flag:"ops-listen" key:"ops_listen"`
	TokenFile      string   `env:"TOKEN_FILE" flag:"token-file" key:"auth.token_file"`
	InsecureNoAuth *bool    `env:"INSECURE_NO_AUTH" flag:"insecure-no-auth"`
	StateDir       string   `env:"STATE_DIR" flag:"state-dir" key:"state_dir"`
	LogLevel       string   `env:"LOG_LEVEL" flag:"log-level" key:"log.level"`
	LogFormat      string   `env:"LOG_FORMAT" flag:"log-format" key:"log.format"`
	Workspace      string   `env:"WORKSPACE" flag:"workspace" key:"profiles.default.workspace"`
	Naming         string   `env:"NAMING" flag:"naming" key:"naming"`
}

// environ turns NAME=value entries into a map; the last one wins, as in a shell.
func environ(list []string) map[string]string {
	m := make(map[string]string, len(list))
	for _, kv := range list {
		if k, v, ok := strings.Cut(kv, "="); ok {
			m[k] = v
		}
	}
	return m
}

// fromEnv reads our variables. Blanks around a value are no part of it, and an
// empty one counts as not set.
func fromEnv(all map[string]string) (p Process, faults, warnings []Fault) {
	ours := map[string]string{}
	for k, v := range all {
		if v = strings.TrimSpace(v); strings.HasPrefix(k, EnvPrefix) && v != "" {
			ours[k] = v
		}
	}
	err := env.ParseWithOptions(&p, env.Options{
		Environment: ours,
		Prefix:      EnvPrefix,
		FuncMap:     map[reflect.Type]env.ParserFunc{reflect.TypeFor[bool](): envBool},
	})
	p.Config, p.Listen = trimmed(p.Config), trimmed(p.Listen)
	return p, envFaults(err), strangers(ours)
}

var errBool = errors.New("must be true or false")

func envBool(s string) (any, error) {
	b, ok := parseBool(s)
	if !ok {
		return nil, errBool
	}
	return b, nil
}

// envFaults words errors by field; the library's own text could quote a value.
func envFaults(err error) []Fault {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return nil
	}
	var faults []Fault
	for _, e := range all.Errors {
		var pe env.ParseError
		if !errors.As(e, &pe) {
			faults = append(faults, Fault{Path: EnvPrefix + "*", Msg: "cannot be read"})
			continue
		}
		name := pe.Name
		if f, ok := reflect.TypeFor[Process]().FieldByName(pe.Name); ok {
			name = EnvPrefix + f.Tag.Get("env")
		}
		msg := "is not valid"
		if errors.Is(pe.Err, errBool) {
			msg = errBool.Error()
		}
		faults = append(faults, Fault{Path: name, Msg: msg})
	}
	return faults
}

func trimmed(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// strangers warns of variables that look like a slip of one of ours. Others are
// left alone: Kubernetes sets MCP_SIDECAR_PORT and its like for a Service.
func strangers(ours map[string]string) []Fault {
	known := EnvNames()
	var out []Fault
	for k := range ours {
		if slices.Contains(known, k) {
			continue
		}
		if best := nearest(strings.TrimPrefix(k, EnvPrefix), shorts(known)); best != "" && distance(k, EnvPrefix+best) <= 2 {
			out = append(out, Fault{Path: fmt.Sprintf("%.80s", k), Msg: fmt.Sprintf("unknown variable (did you mean %q?)", EnvPrefix+best)})
		}
	}
	slices.SortFunc(out, func(a, b Fault) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func shorts(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.TrimPrefix(n, EnvPrefix)
	}
	return out
}

// EnvNames returns the names of all variables that are read.
func EnvNames() []string {
	t := reflect.TypeFor[Process]()
	out := make([]string, t.NumField())
	for i := range out {
		out[i] = EnvPrefix + t.Field(i).Tag.Get("env")
	}
	return out
}

// overlay returns what flags and environment set, flags first, and the origin of
// each by the key that it overrides, or by the flag's name where there is none.
func overlay(flags, envs Process) (won Process, origins map[string]string) {
	origins = map[string]string{}
	out, f, e := reflect.ValueOf(&won).Elem(), reflect.ValueOf(flags), reflect.ValueOf(envs)
	for i := range out.NumField() {
		tag := out.Type().Field(i).Tag
		key := tag.Get("key")
		if key == "" {
			key = tag.Get("flag")
		}
		switch {
		case !f.Field(i).IsZero():
			out.Field(i).Set(f.Field(i))
			origins[key] = "--" + tag.Get("flag")
		case !e.Field(i).IsZero():
			out.Field(i).Set(e.Field(i))
			origins[key] = EnvPrefix + tag.Get("env")
		}
	}
	return won, origins
}
