package upstream

import (
	"io"
	"time"
)

const (
	steadyFree = 1 << 20   // is read without a rest
	steadyRun  = 128 << 10 // and so much between two rests
	steadyRest = 100 * time.Microsecond
	steadyMost = time.Millisecond
	steadyMore = 8 << 20 // after so much a rest is longer by another steadyRest
	// steadySlow is how long a run takes of a source that has to be waited for.
	steadySlow = 5 * time.Millisecond
)

// A steadyReader rests now and then where there is always more to read. The runtime
// looks for what came in for others once a processor has nothing else to do: a few
// readers without a pause delay every other call of the process.
type steadyReader struct {
	r     io.Reader
	run   int       // bytes since the last look,
	since time.Time // which was then
	all   int       // bytes without the source being waited for
}

func (s *steadyReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if s.run += n; s.run >= steadyRun {
		s.look()
	}
	return n, err
}

// useful says that what was read was of use, as far as it came.
func (s *steadyReader) useful() { s.all = -s.run }

func (s *steadyReader) look() {
	now := time.Now()
	if now.Sub(s.since) > steadySlow {
		s.all = 0
	}
	s.all += s.run
	s.run, s.since = 0, now
	if s.all > steadyFree {
		time.Sleep(min(steadyRest*time.Duration(1+s.all/steadyMore), steadyMost))
	}
}
