package main

import (
	"fmt"
	"log/slog"
	"strings"
	"unicode"
)

// legible is for slog.HandlerOptions. It writes out the characters of an attribute
// that a terminal would act upon or not show: much of what is logged comes from
// servers and agents, and JSON leaves many of them as they are.
func legible(_ []string, a slog.Attr) slog.Attr {
	a.Key = legibleText(a.Key)
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindDuration: // JSON would have a number without a unit
		a.Value = slog.StringValue(v.Duration().String())
	case slog.KindString:
		a.Value = slog.StringValue(legibleText(v.String()))
	case slog.KindAny:
		a.Value = legibleAny(v.Any())
	}
	return a
}

func legibleAny(v any) slog.Value {
	switch v := v.(type) {
	case *slog.Source, nil:
		return slog.AnyValue(v)
	case error:
		return slog.StringValue(legibleText(v.Error()))
	case []string:
		out := make([]string, len(v))
		for i, s := range v {
			out[i] = legibleText(s)
		}
		return slog.AnyValue(out)
	}
	return slog.StringValue(legibleText(fmt.Sprint(v)))
}

// legibleText leaves line ends and tabs, which both handlers write out themselves.
func legibleText(s string) string {
	if !strings.ContainsFunc(s, illegible) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if illegible(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func illegible(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
