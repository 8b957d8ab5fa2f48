// Package servers runs the program over real MCP servers from npm. Its tests
// need npm: go test -tags npm.
package servers
