// Package clients lets real MCP clients talk to the program. Its tests need npm:
// go test -tags npm, and -tags npm,clients for those of make test-clients.
package clients
