// Package test holds the rules of the whole tree as tests, and below it the
// suites that run the real program.
package test
