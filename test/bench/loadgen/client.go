package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type target struct {
	name, prefix, era, host, path, tool string
	pid                                 int
	hdr                                 string
	wrap                                string
	u                                   *url.URL
	dead                                string
	clients                             []*client
}

func parseTarget(s string) (*target, error) {
	name, rest, ok := strings.Cut(s, "=")
	if !ok {
		return nil, fmt.Errorf("target %q: want name=url[,k=v]", s)
	}
	parts := strings.Split(rest, ",")
	u, err := url.Parse(parts[0])
	if err != nil {
		return nil, err
	}
	t := &target{name: name, u: u, host: u.Host, path: u.RequestURI(), era: "2025-11-25"}
	for _, p := range parts[1:] {
		k, v, _ := strings.Cut(p, "=")
		switch k {
		case "pid":
			t.pid, _ = strconv.Atoi(v)
		case "prefix":
			t.prefix = v
		case "wrap": // call the tool through a meta tool: wrap=call_tool_read:name:args
			t.wrap = v
		case "hdr":
			t.hdr += strings.Replace(v, "=", ": ", 1) + "\r\n"
		case "era":
			switch v {
			case "2026", "2026-07-28":
				t.era = "2026-07-28"
			case "2025":
			default:
				t.era = v
			}
		default:
			return nil, fmt.Errorf("target %s: unknown key %q", name, k)
		}
	}
	return t, nil
}

const newEra = "2026-07-28"

// client is one MCP client on one kept-alive connection.
type client struct {
	t   *target
	c   net.Conn
	r   *bufio.Reader
	sid string
	ver string
	id  int64
	buf []byte
	out []byte
}

func (c *client) dial() error {
	if c.c != nil {
		c.c.Close()
	}
	n, err := net.DialTimeout("tcp", c.t.host, 5*time.Second)
	if err != nil {
		return err
	}
	c.c = n
	if c.r == nil {
		c.r = bufio.NewReaderSize(n, 64<<10)
	} else {
		c.r.Reset(n)
	}
	return nil
}

var postReq = &http.Request{Method: "POST"}

// post sends one JSON body and returns the JSON-RPC message answered. The
// returned slice is valid until the next call.
func (c *client) post(method, name string, body []byte) ([]byte, error) {
	for try := 0; ; try++ {
		if c.c == nil {
			if err := c.dial(); err != nil {
				return nil, err
			}
		}
		b, err := c.post1(method, name, body)
		if err != nil && try == 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
			c.c.Close()
			c.c = nil
			continue
		}
		return b, err
	}
}

func (c *client) post1(method, name string, body []byte) ([]byte, error) {
	o := c.out[:0]
	o = append(o, "POST "...)
	o = append(o, c.t.path...)
	o = append(o, " HTTP/1.1\r\nHost: "...)
	o = append(o, c.t.host...)
	o = append(o, "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"...)
	if c.ver != "" {
		o = append(o, "Mcp-Protocol-Version: "...)
		o = append(o, c.ver...)
		o = append(o, "\r\n"...)
	}
	if c.sid != "" {
		o = append(o, "Mcp-Session-Id: "...)
		o = append(o, c.sid...)
		o = append(o, "\r\n"...)
	}
	if c.ver == newEra {
		o = append(o, "Mcp-Method: "...)
		o = append(o, method...)
		o = append(o, "\r\n"...)
		if name != "" {
			o = append(o, "Mcp-Name: "...)
			o = append(o, name...)
			o = append(o, "\r\n"...)
		}
	}
	o = append(o, c.t.hdr...)
	o = append(o, "Content-Length: "...)
	o = strconv.AppendInt(o, int64(len(body)), 10)
	o = append(o, "\r\n\r\n"...)
	o = append(o, body...)
	c.out = o
	c.c.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := c.c.Write(o); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.r, postReq)
	if err != nil {
		return nil, err
	}
	if s := resp.Header.Get("Mcp-Session-Id"); s != "" {
		c.sid = s
	}
	isSSE := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	b := bytes.NewBuffer(c.buf[:0])
	_, err = b.ReadFrom(resp.Body)
	resp.Body.Close()
	c.buf = b.Bytes()
	if err != nil {
		return nil, err
	}
	if resp.Close {
		c.c.Close()
		c.c = nil
	}
	if resp.StatusCode >= 300 {
		return nil, fmt.Errorf("HTTP %d: %.200s", resp.StatusCode, c.buf)
	}
	if !isSSE {
		return c.buf, nil
	}
	// The answer is the last event with data that is a response.
	var ans []byte
	for ln := range bytes.SplitSeq(c.buf, []byte("\n")) {
		if d, ok := bytes.CutPrefix(ln, []byte("data:")); ok {
			d = bytes.TrimSpace(d)
			if bytes.Contains(d, []byte(`"result"`)) || bytes.Contains(d, []byte(`"error"`)) {
				ans = d
			}
		}
	}
	return ans, nil
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"loadgen","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

