// Package conformance runs the protocol's public conformance suite through the
// program. Its tests need npm: go test -tags npm.
package conformance
