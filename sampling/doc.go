// Package sampling answers a server's sampling requests at a chat completions
// endpoint, in place of an agent that cannot.
//
// It speaks the form that OpenAI gave such endpoints, which most hosts of models
// understand. Its part of that form is small, and a library for all of it would be
// larger than this program; so the messages are written here.
package sampling
