package evil

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are those of the command line.
type options struct {
	fault, listen, state, other string
	list, always, helper        bool
	life                        time.Duration
}

// Command is the whole program: evilserver --fault ID [--listen ADDR].
func Command(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var o options
	fs := flag.NewFlagSet("evilserver", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&o.list, "list", false, "print every fault and what it does")
	fs.StringVar(&o.fault, "fault", "", "ID of the fault")
	fs.StringVar(&o.listen, "listen", "127.0.0.1:0", "loopback address of an HTTP server or a proxy; it is printed")
	fs.StringVar(&o.state, "state", "", "folder for the journal and the certificates")
	fs.StringVar(&o.other, "other", "", "URL of another origin, for redirects; without it one is served")
	fs.BoolVar(&o.always, "always", false, "have each POST fail, not misbehave alone (HTTP)")
	fs.DurationVar(&o.life, "life", 15*time.Minute, "end after this time")
	fs.BoolVar(&o.helper, "helper", false, "be a process that does nothing and ignores SIGTERM")
	if fs.Parse(args) != nil {
		return 2
	}
	if err := o.run(stdin, stdout); err != nil {
		fmt.Fprintln(stderr, "evilserver:", err)
		return 1
	}
	return 0
}

func (o *options) run(stdin io.Reader, stdout io.Writer) error {
	if o.list {
		for _, f := range Faults() {
			fmt.Fprintf(stdout, "%-8s %-6s %s\n", f.ID, f.Transport, f.Says)
		}
		return nil
	}
	if o.helper {
		idle()
		return nil
	}
	f, err := Find(o.fault)
	if err != nil {
		return err
	}
	s := NewServer(f, o.state)
	s.Always, s.other = o.always, o.other
	time.AfterFunc(o.life, func() { os.Exit(0) })
	if f.Transport == Stdio {
		return s.untilClosed(stdin, stdout)
	}
	return s.untilStopped(o.listen, stdout)
}

// untilClosed serves a pipe until its end, or longer if that is the fault.
func (s *Server) untilClosed(in io.Reader, out io.Writer) error {
	if s.Fault.pipe.stays {
		stubborn()
		time.AfterFunc(hangFor, func() { os.Exit(0) })
	}
	err := s.ServeStdio(in, out)
	if s.Fault.pipe.stays {
		time.Sleep(hangFor)
	}
	return err
}

// untilStopped serves HTTP until SIGTERM or SIGINT.
func (s *Server) untilStopped(addr string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if s.other == "" {
		other := s.elsewhere()
		defer other.Close()
		s.other = other.URL + "/mcp"
	}
	up, err := s.listen(addr)
	if err != nil {
		return err
	}
	defer up.stop()
	fmt.Fprintln(out, s.url)
	<-ctx.Done()
	return nil
}

// elsewhere is another origin, which notes each request that it gets.
func (s *Server) elsewhere() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Journal.Note(leaks, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
	}))
}
