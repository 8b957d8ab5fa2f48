package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// A decoder fills settings from nodes by their yaml tags, and reports every
// fault instead of stopping at the first.
type decoder struct {
	// foreign takes unknown keys and a few ill-formed values for warnings.
	foreign bool
	// extra are further keys of the top level, for suggestions.
	extra            []string
	hints            int
	faults, warnings []Fault
	// closed are the kinds of questions that a foreign file limits in a way that
	// is not understood.
	closed []string
}

func (d *decoder) bad(at *node, path []string, msg string) {
	d.faults = append(d.faults, at.file.fault(at, join(path...), msg))
}

func (d *decoder) warn(at *node, path []string, msg string) {
	d.warnings = append(d.warnings, at.file.fault(at, join(path...), msg))
}

// a field is one key of a settings struct.
type field struct {
	key, option string
	index       int
}

func fields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag.Get("yaml")
		if key, option, _ := strings.Cut(tag, ","); key != "" && key != "-" {
			out = append(out, field{key: key, option: option, index: i})
		}
	}
	return out
}

// into fills v, which must be settable. Nothing (null) leaves it at zero.
func (d *decoder) into(n *node, at *node, v reflect.Value, option string, path []string) {
	if n.kind == null && option != "args" {
		return
	}
	if msg := d.fill(n, at, v, option, path); msg != "" {
		d.bad(at, path, msg)
	}
}

var (
	durationType  = reflect.TypeFor[time.Duration]()
	sslVerifyType = reflect.TypeFor[upstream.SSLVerify]()
)

// fill returns what is wrong with n itself; what is wrong inside is reported.
func (d *decoder) fill(n, at *node, v reflect.Value, option string, path []string) string {
	switch v.Type() {
	case durationType:
		dur, msg := duration(n)
		v.SetInt(int64(dur))
		return cmp.Or(msg, d.zero(v, path))
	case sslVerifyType:
		ssl, msg := sslVerify(n)
		v.Set(reflect.ValueOf(ssl))
		return msg
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		msg := d.fill(n, at, p.Elem(), option, path)
		if msg == "" {
			v.Set(p)
		}
		return msg
	case reflect.Bool:
		b, msg := boolish(n)
		v.SetBool(b)
		return cmp.Or(msg, d.count(n))
	case reflect.Int:
		i, msg := integer(n)
		v.SetInt(int64(i))
		return cmp.Or(msg, d.zero(v, path))
	case reflect.String:
		return scalarText(n, v.SetString)
	case reflect.Slice:
		items, msg := stringList(n, option)
		if msg != "" {
			items = []string{} // it is there: what else wants it is not told that it is missing
		}
		v.Set(reflect.ValueOf(items))
		return msg
	case reflect.Map:
		return d.mapInto(n, v, path)
	case reflect.Struct:
		return d.structInto(n, v, option, path)
	}
	panic("config: no decoder for " + v.Type().String()) // a settings struct of ours, met by every test
}

func (d *decoder) structInto(n *node, v reflect.Value, option string, path []string) string {
	if option == "tools" {
		n = asTools(n)
	}
	switch {
	case n.kind == mapping:
	case len(path) == 3 && guards(path):
		return fmt.Sprintf("must be true, false or a mapping, not %s", n.kind)
	default:
		return fmt.Sprintf("must be a mapping, not %s", n.kind)
	}
	known := fields(v.Type())
	for i := range n.pairs {
		p := &n.pairs[i]
		here := extend(path, p.key)
		f := find(known, p.key)
		if f == nil {
			d.unknown(p, path, names(known))
			continue
		}
		if option == "tools" && p.val.kind == null && v.Field(f.index).Kind() == reflect.Slice {
			d.bad(p.at, here, "has no value: write [] for nothing, or leave the key out for everything")
			continue
		}
		if d.empty(p, here) {
			continue
		}
		opt := f.option
		if option == "tools" && opt == "stringorlist" {
			opt = "names"
		}
		if d.unlimited(p, v.Field(f.index), here) {
			continue
		}
		if d.forgive(p, v.Field(f.index), opt, here) {
			continue
		}
		d.into(p.val, p.place(), v.Field(f.index), opt, here)
	}
	return ""
}

// count says what is wrong with a number in place of a yes or no; other programs
// take any for a yes.
func (d *decoder) count(n *node) string {
	if d.foreign || n.kind != number || n.text == "0" || n.text == "1" {
		return ""
	}
	return "must be true or false, not a number"
}

func (d *decoder) unknown(p *pair, path []string, known []string) {
	if len(path) == 0 {
		known = append(known, d.extra...)
	}
	if d.hints++; d.hints > maxHints {
		known = nil
	}
	msg := unknown(p.key, known)
	if d.foreign {
		d.warn(p.at, path, msg+", "+d.cost(path, false))
		return
	}
	d.bad(p.at, path, msg)
}

// empty takes a key without a value for a fault where that would be no limit.
func (d *decoder) empty(p *pair, path []string) bool {
	msg := noValue(p, path)
	switch {
	case msg == "":
		return false
	case d.foreign:
		d.warn(p.at, path, msg+", "+d.cost(path, true))
	default:
		d.bad(p.at, path, msg)
	}
	return true
}

// forgiven are the keys of a server whose ill-formed values other programs pass
// over. Those that guard something are closed for it: see cost.
var forgiven = map[string]bool{
	"idle_timeout_seconds": true, "max_lifetime_seconds": true, "lifecycle": true, "keepalive_interval": true,
	"sampling": true, "elicitation": true, "roots": true,
}

// forgive takes a foreign file's ill-formed value for a warning, where the
// program that owns the file does so too.
func (d *decoder) forgive(p *pair, v reflect.Value, option string, path []string) bool {
	isBool := v.Kind() == reflect.Bool || v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Bool
	if !d.foreign || p.val.kind == null || !isBool && (len(path) < 3 || !forgiven[path[2]]) {
		return false
	}
	trial := reflect.New(v.Type()).Elem()
	msg := d.fill(p.val, p.place(), trial, option, path)
	if msg != "" {
		d.warn(p.place(), path, msg+", "+d.cost(path, true))
		return true
	}
	v.Set(trial)
	return true
}

func find(fs []field, key string) *field {
	for i := range fs {
		if fs[i].key == key {
			return &fs[i]
		}
	}
	return nil
}

func names(fs []field) []string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.key
	}
	return out
}

// extend never shares its backing array: paths outlive the loop.
func extend(path []string, key string) []string {
	return append(path[:len(path):len(path)], key)
}

// mapInto fills map[string]string and maps of structs.
func (d *decoder) mapInto(n *node, v reflect.Value, path []string) string {
	if n.kind != mapping {
		return fmt.Sprintf("must be a mapping, not %s", n.kind)
	}
	m := reflect.MakeMap(v.Type())
	for i := range n.pairs {
		p := &n.pairs[i]
		val := reflect.New(v.Type().Elem()).Elem()
		here := extend(path, p.key)
		if p.val.kind == null && val.Kind() == reflect.String {
			d.bad(p.place(), here, `has no value, write "" for an empty one`)
			continue
		}
		d.into(p.val, p.place(), val, "", here)
		m.SetMapIndex(reflect.ValueOf(p.key), val)
	}
	v.Set(m)
	return ""
}
