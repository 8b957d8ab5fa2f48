// Package matrix tries every version of the protocol at the agent against every
// version at the server, feature by feature, with the real program between.
package matrix
