package upstream

import "github.com/mcp-sidecar/mcp-sidecar/policy"

// ResolveEndpoint replaces every reference in the settings of a chat endpoint. It
// opens nothing but the files that ${file:...} names.
func ResolveEndpoint(e policy.Endpoint, v Vars) (policy.Endpoint, error) {
	x := expander{vars: v}
	out := x.endpoint(e)
	if len(x.errs) > 0 {
		return policy.Endpoint{}, x.errs
	}
	return out, nil
}

func (x *expander) endpoint(e policy.Endpoint) policy.Endpoint {
	e.URL = x.text(e.URL, "sampling", "endpoint", "url")
	e.Model = x.text(e.Model, "sampling", "endpoint", "model")
	file := x.text(e.KeyFile, "sampling", "endpoint", "key_file")
	var err error
	if e.KeyFile, err = x.vars.Path(file); err != nil {
		x.bad(err, "sampling", "endpoint", "key_file")
	}
	return e
}
