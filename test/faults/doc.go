// Package faults holds that a server that fails hurts nobody else, and that the
// agent reads which server it was.
package faults
