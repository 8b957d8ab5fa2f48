// Package fidelity holds that a message crosses the program unchanged: exact
// bytes go in at one end and are compared at the other.
package fidelity
