package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/proxy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// Top returns what the top level says that is not the default anyway.
func (c *Config) Top() []Setting {
	none := Config{
		Listen: []string{DefaultListen}, OpsListen: DefaultOpsListen, Naming: policy.DefaultNaming,
		MaxNameLength: policy.DefaultMaxName, ListWait: DefaultListWait, Cleaning: true,
		Profiles: map[string]proxy.Profile{DefaultProfile: {}},
	}
	return apart(walked(c.inForce(), nil, true, c.origin), walked(none.inForce(), nil, true, c.origin), zeroMeans)
}

// Own returns what the server's entry says that is not the default anyway, with
// paths that begin there.
func (s *Server) Own() []Setting {
	var none upstream.Settings
	above := []string{serversKey, s.Name}
	own := walked(s.Settings, above, false, s.origin)
	otherwise := walked(none.InForce(), above, true, s.origin)
	for _, list := range [][]Setting{own, otherwise} {
		for i := range list {
			list[i].Path = strings.TrimPrefix(list[i].Path, join(above...)+".")
		}
	}
	return apart(own, otherwise, serverZeroMeans)
}

func walked(settings any, above []string, all bool, origin func([]string) string) []Setting {
	v := viewer{all: all, origin: origin}
	v.inForce = reflect.ValueOf(settings)
	v.walk(reflect.ValueOf(settings), above)
	return v.out
}

// apart leaves out what says no more than its absence would.
func apart(list, otherwise []Setting, means map[string]any) []Setting {
	absent := make(map[string]string, len(otherwise))
	for _, s := range otherwise {
		absent[s.Path] = s.Value.String()
	}
	for path, m := range means {
		absent[path] = fmt.Sprint(m)
	}
	return slices.DeleteFunc(list, func(s Setting) bool {
		is, known := absent[s.Path]
		return s.Origin == byDefault || known && is == s.Value.String()
	})
}
