// Package oracle sends many agents' calls with colliding ids, questions and
// cancellations through the program and checks that none is misrouted.
package oracle
