package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// shy lists a second tool to clients that declare to answer questions, and asks a
// model when it is called.
func shy(_ context.Context, rw io.ReadWriteCloser) error {
	tools, call := `{"name":"plain","inputSchema":{"type":"object"}}`, json.RawMessage(nil)
	for in := bufio.NewScanner(rw); in.Scan(); {
		m, err := wire.ParseServer(in.Bytes(), wire.Limits{})
		if err != nil || m.ID == nil {
			continue
		}
		id, result := m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shy","version":"1"}}`
		switch {
		case m.Kind() == wire.Response:
			id, result = call, `{"content":[{"type":"text","text":`+strconv.Quote("heard: "+string(m.Err))+`}]}`
		case m.Method == "initialize" && strings.Contains(string(m.Params), "sampling"):
			tools += `,{"name":"asks","inputSchema":{"type":"object"}}`
		case m.Method == "tools/list":
			result = `{"tools":[` + tools + `]}`
		case m.Method == "tools/call":
			call = slices.Clone(m.ID)
			const ask = `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}}` + "\n"
			if _, err := io.WriteString(rw, ask); err != nil {
				return nil
			}
			continue
		}
		if _, err := rw.Write(append(wire.AppendResult(nil, id, []byte(result)), '\n')); err != nil {
			return nil
		}
	}
	return nil
}

// What agents that can answer see of a server is another view only where it is
// something else, and everybody's where the server's endpoint answers.
func TestSources(t *testing.T) {
	for _, tc := range []struct {
		endpoint    string
		all, asking string
		differs     bool
	}{
		{"", "plain", "plain asks", true},
		{"http://127.0.0.1:1", "plain asks", "plain asks", false},
	} {
		var s upstream.Settings
		s.Builtin, s.Protocol, s.Sampling.Endpoint.URL = "shy", "legacy", tc.endpoint
		cfg := &config.Config{Naming: "{tool}", MaxNameLength: 64, Servers: []config.Server{{Name: "a", Settings: s}}}
		v, err := newViews(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		v.set, err = upstream.NewSet(cfg.Upstreams(), upstream.Options{Builtins: map[string]upstream.Builtin{"shy": shy}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- v.set.Run(ctx) }()
		v.set.AwaitFirst(ctx, time.Minute, "a")
		if _, differs := v.sources(true, []string{"a"}); differs && tc.endpoint == "" {
			t.Error("they differ before such an agent came")
		}
		v.set.Expect(defaultProfile)
		v.set.AwaitAsking(ctx, time.Minute, "a")
		for answers, want := range map[bool]string{false: tc.all, true: tc.asking} {
			src, differs := v.sources(answers, []string{"a"})
			var got []string
			for _, tool := range src[0].Listing.Tools {
				raw, _ := wire.Get(tool, "name")
				got = append(got, strings.Trim(string(raw), `"`))
			}
			if g := strings.Join(got, " "); g != want || differs != (answers && tc.differs) {
				t.Errorf("endpoint %q, answers %v: got %s, differs %v", tc.endpoint, answers, g, differs)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(fmt.Errorf("Run: %w", err))
		}
	}
}
