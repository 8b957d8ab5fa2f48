package proxy

import (
	"context"
	"net/http"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// appsExtension is MCP Apps: pages under ui:// that tools point to.
const appsExtension = metaPrefix + "ui"

const (
	// maxExtensions bounds what one end declares of extensions, in bytes.
	maxExtensions = 16 << 10
	// maxVendorMethod bounds a method that is not of the protocol, in bytes.
	maxVendorMethod = 256
)

// extension serves a method that is not of the protocol's core.
func (x *exchange) extension(ctx context.Context) (answer, error) {
	if verb, ok := isTask(x.msg.Method); ok {
		return x.taskMethod(ctx, verb)
	}
	return x.vendor(ctx)
}

// vendor passes a request that only its two ends understand: in the view of a
// single server, if both declared the same thing beyond the protocol. A legacy
// server's experimental capabilities do for any agent, since agents seldom
// declare theirs.
func (x *exchange) vendor(ctx context.Context) (answer, error) {
	server := x.view.Server
	if server == "" || isCore(x.msg.Method) || len(x.msg.Method) > maxVendorMethod {
		return answer{}, noMethod(x.msg.Method)
	}
	info := x.snapshot().Info(server)
	if info == nil || !x.sharesWith(info) {
		return answer{}, noMethod(x.msg.Method)
	}
	resp, err := x.do(ctx, server, &upstream.Call{Method: x.msg.Method, Params: x.params.withoutMeta(nil, nil)})
	if err != nil {
		return x.troubled(ctx, server, err)
	}
	a, err := x.deliver(server, resp)
	if code, _ := wire.Get(a.failure, "code"); x.modern && string(code) == "-32601" {
		a.status = http.StatusNotFound
	}
	return a, err
}

// isCore reports whether a method lies where the protocol's own are, of either
// era and direction. Those never pass as a vendor's: rules hang on them. JSON-RPC
// keeps rpc. for itself.
func isCore(method string) bool {
	if strings.HasPrefix(method, "rpc.") {
		return true
	}
	family, _, _ := strings.Cut(method, "/")
	switch family {
	case "initialize", "ping", "server", "tools", "prompts", "resources", "completion", "logging", "tasks",
		"sampling", "elicitation", "roots", "subscriptions", "notifications":
		return true
	}
	return false
}

// sharesWith reports whether the agent and a server declared something in common
// that may bring methods of its own. What the two extensions known here bring is
// known.
func (x *exchange) sharesWith(info *upstream.Info) bool {
	if info.Era == upstream.Legacy && hasMembers(beyond(info.Capabilities, "experimental")) {
		return true
	}
	agent := x.rawCaps()
	for _, kind := range [...]string{"extensions", "experimental"} {
		theirs := beyond(info.Capabilities, kind)
		found := false
		wire.Each(beyond(agent, kind), func(key, _ []byte) bool {
			if k := string(key); k != tasksExtension && k != appsExtension {
				_, found = wire.Get(theirs, k)
			}
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

// rawCaps are the capabilities that the agent declared; nil when it did not.
func (x *exchange) rawCaps() []byte {
	switch {
	case x.modern:
		return x.params.meta.caps
	case x.sess != nil:
		return x.sess.caps.raw
	}
	return nil
}

// beyond returns what capabilities hold under extensions or experimental; nil
// when that is no object or too long.
func beyond(caps []byte, kind string) []byte {
	if v, ok := object(caps, kind); ok && len(v) <= maxExtensions {
		return v
	}
	return nil
}

// hasExtension reports whether capabilities hold an extension.
func hasExtension(caps []byte, extension string) bool {
	v, ok := wire.Get(beyond(caps, "extensions"), extension)
	return ok && string(v) != "null"
}

// holdsAll reports whether an object has every member of another one.
func holdsAll(obj, wanted []byte) bool {
	all := true
	wire.Each(wanted, func(key, _ []byte) bool {
		_, all = wire.Get(obj, string(key))
		return all
	})
	return all
}

func hasMembers(obj []byte) bool { return obj != nil && !isEmpty(obj) }

// offeredExtensions are the agent's extensions that a modern server has as well,
// as the agent declared them, which is all that it may be told of; nil when there
// are none.
func (x *exchange) offeredExtensions(server string) []byte {
	ours := beyond(x.rawCaps(), "extensions")
	if ours == nil {
		return nil
	}
	info := x.snapshot().Info(server)
	if info == nil || info.Era != upstream.Modern {
		return nil
	}
	theirs, out := beyond(info.Capabilities, "extensions"), []byte(nil)
	wire.Each(ours, func(key, val []byte) bool {
		k := string(key)
		if _, ok := wire.Get(theirs, k); ok && (x.modern || k != tasksExtension) {
			out = appendMember(out, k, val)
		}
		return true
	})
	if out == nil {
		return nil
	}
	return append(out, '}')
}

// withExtensions adds offeredExtensions to the capabilities that a server is told
// of, which are nil when there are none.
func (x *exchange) withExtensions(server string, caps []byte) []byte {
	ext := x.offeredExtensions(server)
	switch {
	case ext == nil:
		return caps
	case !hasMembers(caps):
		return append(append([]byte(`{"extensions":`), ext...), '}')
	}
	out := append(append([]byte(nil), caps[:len(caps)-1]...), `,"extensions":`...)
	return append(append(out, ext...), '}')
}

// appendMember appends a member to an object that is still open, or opens one.
func appendMember(dst []byte, key string, val []byte) []byte {
	if dst == nil {
		dst = append(dst, '{')
	} else {
		dst = append(dst, ',')
	}
	dst = append(wire.AppendQuote(dst, key), ':')
	return append(dst, val...)
}

// appendExtensions completes a result whose last member is the capabilities of a
// view with what its servers have beyond the protocol's core, as far as an agent
// of that version can use it.
func (x *exchange) appendExtensions(dst []byte, s Snapshot, version string) []byte {
	dst = dst[:len(dst)-1]
	if version != versionModern && version >= "2025-11-25" {
		if cancel, ok := legacyTasks(s); ok {
			dst = append(dst, `,"tasks":{`...)
			if cancel {
				dst = append(dst, `"cancel":{},`...)
			}
			dst = append(dst, `"requests":{"tools":{"call":{}}}}`...)
		}
	}
	if ext := x.extensions(s, version == versionModern); ext != nil {
		dst = append(append(dst, `,"extensions":`...), ext...)
	}
	if x.view.Server != "" {
		if info := s.Info(x.view.Server); info != nil {
			if v := beyond(info.Capabilities, "experimental"); hasMembers(v) {
				dst = append(append(dst, `,"experimental":`...), x.cleaned(v)...)
			}
		}
	}
	return append(dst, '}')
}

// legacyTasks reports whether a server of the view has tasks of version
// 2025-11-25, and can cancel them. A legacy agent asks once, so those count too
// of which nothing is known yet; whether a tool makes tasks, its definition says.
func legacyTasks(s Snapshot) (cancel, ok bool) {
	for _, info := range s.Servers() {
		switch {
		case info == nil:
			cancel, ok = true, true
		case info.Era == upstream.Legacy && offersTasks(info):
			ok = true
			tasks, _ := wire.Get(info.Capabilities, "tasks")
			if _, can := object(tasks, "cancel"); can {
				cancel = true
			}
		}
	}
	return cancel, ok
}

// extensions are what the front declares: all of a single server's, or the two
// known here if some server of the view has them.
func (x *exchange) extensions(s Snapshot, modern bool) (out []byte) {
	add := func(key string, val []byte) {
		if _, twice := wire.Get(closed(out), key); !twice && len(out)+len(val) <= maxExtensions {
			out = appendMember(out, key, val)
		}
	}
	for server, info := range s.Servers() {
		if info == nil {
			continue
		}
		wire.Each(beyond(info.Capabilities, "extensions"), func(key, val []byte) bool {
			switch k := string(key); {
			case string(val) == "null":
			case k == tasksExtension:
				if modern && info.Era == upstream.Modern {
					add(k, val)
				}
			case k == appsExtension || server == x.view.Server:
				add(k, val)
			}
			return true
		})
	}
	if out == nil {
		return nil
	}
	return x.cleaned(closed(out))
}

// closed returns the object that appendMember has opened.
func closed(open []byte) []byte {
	if open == nil {
		return nil
	}
	return append(open[:len(open):len(open)], '}')
}

// cleaned cleans what a server declared.
func (x *exchange) cleaned(raw []byte) []byte {
	flags, err := wire.Valid(raw, x.f.wireLimits())
	if err != nil {
		return emptyObject
	}
	return x.f.clean(raw, flags)
}

// cleanKeeping is clean, except that the keys of _meta stay that keep wants.
func (f *Front) cleanKeeping(raw []byte, flags wire.Flags, keep func(metaKey string) bool) []byte {
	out, r := f.opt.Cleaner.JSON(nil, raw, flags, keep)
	if r != (policy.Report{}) {
		f.counts.cleaned.Add(1)
	}
	return out
}
