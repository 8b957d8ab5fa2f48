package upstream

import (
	"fmt"
	"strings"
	"time"
)

// clashes looks at keys that contradict each other, and says what is in force.
func (c *check) clashes() {
	c.spellings()
	s := c.s
	if s.Breaker.Failures < 0 {
		const none = "failures is negative, so there is no breaker and this does nothing"
		c.moot(s.Breaker.Open > 0, none, "breaker", "open")
		c.moot(s.Breaker.ProbeTimeout > 0, none, "breaker", "probe_timeout")
	}
	if s.Serialize == "process" {
		const single = "serialize lets one tool call through at a time, so this "
		c.moot(s.MaxConcurrency > 1, single+"bounds only other requests and those that wait", "max_concurrency")
		c.moot(s.SupportsParallelToolCalls, single+"does nothing", "supports_parallel_tool_calls")
	}
	c.moot(s.MaxQueue < 0 && s.QueueWait > 0, "max_queue is negative, so no call waits and this does nothing", "queue_wait")
	if s.Command != "" && s.Egress.Fenced() {
		const own = "egress.allow gives the server a proxy of its own, so this "
		c.moot(s.InheritProxyEnv, own+"does nothing", "inherit_proxy_env")
		for _, k := range sortedKeys(s.Env) {
			c.moot(proxyVar(k), own+"is not handed on", "env", k)
		}
	}
	if s.URL != "" {
		c.onTheWay()
	}
}

// onTheWay looks at what protects a connection, or does not.
func (c *check) onTheWay() {
	s := c.s
	if onSocket(s.URL) {
		const none = "has no effect on a unix socket: there is neither TLS nor a proxy on the way"
		c.moot(s.SSLVerify != SSLVerify{}, none, "ssl_verify")
		c.moot(len(s.ClientCert) > 0, none, "client_cert")
		c.moot(s.ClientKey != "" && len(s.ClientCert) > 0, none, "client_key")
		c.moot(s.Egress.Proxy != "", none, "egress", "proxy")
		return
	}
	if len(s.URL) >= 7 && strings.EqualFold(s.URL[:7], "http://") {
		const plain = "has no effect, since the url is http: and there is no TLS"
		c.moot(s.SSLVerify != SSLVerify{}, plain, "ssl_verify")
		c.moot(len(s.ClientCert) > 0, plain, "client_cert")
		c.moot(s.ClientKey != "" && len(s.ClientCert) > 0, plain, "client_key")
		return
	}
	c.moot(s.SSLVerify.Off, "is off: anyone on the way can pose as the server, and read and change everything, credentials included. "+
		"Trust its certificate instead: ssl_verify: /path/to/ca.pem", "ssl_verify")
}

// moot advises where a setting that is set does nothing because of another one.
func (c *check) moot(is bool, why string, path ...string) {
	if is {
		c.advise(why, path...)
	}
}

// spellings looks at the keys that can be written in two places.
func (c *check) spellings() {
	s, l := c.s, &c.s.Lifecycle
	for _, k := range []struct {
		key        string
		wins, here time.Duration
	}{{"idle_timeout_seconds", s.IdleTimeout, l.IdleTimeout}, {"max_lifetime_seconds", s.MaxLifetime, l.MaxLifetime}} {
		if k.wins > 0 && k.here > 0 && k.wins != k.here {
			c.bad(fmt.Sprintf("contradicts %s, which is %v and wins", k.key, k.wins), "lifecycle", k.key)
		}
	}
}
