package wire

import "strconv"

// An Edit replaces b[From:To] by With.
type Edit struct {
	From, To int
	With     []byte
}

// Splice appends b to dst with edits applied; they must be in order and must
// not overlap.
func Splice(dst, b []byte, edits ...Edit) []byte {
	at := 0
	for _, e := range edits {
		dst = append(append(dst, b[at:e.From]...), e.With...)
		at = e.To
	}
	return append(dst, b[at:]...)
}

const head = `{"jsonrpc":"2.0",`

// AppendRequest appends a request; nil params are left out.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = append(append(append(dst, head+`"id":`...), id...), ',')
	return appendMethod(dst, method, params)
}

// AppendNotification appends a notification; nil params are left out.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	return appendMethod(append(dst, head...), method, params)
}

func appendMethod(dst []byte, method string, params []byte) []byte {
	dst = AppendQuote(append(dst, `"method":`...), method)
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// AppendResult appends a response with a result.
func AppendResult(dst, id, result []byte) []byte {
	dst = append(append(dst, head+`"id":`...), id...)
	return append(append(append(dst, `,"result":`...), result...), '}')
}

// AppendError appends a response with an error; a nil id is null, nil data is
// left out.
func AppendError(dst, id []byte, code int, message string, data []byte) []byte {
	if id == nil {
		id = []byte("null")
	}
	dst = append(append(dst, head+`"id":`...), id...)
	dst = strconv.AppendInt(append(dst, `,"error":{"code":`...), int64(code), 10)
	dst = AppendQuote(append(dst, `,"message":`...), message)
	if data != nil {
		dst = append(append(dst, `,"data":`...), data...)
	}
	return append(dst, '}', '}')
}
