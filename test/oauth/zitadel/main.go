// Command zitadel runs the example provider of zitadel/oidc on loopback, for the tests
// of logins: zitadel REDIRECT-URI... prints its issuer, and ends when its standard
// input does.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

// people is one user whose id is its name: the example's device flow takes the one
// for the other.
func people() (storage.UserStore, error) {
	const name = "test-user@localhost"
	b, err := json.Marshal(map[string]storage.User{name: {ID: name, Username: name, Password: "verysecure"}})
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "users")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return nil, err
	}
	return storage.StoreFromFile(f.Name())
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	issuer := fmt.Sprintf("http://localhost:%d/", l.Addr().(*net.TCPAddr).Port)
	storage.RegisterClients(
		storage.NativeClient("native", os.Args[1:]...),
		storage.WebClient("web", "web-secret", os.Args[1:]...),
		storage.DeviceClient("device", "device-secret"),
	)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	users, err := people()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	h := exampleop.SetupServer(issuer, storage.NewStorage(users), log, false)
	fmt.Println(issuer)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Fprintln(os.Stderr, http.Serve(l, h))
	os.Exit(1)
}
