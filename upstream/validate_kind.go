package upstream

import (
	"reflect"
	"strings"
)

// Whom a key of a server is for.
type whom uint8

const (
	forCommand whom = 1 << iota
	forURL
	forBuiltin
	forLocal = forCommand | forBuiltin
	forAll   = forCommand | forURL | forBuiltin
)

// fits says of every key which servers it means something to. A block stands for
// all that is in it, unless its keys are for different ones. Keys that are a fault
// where they do not fit are for all here: the fault is told where it is found.
var fits = map[string]whom{
	"enabled": forAll,

	"command": forAll, "url": forAll, "builtin": forAll, // see kind

	"args": forCommand, "env": forCommand, "cwd": forCommand, "inherit_proxy_env": forCommand,
	"rlimits": forCommand, "screening": forCommand,

	"headers": forURL, "skip_preflight": forURL, "strict_redirect_headers": forURL,
	"ssl_verify": forURL, "client_cert": forURL, "client_key": forURL,
	"auth": forURL, "oauth": forURL,
	"transport":       forAll, // see words
	"identity_header": forAll, // see identity
	"protocol":        forAll,

	"egress.proxy": forCommand | forURL,
	"egress.allow": forCommand | forURL, "egress.via": forCommand | forURL, // see egress.Server

	"timeout": forAll, "progress_timeout": forAll, "connect_timeout": forAll, "keepalive_interval": forAll, "keepalive_timeout": forAll,
	"idle_timeout_seconds": forLocal, "max_lifetime_seconds": forLocal,
	"lifecycle.idle_timeout_seconds": forLocal, "lifecycle.max_lifetime_seconds": forLocal,
	"lifecycle.connect_retries": forAll, "lifecycle.reconnect_retries": forAll,
	"lifecycle.retry_pause": forAll, "lifecycle.retry_pause_max": forAll,
	"lifecycle.probe_interval": forAll, "lifecycle.wake_wait": forAll,
	"lifecycle.stop_grace": forCommand,
	"breaker":              forAll, "relist_interval": forAll, "lazy": forAll,

	"supports_parallel_tool_calls": forAll, "serialize": forAll, "max_concurrency": forAll,
	"max_queue": forAll, "queue_wait": forAll, "max_in_flight_bytes": forAll, "max_message_bytes": forAll,
	"isolation": forAll, "max_processes": forLocal, "on_down": forAll,

	"trust": forAll, "tools": forAll, "naming": forAll,
	"sampling": forAll, "elicitation": forAll, "roots": forAll,
}

// whose is what kind of server this is; zero when that is not clear.
func (s *Settings) whose() (who whom) {
	for _, k := range []struct {
		val string
		who whom
	}{{s.Command, forCommand}, {s.URL, forURL}, {s.Builtin, forBuiltin}} {
		switch {
		case k.val == "":
		case who != 0:
			return 0
		default:
			who = k.who
		}
	}
	return who
}

// misplaced advises of keys that mean nothing to a server of this kind.
func (c *check) misplaced() {
	if who := c.s.whose(); who != 0 {
		c.misplacedIn(reflect.ValueOf(*c.s), who, nil)
	}
}

func (c *check) misplacedIn(block reflect.Value, who whom, above []string) {
	for i := range block.NumField() {
		key, _, _ := strings.Cut(block.Type().Field(i).Tag.Get("yaml"), ",")
		val, path := block.Field(i), append(above[:len(above):len(above)], key)
		is, known := fits[strings.Join(path, ".")]
		switch {
		case key == "" || val.IsZero():
		case !known && val.Kind() == reflect.Struct:
			c.misplacedIn(val, who, path)
		case is&who == 0:
			c.advise("has no effect on a server "+with[who]+": it is for one "+with[is], path...)
		}
	}
}

// with names kinds of servers.
var with = map[whom]string{
	forCommand: "with a command", forURL: "with a url", forBuiltin: "that is built in",
	forLocal: "with a command", forCommand | forURL: "with a command or a url",
}
