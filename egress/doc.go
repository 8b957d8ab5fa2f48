// Package egress decides how a connection leaves: directly, through the
// corporate proxy, or not at all. One resolver of the proxy settings serves
// upstream connections, OAuth, and the forward proxy of stdio children, which
// lives here too.
package egress
