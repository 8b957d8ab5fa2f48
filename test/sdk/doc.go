// Package sdk lets go-sdk's client talk to go-sdk's servers through the program,
// in both eras of the protocol and over both transports.
package sdk
