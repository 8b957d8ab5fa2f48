package main

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

func sessions(t *target, n int, hold bool) {
	_, r0, _ := procStat(t.pid)
	k0, n0 := treeRSS(t.pid)
	t0 := time.Now()
	var conns []net.Conn
	for i := range n {
		c := &client{t: t}
		err := c.open()
		if err == nil {
			_, _, err = c.list()
		}
		if err == nil {
			err = c.call("hello")
		}
		if err != nil {
			fmt.Printf("%-18s sessions: FAILS at %d: %.200s\n", t.name, i, err)
			break
		}
		t.clients = append(t.clients, c)
		if hold {
			g, err := net.Dial("tcp", t.host)
			if err == nil {
				fmt.Fprintf(g, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\nMcp-Protocol-Version: %s\r\n%s\r\n", t.path, t.host, c.sid, c.ver, t.hdr)
				conns = append(conns, g)
			}
		}
	}
	d := time.Since(t0)
	time.Sleep(1500 * time.Millisecond)
	_, r1, _ := procStat(t.pid)
	k1, n1 := treeRSS(t.pid)
	fmt.Printf("%-18s sessions=%d streams=%d idle=%.1fMB after=%.1fMB delta=%.1fMB (with children %.1f -> %.1fMB, %d -> %d processes) open+list+call=%.2fms/session\n", t.name, len(t.clients), len(conns), float64(r0)/1024, float64(r1)/1024, float64(r1-r0)/1024, float64(k0)/1024, float64(k1)/1024, n0, n1, float64(d.Milliseconds())/float64(max(1, len(t.clients))))
	for _, g := range conns {
		g.Close()
	}
	for _, c := range t.clients {
		if c.c != nil {
			c.c.Close()
		}
	}
}

func coldStart(t *target, cmdline string, n, want int) {
	var v []float64
	for range n {
		cmd := exec.Command("/bin/sh", "-c", "exec "+cmdline)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		t0 := time.Now()
		if err := cmd.Start(); err != nil {
			fmt.Println(t.name, "cold:", err)
			return
		}
		var last error
		got, ok := 0, false
		for time.Since(t0) < 40*time.Second {
			c := &client{t: t}
			if last = c.open(); last == nil {
				got, _, last = c.list()
				if last == nil && got >= want {
					ok = true
				}
			}
			if c.c != nil {
				c.c.Close()
			}
			if ok {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
		el := time.Since(t0)
		_, rss, _ := procStat(cmd.Process.Pid)
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		done := make(chan struct{})
		go func() { cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(3 * time.Second):
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-done
		}
		if !ok {
			fmt.Printf("%-18s cold: FAILS after %v: %d tools, %v\n", t.name, el.Round(time.Millisecond), got, last)
			return
		}
		v = append(v, float64(el.Microseconds())/1000)
		_ = rss
	}
	fmt.Printf("%-18s cold start to list of %d: median %.0f ms, min %.0f, max %.0f (n=%d)\n", t.name, want, median(v), slices.Min(v), slices.Max(v), n)
}
