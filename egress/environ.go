package egress

import "strings"

// An environment holds what it says about proxies, before it is parsed.
type environment struct {
	http, https, all string
	// names are the variables that the values come from.
	httpName, httpsName, allName string
	noProxy                      string
}

// readEnviron takes the variables in the order of the clients that people know:
// the lower-case one wins, and an empty one unsets the other.
func readEnviron(environ []string) environment {
	vars := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			vars[k] = v
		}
	}
	var e environment
	_, cgi := vars["REQUEST_METHOD"]
	if cgi {
		delete(vars, "HTTP_PROXY") // a request's Proxy header would decide it (httpoxy.org)
	}
	e.http, e.httpName = pick(vars, "http_proxy")
	e.https, e.httpsName = pick(vars, "https_proxy")
	e.all, e.allName = pick(vars, "all_proxy")
	e.noProxy = vars["NO_PROXY"] + "," + vars["no_proxy"]
	return e
}

func pick(vars map[string]string, lower string) (value, name string) {
	if v, ok := vars[lower]; ok {
		return strings.TrimSpace(v), lower
	}
	upper := strings.ToUpper(lower)
	return strings.TrimSpace(vars[upper]), upper
}

func (e *environment) empty() bool { return e.http == "" && e.https == "" && e.all == "" }