func (c *client) open() error {
	if c.t.era == newEra {
		c.ver = newEra
		return nil
	}
	c.sid, c.ver = "", ""
	b, err := c.post("initialize", "", []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+c.t.era+`","capabilities":{},"clientInfo":{"name":"loadgen","version":"1"}}}`))
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	var r struct {
		Result struct {
			V string `json:"protocolVersion"`
		} `json:"result"`
	}
	if err := json.Unmarshal(b, &r); err != nil || r.Result.V == "" {
		return fmt.Errorf("initialize answered %.200s", b)
	}
	c.ver = r.Result.V
	_, err = c.post("notifications/initialized", "", []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err != nil {
		return fmt.Errorf("initialized: %w", err)
	}
	return nil
}

func (c *client) call(text string) error {
	c.id++
	tool := c.t.prefix + "echo"
	args := `{"text":"` + text + `"}`
	if c.t.wrap != "" {
		p := strings.SplitN(c.t.wrap, ":", 3)
		// Escaped arguments travel as a JSON string.
		args = `{"` + p[1] + `":"` + tool + `","` + p[2] + `":` + strconv.Quote(args) + `}`
		tool = p[0]
	}
	body := make([]byte, 0, len(text)+400)
	body = append(body, `{"jsonrpc":"2.0","id":`...)
	body = strconv.AppendInt(body, c.id, 10)
	body = append(body, `,"method":"tools/call","params":{"name":"`...)
	body = append(body, tool...)
	body = append(body, `","arguments":`...)
	body = append(body, args...)
	if c.ver == newEra {
		body = append(append(body, ','), meta...)
	}
	body = append(body, "}}"...)
	b, err := c.post("tools/call", tool, body)
	if err != nil {
		return err
	}
	if len(b) < len(text) || bytes.Contains(b[:min(len(b), 400)], []byte(`"error"`)) || bytes.Contains(b[max(0, len(b)-120):], []byte(`"isError":true`)) || bytes.Contains(b[:min(len(b), 120)], []byte(`"isError":true`)) {
		return fmt.Errorf("call answered %.300s", b)
	}
	return nil
}

// list follows nextCursor and returns the number of tools and bytes.
func (c *client) list() (n, size int, err error) {
	cur := ""
	for {
		c.id++
		p := ""
		if cur != "" {
			p = `"cursor":` + strconv.Quote(cur)
		}
		if c.ver == newEra {
			if p != "" {
				p += ","
			}
			p += meta
		}
		body := `{"jsonrpc":"2.0","id":` + strconv.FormatInt(c.id, 10) + `,"method":"tools/list","params":{` + p + `}}`
		b, err := c.post("tools/list", "", []byte(body))
		if err != nil {
			return n, size, err
		}
		if bytes.Contains(b[:min(len(b), 120)], []byte(`"error"`)) || len(b) == 0 {
			return n, size, fmt.Errorf("list answered %.300s", b)
		}
		size += len(b)
		n += bytes.Count(b, []byte(`"inputSchema"`))
		tail := b
		i := bytes.LastIndex(tail, []byte(`"nextCursor":"`))
		if i < 0 {
			return n, size, nil
		}
		j := bytes.IndexByte(tail[i+14:], '"')
		nx := string(tail[i+14 : i+14+j])
		if nx == "" || nx == cur {
			return n, size, nil
		}
		cur = nx
	}
}
