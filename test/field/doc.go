// Package field holds what users of MCP gateways, SDKs and clients have reported
// in public trackers: one test per report, named by its number, over the real
// program.
package field
