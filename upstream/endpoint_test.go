package upstream

import (
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
)

func TestResolveEndpoint(t *testing.T) {
	v := Vars{Home: "/home/u", Lookup: func(name string) (string, bool) { return "e.example", name == "HOST" }}
	got, err := ResolveEndpoint(policy.Endpoint{URL: "https://${HOST}/v1", KeyFile: "~/${HOST}.key", Model: "${MODEL:-m}"}, v)
	want := policy.Endpoint{URL: "https://e.example/v1", KeyFile: "/home/u/e.example.key", Model: "m"}
	if err != nil || got != want {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
	if got, err = ResolveEndpoint(policy.Endpoint{URL: "https://${NONE}/v1"}, v); err == nil || got != (policy.Endpoint{}) || !strings.Contains(err.Error(), "sampling.endpoint.url") {
		t.Errorf("got %+v, error %v", got, err)
	}
	s := Settings{Command: "/bin/sh", Sampling: policy.Sampling{Endpoint: policy.Endpoint{URL: "https://${NONE}/v1"}}}
	if _, err := s.Resolve("s", "", v, nil); err == nil || !strings.Contains(err.Error(), "sampling.endpoint.url") {
		t.Errorf("got error %v, want one that names the setting", err)
	}
}
