package proxy

import "context"

// extension serves a method that is not of the protocol's core.
func (x *exchange) extension(ctx context.Context) (answer, error) {
	return answer{}, noMethod(x.msg.Method)
}
