package proxy

import "context"

// subscribe has the agent of a session told when a resource changes.
func (x *exchange) subscribe(ctx context.Context) (answer, error) {
	return answer{}, noMethod(x.msg.Method)
}

// unsubscribe ends what subscribe began.
func (x *exchange) unsubscribe() (answer, error) {
	return answer{}, noMethod(x.msg.Method)
}

// subscriptions serves subscriptions/listen until the agent hangs up.
func (x *exchange) subscriptions(ctx context.Context) (answer, error) {
	return answer{}, noMethod(x.msg.Method)
}
