package upstream

import "github.com/mcp-sidecar/mcp-sidecar/wire"

// An agent hears of a resource where its calls run, as long as that connection is
// subscribed to it, and else from the shared one: there are servers that tell one
// session or process alone, and others that tell each.

// hearers decides which agents an update is for that came on o's connection; nil
// means all who may hear of that connection.
func (s *server) hearers(o *owner, params []byte) func(t Target) bool {
	raw, _ := wire.Get(params, "uri")
	uri, ok := wire.Unquote(raw)
	if !ok {
		return nil
	}
	if o == s.plain {
		there := s.subs.heardApart(uri)
		if len(there) == 0 {
			return nil
		}
		return func(t Target) bool { return !there[s.home(t)] }
	}
	h, ok := o.house()
	if m := o.told.Load(); ok && m != nil {
		if asked, _ := m.tells(uri); asked {
			return func(t Target) bool { return s.home(t) == h }
		}
	}
	return func(Target) bool { return false }
}

// heardApart are those who hear of a resource from connections beside discovery's.
func (s *subscriptions) heardApart(uri string) map[house]bool {
	var there map[house]bool
	for _, m := range s.mirrored() {
		h, ok := m.o.house()
		if _, agreed := m.tells(uri); !ok || !agreed || over(m.c.Done()) {
			continue
		}
		if there == nil {
			there = map[house]bool{}
		}
		there[h] = true
	}
	return there
}

// house says whose calls run on the owner's connection; false when nobody's do yet.
func (o *owner) house() (house, bool) {
	c := o.caller.Load()
	if c == nil {
		return house{}, false
	}
	return houseOf(o.route, *c), true
}

// home is where calls of an agent run that may be asked about.
func (s *server) home(t Target) house {
	w := need{route: route{profile: profileOf(t), isolation: s.isolation(t)}, caller: t.Caller}
	if era := s.era.Load(); era != nil && t.Answers&s.offers != 0 {
		e := *era
		if e == Modern && t.Legacy && s.bothEras() {
			e = Legacy
		}
		s.ask(&w, e, "tools/call")
	}
	return houseOf(w.route, w.caller)
}

// houseOf leaves the caller out where callers share.
func houseOf(r route, caller string) house {
	if r.mode == Plain && r.isolation == "" {
		caller = ""
	}
	return house{poolOf(r), caller}
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
