package upstream

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAppendRequest(t *testing.T) {
	modern := eraMeta(Modern, VersionModern, clientInfo("me", "1"))
	const fixed = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"me","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	const head = `{"jsonrpc":"2.0","id":7,"method":"m","params":{`
	for _, tt := range []struct {
		name string
		call Call
		meta []byte
		want string
	}{
		{"legacy, nothing", Call{}, nil, head + `}}`},
		{"legacy, empty object", Call{Params: []byte(" { } ")}, nil, head + `}}`},
		{"legacy, params", Call{Params: []byte(`{"a":1.0}`)}, nil, head + `"a":1.0}}`},
		{"legacy, token", Call{Params: []byte(`{"a":1}`), ProgressToken: []byte(`"x"`)}, nil, head + `"_meta":{"progressToken":7},"a":1}}`},
		{"legacy, token alone", Call{ProgressToken: []byte(`1`)}, nil, head + `"_meta":{"progressToken":7}}}`},
		{"legacy, meta", Call{Params: []byte(`{"a":1}`), Meta: []byte(`"k":[1]`), ProgressToken: []byte(`1`)}, nil, head + `"_meta":{"progressToken":7,"k":[1]},"a":1}}`},
		{"legacy, level is the session's", Call{LogLevel: "info"}, nil, head + `}}`},
		{"modern, nothing", Call{}, modern, head + `"_meta":{` + fixed + `}}}`},
		{"modern, all", Call{Params: []byte("{\n\"a\": 1 }"), Meta: []byte(`"k":1`), ProgressToken: []byte(`1`), LogLevel: "info"}, modern,
			head + `"_meta":{` + fixed + `,"progressToken":7,"io.modelcontextprotocol/logLevel":"info","k":1},"a": 1}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.call.Method = "m"
			got := string(appendRequest(nil, 7, &tt.call, tt.meta))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("not JSON: %s", got)
			}
		})
	}
}

func TestProgressGate(t *testing.T) {
	var g progressGate
	for _, tt := range []struct{ in, want string }{
		{`{"progressToken":7,"progress":1,"total":9007199254740993}`, `{"progressToken":"mine","progress":1,"total":9007199254740993}`},
		{`{"progressToken":7,"progress":1}`, ""},
		{`{"progressToken":7,"progress":0.5}`, ""},
		{`{"progress":2.5,"progressToken":7}`, `{"progress":2.5,"progressToken":"mine"}`},
		{`{"progressToken":"7","progress":3}`, ""},
		{`{"progressToken":8,"progress":3}`, ""},
		{`{"progressToken":7,"progress":"3"}`, ""},
		{`{"progressToken":7}`, ""},
		{`{"progress":4}`, ""},
		{``, ""},
	} {
		got, ok := g.pass([]byte(tt.in), 7, []byte(`"mine"`))
		if string(got) != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %s, %v", tt.in, got, ok)
		}
	}
	if _, ok := g.pass([]byte(`{"progressToken":7,"progress":9}`), 7, nil); ok {
		t.Error("passed to a caller that gave no token")
	}
}

func TestDiscoverInfo(t *testing.T) {
	for in, want := range map[string]bool{
		`{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{}}`: true,
		`{"supportedVersions":["2026-07-28"]}`:                                true,
		`{"capabilities":{"tools":{}}}`:                                       true,
		`{"supportedVersions":["2025-11-25"],"capabilities":{}}`:              false,
		`{"supportedVersions":"2026-07-28"}`:                                  false,
		`{"capabilities":[]}`:                                                 false,
		`{}`:                                                                  false,
		`[]`:                                                                  false,
		`null`:                                                                false,
	} {
		if _, ok := discoverInfo([]byte(in)); ok != want {
			t.Errorf("%s: got %v", in, ok)
		}
	}
}

func TestInitializeInfo(t *testing.T) {
	in := initializeInfo([]byte(`{"protocolVersion":"2025-03-26","capabilities":{"tools":{},"prompts":null},"serverInfo":{"name":"s"},"instructions":"a\u0062"}`))
	if in.Version != "2025-03-26" || !in.Has("tools") || in.Has("prompts") || in.Instructions != "ab" || string(in.ServerInfo) != `{"name":"s"}` {
		t.Errorf("got %+v", in)
	}
	for _, bad := range []string{`{"protocolVersion":"2026-07-28"}`, `{"protocolVersion":5}`, `{}`, `[]`} {
		if in := initializeInfo([]byte(bad)); in.Version != "" {
			t.Errorf("%s: got %+v", bad, in)
		}
	}
}
