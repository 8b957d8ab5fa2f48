package config

import "fmt"

// kind is what a node is, before anyone wants something of it.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	mapping
)

func (k kind) String() string {
	return [...]string{"nothing", "a boolean", "a number", "a string", "a list", "a mapping"}[k]
}

// Bounds of one document.
const (
	// maxNodes bounds a document after its aliases are expanded.
	maxNodes = 200_000
	// maxDepth bounds its nesting.
	maxDepth = 100
)

// A node is one value of a document, whichever language it was written in. It is
// shared by aliases, and so never changed once it is built.
type node struct {
	kind kind
	// text is a scalar's source text: 010 stays 010.
	text         string
	file         *file
	line, column int
	items        []*node // of a list
	pairs        []pair  // of a mapping, in source order, without duplicates
	size, height int     // of the tree that hangs here, this node included
}

type pair struct {
	key string
	// at is where the key stands; its size is zero.
	at  *node
	val *node
}

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	if p := n.pair(key); p != nil {
		return p.val
	}
	return nil
}

func (n *node) pair(key string) *pair {
	if n == nil {
		return nil
	}
	for i := range n.pairs {
		if n.pairs[i].key == key {
			return &n.pairs[i]
		}
	}
	return nil
}

// measure fills size and height from the children.
func (n *node) measure() {
	n.size, n.height = 1, 1
	add := func(c *node) {
		n.size = min(n.size+c.size, maxNodes+1)
		n.height = max(n.height, c.height+1)
	}
	for _, c := range n.items {
		add(c)
	}
	for _, p := range n.pairs {
		add(p.val)
	}
}

// excess says which limit the tree breaks, if any.
func (n *node) excess() string {
	switch {
	case n.size > maxNodes:
		return fmt.Sprintf("more than %d values once aliases are expanded", maxNodes)
	case n.height > maxDepth:
		return fmt.Sprintf("nested more than %d deep", maxDepth)
	}
	return ""
}

// with returns a copy of a mapping in which one key has another value. The
// original stays as it is.
func (n *node) with(p pair) *node {
	c := n.without(p.key)
	c.pairs = append(c.pairs, p)
	return c
}

func (n *node) without(key string) *node {
	c := *n
	c.pairs = make([]pair, 0, len(n.pairs)+1)
	for _, p := range n.pairs {
		if p.key != key {
			c.pairs = append(c.pairs, p)
		}
	}
	return &c
}

// at returns where a path leads: the place to show for it. A scalar is shown
// itself, anything else by its key; a path that ends early, by its last key.
func (n *node) at(start *node, path []string) *node {
	place := start
	for _, key := range path {
		if n == nil {
			break
		}
		if n.kind == list {
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i < 0 || i >= len(n.items) {
				break
			}
			n, place = n.items[i], n.items[i]
			continue
		}
		p := n.pair(key)
		if p == nil {
			break
		}
		n, place = p.val, p.place()
	}
	return place
}

// lookup returns where exactly this path is, or nil.
func (n *node) lookup(path []string) *node {
	var place *node
	for _, key := range path {
		p := n.pair(key)
		if p == nil {
			return nil
		}
		n, place = p.val, p.place()
	}
	return place
}

func (p *pair) place() *node {
	if p.val.kind == list || p.val.kind == mapping || p.val.line == 0 {
		return p.at
	}
	return p.val
}
