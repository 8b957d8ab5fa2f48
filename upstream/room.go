package upstream

import "sync"

// Rooms for messages of unknown length, by size. They are used again: a server that
// floods us with what is over the limit would otherwise keep the collector busy, and
// that is felt by the calls of all others.
var rooms = [...]struct {
	size int
	pool *sync.Pool
}{
	{64 << 10, new(sync.Pool)}, {256 << 10, new(sync.Pool)}, {1 << 20, new(sync.Pool)},
	{4 << 20, new(sync.Pool)}, {16 << 20, new(sync.Pool)}, {64 << 20, new(sync.Pool)},
}

// roomFor returns n bytes of any content, with capacity for more if that costs nothing.
func roomFor(n int) []byte {
	if n > rooms[0].size/2 {
		for _, c := range rooms {
			if n > c.size {
				continue
			}
			if b, ok := c.pool.Get().(*[]byte); ok {
				return (*b)[:n]
			}
			return make([]byte, n, c.size)
		}
	}
	return make([]byte, n)
}

// leaveRoom takes back what roomFor gave, of which nothing may be in use. Other slices
// are left to the collector.
func leaveRoom(b []byte) {
	for _, c := range rooms {
		if cap(b) == c.size {
			b = b[:0]
			c.pool.Put(&b)
		}
	}
}

// widen moves b, of which n bytes are in use, to where there is room for size bytes.
func widen(b []byte, n, size int) []byte {
	wider := roomFor(size)
	copy(wider, b[:n])
	leaveRoom(b)
	return wider
}
