// Package policy decides what an agent may see of a server and under which
// name: names, filters, cleaning, rules, pins and approvals.
//
// All of it is pure: values are compiled once, cannot fail afterwards, and may
// be used from many goroutines at a time.
package policy
