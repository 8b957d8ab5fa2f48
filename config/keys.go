package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// serversKey is the one key that our files share with Hermes'.
const serversKey = "mcp_servers"

// later are keys whose sections a later version gives life to. Those that would
// guard something must not be passed over, so they are faults; the rest warns.
var later = map[string]struct {
	keys   []string
	refuse bool
}{
	"":                 {[]string{"audit"}, true},
	"policy":           {[]string{"default", "rules", "pins", "approvals", "lint", "redaction"}, true},
	"auth":             {[]string{"issuers", "token_review", "mtls", "peer_uids", "tls"}, true},
	"profiles.default": {[]string{"filters", "identity", "limits", "expose"}, true},
	"quiet":            {[]string{"tracing", "catalog"}, false},
}

// topKeys are the keys of our top level.
func topKeys() []string {
	out := names(fields(reflect.TypeFor[document]()))
	out = append(out, serversKey)
	out = append(out, later[""].keys...)
	return append(out, later["quiet"].keys...)
}

// DocKeys returns every key of a configuration file as a path, in order.
func DocKeys() []string {
	found := map[string]bool{}
	walkKeys(reflect.TypeFor[document](), "", found)
	walkKeys(reflect.TypeFor[upstream.Settings](), serversKey+".<name>.", found)
	for parent, l := range later {
		prefix := parent + "."
		if parent == "" || parent == "quiet" {
			prefix = ""
		}
		for _, k := range l.keys {
			found[strings.Replace(prefix, ".default.", ".<name>.", 1)+k] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func walkKeys(t reflect.Type, prefix string, found map[string]bool) {
	for _, f := range fields(t) {
		ft := t.Field(f.index).Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		switch {
		case ft.Kind() == reflect.Struct && ft != reflect.TypeFor[upstream.SSLVerify]() && ft != reflect.TypeFor[time.Time]():
			walkKeys(ft, prefix+f.key+".", found)
		case ft.Kind() == reflect.Map && ft.Elem().Kind() == reflect.Struct:
			walkKeys(ft.Elem(), prefix+f.key+".<name>.", found)
		default:
			found[prefix+f.key] = true
		}
	}
}
