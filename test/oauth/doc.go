// Package oauth logs the program in at real OAuth providers, by a real browser,
// and looks at what becomes of the credentials: in many processes at once, in
// outages, and when a process is killed.
//
// Its tests need npm: go test -tags npm. They run on loopback alone.
package oauth
