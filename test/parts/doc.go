// Package parts runs the program with what it meets outside of tests: proxies and
// a web server from Debian, a browser, servers that are killed and start again.
//
// Its tests need npm: go test -tags npm. What runs in a network of its own, and
// with programs that may be missing, is skipped with the reason.
package parts
