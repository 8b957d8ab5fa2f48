package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

func logTo(out io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestReport holds that many faults of one server are one line, said once.
func TestReport(t *testing.T) {
	fault := func(server string, k aggregate.Kind, name string, l aggregate.Level) aggregate.Fault {
		return aggregate.Fault{Server: server, Kind: k, Name: name, Reason: "why", Level: l}
	}
	faults := []aggregate.Fault{
		fault("a", aggregate.Tools, "t0", aggregate.Info),
		fault("a", aggregate.Tools, "t1", aggregate.Withheld),
		fault("a", aggregate.Tools, "t2", aggregate.Withheld),
		fault("a", aggregate.Prompts, "p", aggregate.Warning),
		fault("b", aggregate.Tools, "t", aggregate.Info),
	}
	for level, lines := range map[slog.Level]int{slog.LevelWarn: 0, slog.LevelInfo: 2, slog.LevelDebug: 7} {
		var out bytes.Buffer
		v := &views{log: logTo(&out, level)}
		v.report(faults)
		v.report(faults)
		if got := strings.Count(out.String(), "\n"); got != lines {
			t.Errorf("%v: %d lines, want %d:\n%s", level, got, lines, out.String())
		}
		if level != slog.LevelInfo {
			continue
		}
		want := `level=INFO msg="not shown as the server lists it" server=a kind=tool count=2 err="tool \"t1\" of a: why"` + "\n" +
			`level=INFO msg="not shown as the server lists it" server=a kind=prompt count=1 err="prompt \"p\" of a: why"` + "\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		out.Reset()
		v.report(faults[:2])
		if got := out.String(); !strings.Contains(got, "count=1") {
			t.Errorf("after a change: %s", got)
		}
	}
}

// TestReportSettled holds that nothing is said of collisions before every server
// had its first chance.
func TestReportSettled(t *testing.T) {
	var out bytes.Buffer
	var servers []config.Server
	for _, name := range []string{"a", "b", "c"} {
		servers = append(servers, config.Server{Name: name, Settings: upstream.Settings{Builtin: name, Protocol: "legacy"}})
	}
	cfg := &config.Config{Naming: "{tool}", MaxNameLength: 64, Servers: servers}
	v, err := newViews(cfg, logTo(&out, slog.LevelInfo))
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	late := func(ctx context.Context, rw io.ReadWriteCloser) error {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return shy(ctx, rw)
	}
	v.set, err = upstream.NewSet(cfg.Upstreams(), upstream.Options{Builtins: map[string]upstream.Builtin{"a": shy, "b": late, "c": shy}, OnChange: v.changed})
	if err != nil {
		t.Fatal(err)
	}
	runSet(t, v.set)
	v.set.AwaitFirst(t.Context(), probeWait, "a", "c")
	v.rebuild()
	if out.Len() > 0 {
		t.Errorf("while b is on its way: %s", out.String())
	}
	close(gate)
	v.set.AwaitFirst(t.Context(), probeWait, "b")
	v.rebuild()
	if got := strings.Count(out.String(), notAsListed); got != 3 {
		t.Errorf("afterwards %d lines:\n%s", got, out.String())
	}
}

// TestMarkedBeside holds that tools which only some agents see stand with their server.
func TestMarkedBeside(t *testing.T) {
	all := []tool{{name: "a1", server: "a"}, {name: "c1", server: "c"}, {name: "c2", server: "c"}}
	marked := []tool{{name: "b1", server: "b"}, {name: "a2", server: "a"}, {name: "c3", server: "c"}}
	var got []string
	for _, t := range beside([]string{"a", "b", "c"}, all, marked) {
		got = append(got, t.name)
	}
	if diff := cmp.Diff([]string{"a1", "a2", "b1", "c1", "c2", "c3"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
