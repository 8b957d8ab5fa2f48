package admin

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

type greeting struct {
	Name string `json:"name"`
}

func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /greet/{whom}", Verb(func(r *http.Request, in greeting) (*greeting, error) {
		if in.Name == "nobody" {
			return nil, errors.New("nobody is not greeted")
		}
		return &greeting{in.Name + " greets " + r.PathValue("whom")}, nil
	}))
	mux.HandleFunc("POST /huge", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 2*maxAnswer)) })
	s := Socket(mux)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	defer func() { s.Close(); <-ended }()

	c := NewClient(path)
	var out greeting
	if err := c.Do(t.Context(), http.MethodPost, "/greet/b%2Fc", greeting{"a"}, &out); err != nil || out.Name != "a greets b/c" {
		t.Errorf("got %v, %v", out, err)
	}
	for _, tt := range []struct {
		method, verb string
		in           any
		want         string
	}{
		{http.MethodPost, "/greet/b", greeting{"nobody"}, "nobody is not greeted"},
		{http.MethodPost, "/greet/b", map[string]string{"nam": "a"}, "is not understood"},
		{http.MethodPost, "/greet/b", greeting{strings.Repeat("x", 2*maxVerb)}, ""},
		{http.MethodGet, "/greet/b", nil, "answered 405"},
		{http.MethodPost, "/other", nil, "answered 404"},
		{http.MethodPost, "/huge", nil, "its answer is not understood"},
	} {
		if err := c.Do(t.Context(), tt.method, tt.verb, tt.in, &out); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: got %v, want %q", tt.method, tt.verb, err, tt.want)
		}
	}
	if err := NewClient(path+"x").Do(t.Context(), http.MethodGet, "/", nil, nil); err == nil || !strings.Contains(err.Error(), path+"x: ") {
		t.Errorf("without a sidecar: %v", err)
	}
}
