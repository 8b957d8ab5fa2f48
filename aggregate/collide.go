package aggregate

import "slices"

// settle decides who keeps each exposed name and returns those entries in order.
// It looks at all claims at once: who came first never matters.
func (b *builder) settle(k Kind, claims []entry) []entry {
	order := byName(claims)
	lost := make([]bool, len(claims))
	for len(order) > 0 {
		n := 1
		for n < len(order) && claims[order[n]].exposed == claims[order[0]].exposed {
			n++
		}
		if n > 1 {
			b.contest(k, claims, order[:n], lost)
		}
		order = order[n:]
	}
	kept := make([]entry, 0, len(claims))
	for i := range claims {
		if !lost[i] {
			kept = append(kept, claims[i])
		}
	}
	return kept
}

// contest settles one name that several entries claim.
func (b *builder) contest(k Kind, claims []entry, group []int, lost []bool) {
	if !k.named() {
		b.firstOwner(k, claims, group, lost)
		return
	}
	group = slices.DeleteFunc(slices.Clone(group), func(i int) bool { return b.yields(k, claims, group, i, lost) })
	if len(group) > 1 {
		b.collision(k, claims, group, lost)
	}
}

// yields reports whether claim i is a wrapper that gives way: to a tool that its
// own server lists under that name. Against another server's tool it is a claim
// like any other, or that server could answer in its place.
func (b *builder) yields(k Kind, claims []entry, group []int, i int, lost []bool) bool {
	if claims[i].util == 0 {
		return false
	}
	for _, n := range group {
		if claims[n].util == 0 && claims[n].src == claims[i].src {
			lost[i] = true
			b.fault(k, int(claims[i].src), claims[i].frag.name, Info,
				"the wrapper gives way to the server's own %q", claims[n].frag.name)
			return true
		}
	}
	return false
}

// firstOwner leaves a URI to the first server in configuration order.
func (b *builder) firstOwner(k Kind, claims []entry, group []int, lost []bool) {
	owner := &claims[group[0]]
	for _, i := range group[1:] {
		lost[i] = true
		b.fault(k, int(claims[i].src), claims[i].frag.name, Withheld,
			"%s answers for it: the same %s is listed there", b.server(owner), k.key())
	}
}

// collision withholds all claimants, unless Prefer names a server that has
// exactly one (NousResearch/hermes-agent#72032: never the last, never the first).
func (b *builder) collision(k Kind, claims []entry, group []int, lost []bool) {
	winner := b.preferred(claims, group)
	for n, i := range group {
		if i == winner {
			continue
		}
		lost[i] = true
		e, other := &claims[i], &claims[group[(n+1)%len(group)]]
		switch {
		case winner >= 0:
			b.fault(k, int(e.src), e.frag.name, Withheld, "name %q is kept by %s, which is preferred", e.exposed, b.server(&claims[winner]))
		case other.src == e.src:
			b.fault(k, int(e.src), e.frag.name, Withheld, "name collides with %q", other.frag.name)
		default:
			b.fault(k, int(e.src), e.frag.name, Withheld, "name %q collides with %q of %s", e.exposed, other.frag.name, b.server(other))
		}
	}
}

// preferred returns the claim that may keep the name, or -1.
func (b *builder) preferred(claims []entry, group []int) int {
	for _, server := range b.view.Prefer {
		winner, n := -1, 0
		for _, i := range group {
			if b.server(&claims[i]) == server {
				winner = i
				n++
			}
		}
		if n == 1 {
			return winner
		}
		if n > 1 {
			return -1
		}
	}
	return -1
}

func (b *builder) server(e *entry) string { return b.view.Sources[e.src].Server }
