package sampling

import (
	"bytes"
	"encoding/json"
	"strings"
)

// yield leaves out what a refusal names, or writes it as the model wants it. It
// returns false where the request stays as it was; a limit of tokens is never lost.
func (c *chat) yield(refusal []byte) bool {
	switch {
	case c.MaxTokens != 0 && bytes.Contains(refusal, []byte("max_completion_tokens")):
		c.MaxCompletionTokens, c.MaxTokens = c.MaxTokens, 0
	case c.Temperature != nil && names(refusal, "temperature"):
		c.Temperature = nil
	case c.Stop != nil && names(refusal, "stop"):
		c.Stop = nil
	default:
		return false
	}
	return true
}

// names reports whether an error is about a parameter: it says so, or puts its
// name in quotes.
func names(refusal []byte, param string) bool {
	var r struct {
		Error struct {
			Param   string `json:"param"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(refusal, &r) != nil {
		return false
	}
	return r.Error.Param == param || r.Error.Param == "" && strings.Contains(r.Error.Message, "'"+param+"'")
}
