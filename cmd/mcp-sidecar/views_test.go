package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
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
		case m.Method == "server/discover":
			result = `{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}}}`
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

// Who can answer questions, or is of the older era, gets a view of its own only
// where a server shows it something else; where the server's endpoint answers, all do.
func TestSights(t *testing.T) {
	for name, tc := range map[string]struct {
		edit                   func(*upstream.Settings)
		all, newer, older, old string // those who cannot answer, and those who can, newer; the same, older
		views                  int
	}{
		"older":                {legacyOnly, "plain", "asks plain", "plain", "asks plain", 2},
		"older, an endpoint":   {withEndpoint(legacyOnly), "asks plain", "asks plain", "asks plain", "asks plain", 1},
		"of both":              {func(*upstream.Settings) {}, "plain", "plain", "plain", "asks plain", 2},
		"of both, an endpoint": {withEndpoint(func(*upstream.Settings) {}), "plain", "plain", "asks plain", "asks plain", 2},
	} {
		t.Run(name, func(t *testing.T) {
			v := startShy(t, tc.edit)
			if got := sightsOf(v); len(got.made) != 1 && !strings.Contains(name, "endpoint") {
				t.Errorf("%d views before such an agent came", len(got.made))
			}
			for _, who := range []upstream.Viewer{called, mostShown} {
				v.set.Expect(defaultProfile, who)
				v.set.AwaitAsking(t.Context(), time.Minute, who, "a")
			}
			v.rebuild()
			for who, want := range map[upstream.Viewer]string{{}: tc.all, {Answers: true}: tc.newer, called: tc.older, mostShown: tc.old} {
				if got := toolsOf(sightsOf(v).of(who)); got != want {
					t.Errorf("%+v see %s, want %s", who, got, want)
				}
			}
			if got := sightsOf(v); len(got.made) != tc.views {
				t.Errorf("%d views, want %d", len(got.made), tc.views)
			}
			snap, _ := v.of("a")
			if got := toolsOf(snap); got != tc.older {
				t.Errorf("commands see %s, want %s", got, tc.older)
			}
			if more := v.more("a"); len(more) == 1 == (tc.older == tc.old) {
				t.Errorf("beyond that there is %v", more)
			}
		})
	}
}

func legacyOnly(s *upstream.Settings) { s.Protocol = "legacy" }

func withEndpoint(edit func(*upstream.Settings)) func(*upstream.Settings) {
	return func(s *upstream.Settings) {
		edit(s)
		s.Sampling.Endpoint.URL = "http://127.0.0.1:1"
	}
}

// startShy runs a server a until the test ends.
func startShy(t *testing.T, edit func(*upstream.Settings)) *views {
	t.Helper()
	var s upstream.Settings
	s.Builtin = "shy"
	edit(&s)
	cfg := &config.Config{Naming: "{tool}", MaxNameLength: 64, Servers: []config.Server{{Name: "a", Settings: s}}}
	v, err := newViews(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	v.set, err = upstream.NewSet(cfg.Upstreams(), upstream.Options{Builtins: map[string]upstream.Builtin{"shy": shy}, OnChange: v.changed})
	if err != nil {
		t.Fatal(err)
	}
	runSet(t, v.set)
	v.set.AwaitFirst(t.Context(), time.Minute, "a")
	return v
}

// runSet runs servers until the test ends.
func runSet(t *testing.T, s *upstream.Set) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// sightsOf makes what each kind of agents sees of the server.
func sightsOf(v *views) *sights {
	b := &sights{v: v, view: aggregate.View{OwnNames: true}, sources: v.sources([]string{"a"})}
	for _, who := range []upstream.Viewer{{}, {Answers: true}, called, mostShown} {
		b.of(who)
	}
	return b
}

func toolsOf(s *aggregate.Snapshot) string {
	var names []string
	for route := range s.Tools() {
		names = append(names, route.Exposed)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
