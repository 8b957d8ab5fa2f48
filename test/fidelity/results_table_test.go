package fidelity

// A crossing is one answer of a server, as the raw member of the JSON-RPC
// message, and what must reach the agent.
type crossing struct {
	name string
	// sent is `"result":{...}` or `"error":{...}`.
	sent string
	// clean is what arrives with cleaning on, when that differs from sent.
	clean string
	// always is what arrives with cleaning on and off, when that differs.
	always string
	// modern is what arrives at agents of 2026-07-28, when that differs.
	modern string
}

// crossings are the answers that typed proxies lose, round or rewrite.
var crossings = []crossing{
	{name: "plain text", sent: `"result":{"content":[{"type":"text","text":"hello"}]}`},
	{name: "unknown member of the result", sent: `"result":{"content":[],"x-vendor":{"a":[1,2,{"b":null}]},"other":"x"}`},
	{name: "unknown member of a content block", sent: `"result":{"content":[{"type":"text","text":"a","x-score":0.10,"later":[true]}]}`},
	{name: "unknown content type", sent: `"result":{"content":[{"type":"video","uri":"https://e.example/v.mp4","frames":[1,2]}]}`},
	{name: "annotations with zero priority and unknown keys", sent: `"result":{"content":[{"type":"text","text":"a","annotations":{"priority":0,"audience":[],"x-seen":false}}]}`},
	{name: "resource link with icons", sent: `"result":{"content":[{"type":"resource_link","uri":"https://e.example/a","name":"a","icons":[{"src":"https://e.example/i.png","sizes":["48x48"],"theme":"dark"}],"size":0}]}`},
	{name: "ui resource with _meta", sent: `"result":{"content":[{"type":"resource","resource":{"uri":"ui://app/1","mimeType":"text/html;profile=mcp-app","text":"<b>x</b>","_meta":{"ui":{"csp":{"connectDomains":[]}}}}}]}`},
	{name: "embedded resource with empty text", sent: `"result":{"content":[{"type":"resource","resource":{"uri":"x://e","text":""}}]}`},
	{name: "embedded blob", sent: `"result":{"content":[{"type":"resource","resource":{"uri":"x://b","blob":"AAECAw==","mimeType":"application/octet-stream"}}]}`},
	{name: "image and audio", sent: `"result":{"content":[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"},{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}]}`},
	{name: "integers over 2^53 in structuredContent", sent: `"result":{"content":[],"structuredContent":{"id":9007199254740993,"neg":-9007199254740995,"big":123456789012345678901234567890}}`},
	{name: "integers over 2^53 in _meta", sent: `"result":{"content":[],"_meta":{"com.example/n":9007199254740993}}`},
	{name: "long decimals", sent: `"result":{"content":[],"structuredContent":{"pi":3.14159265358979323846264338327950288,"tiny":1e-400}}`},
	{name: "spelling of numbers", sent: `"result":{"content":[],"structuredContent":{"a":1.0,"b":1e3,"c":1E+03,"d":-0,"e":0.10}}`},
	{name: "order of keys", sent: `"result":{"structuredContent":{"z":1,"a":2,"m":{"y":1,"b":2}},"content":[{"text":"a","type":"text"}]}`},
	{name: "structuredContent null", sent: `"result":{"content":[],"structuredContent":null}`},
	{name: "structuredContent that is no object", sent: `"result":{"content":[],"structuredContent":[1,"two",false]}`},
	{name: "isError false", sent: `"result":{"content":[{"type":"text","text":"ok"}],"isError":false}`},
	{name: "isError true", sent: `"result":{"content":[{"type":"text","text":"disk full"}],"isError":true,"structuredContent":{"code":28}}`},
	{name: "no content", sent: `"result":{"structuredContent":{"a":1}}`},
	{name: "base64 without padding", sent: `"result":{"content":[{"type":"image","data":"QUJD-_8","mimeType":"image/png"}]}`},
	{name: "escapes", sent: `"result":{"content":[{"type":"text","text":"\u0041\/\n\t\"\\ \u00e9 <>&"}]}`},
	{name: "white space between tokens", sent: `"result":{ "content" : [ { "type" : "text" ,"text":"a" } ] , "n" : 1 }`},
	{name: "text of other scripts", sent: `"result":{"content":[{"type":"text","text":"Grüße 日本語 עברית ` +
		"\U0001F469\u200d\U0001F469\u200d\U0001F467 " + // a family
		"\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F " + // the flag of Scotland
		"\u0915\u094d\u200d\u0937" + // a half form in Devanagari
		`"}]}`},
	{
		name:   "lone surrogate",
		sent:   `"result":{"content":[{"type":"text","text":"a\ud800b"}]}`,
		always: `"result":{"content":[{"type":"text","text":"a` + "\ufffd" + `b"}]}`,
	},
	{
		name:  "hidden characters",
		sent:  `"result":{"content":[{"type":"text","text":"a` + "\U000E0041\U000E0042" + `b` + "\u202e" + `c"}],"n":1.0}`,
		clean: `"result":{"content":[{"type":"text","text":"abc"}],"n":1.0}`,
	},
	{
		name:   "reserved keys of _meta",
		sent:   `"result":{"content":[],"_meta":{"mcp.dev/x":1,"com.example/y":1.0,"dev.mcp/z":2}}`,
		always: `"result":{"content":[],"_meta":{"com.example/y":1.0}}`,
	},
	{name: "error with a code of its own and data", sent: `"error":{"code":-31999,"message":"quota: 5 of 5","data":{"retry":1.50,"ids":[9007199254740993]}}`},
	{
		// 2026-07-28 has no such code, but one for a capability that is missing; the URLs
		// stay.
		name:   "error that asks to open a URL",
		sent:   `"error":{"code":-32042,"message":"sign in first","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://e.example/in?x=1","message":"Sign in"}]}}`,
		modern: `"error":{"code":-32021,"message":"sign in first","data":{"requiredCapabilities":{"elicitation":{"url":{}}},"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://e.example/in?x=1","message":"Sign in"}]}}`,
	},
	{
		// 2026-07-28 keeps -32020 to -32099 for itself: from us they would speak of our hop.
		name:   "error with a code that the protocol reserves",
		sent:   `"error":{"code":-32050,"message":"no","data":[1.0]}`,
		modern: `"error":{"code":-32603,"message":"no","data":[1.0]}`,
	},
	{name: "unknown member of the error", sent: `"error":{"code":4711,"message":"no","x-trace":"abc","data":null}`},
	{name: "error with code and message only", sent: `"error":{"message":"bad arguments","code":-32602}`},
}

// Answers whose meaning depends on the era: they cross between peers of one era.
var legacyTask = crossing{name: "task of 2025-11-25", sent: `"result":{"task":{"taskId":"t-1","status":"working","ttl":60000,"createdAt":"2025-11-25T10:30:00Z"}}`}

func (c *crossing) want(cleaning, modern bool) string {
	switch {
	case modern && c.modern != "":
		return c.modern
	case c.always != "":
		return c.always
	case cleaning && c.clean != "":
		return c.clean
	}
	return c.sent
}
