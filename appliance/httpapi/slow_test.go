package httpapi_test

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

func TestABodyThatBreaksOffIsNotServed(t *testing.T) {
	ts := startServer(t, nil)
	for _, test := range []struct{ name, request string }{
		{"in the first read", "POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{}"},
		{"later", "POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n" +
			strings.Repeat(" ", 50_000)},
		{"chunked", "POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"},
		{"bad chunk", "POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " +
			"chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"},
		{"upload", "POST /api/v1/models/m/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
			"application/octet-stream\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 60_000)},
		{"chunked upload", "POST /api/v1/models/m/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
			"application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, ts)
			p.send(test.request)
			_ = p.conn.(*net.TCPConn).CloseWrite()
			if status, body := p.answer("POST"); status != 400 {
				t.Errorf("answer %d %s, want 400", status, body)
			}
			p.wantClosed()
			if n := ts.library.versions(); n != 0 {
				t.Errorf("%d versions exist", n)
			}
		})
	}
}

func TestSlowSendersAreCutOff(t *testing.T) {
	head := "POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\n"
	upload := "POST /api/v1/models/m/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
	for _, test := range []struct {
		name, request string
		drip          string // sent again and again
	}{
		{"headers stop", head, ""},
		{"headers drip", head, "X: y\r\n"},
		{"body does not begin", head + "Content-Length: 100\r\n\r\n", ""},
		{"body stops", head + "Content-Length: 60000\r\n\r\n" + strings.Repeat(" ", 30_000), ""},
		{"body drips", head + "Content-Length: 60000\r\n\r\n" + strings.Repeat(" ", 30_000), " "},
		{"chunks drip", head + "Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n"},
		{"chunk extension drips", head + "Transfer-Encoding: chunked\r\n\r\n1;", "x"},
		{"upload stops", upload + "Content-Length: 60000\r\n\r\n" + strings.Repeat(" ", 30_000), ""},
		{"upload drips", upload + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ts := startServer(t, func(c *httpapi.Config) { c.HeaderTimeout, c.BodyTimeout = 200*time.Millisecond, 200*time.Millisecond })
			p := dial(t, ts)
			p.send(test.request)
			stop := make(chan struct{})
			var dripping sync.WaitGroup
			dripping.Go(func() {
				ticker := time.NewTicker(20 * time.Millisecond)
				defer ticker.Stop()
				for {
					select {
					case <-stop:
						return
					case <-ticker.C:
						p.send(test.drip)
					}
				}
			})
			begin := time.Now()
			status, body := p.answer("POST")
			close(stop)
			dripping.Wait()
			if status != 408 || time.Since(begin) > 15*time.Second {
				t.Errorf("answer %d %s after %v, want 408 soon after 200ms", status, body, time.Since(begin))
			}
			if n := ts.library.versions(); n != 0 {
				t.Errorf("%d versions exist", n)
			}
		})
	}
}

func TestASlowBodyWithProgressIsTaken(t *testing.T) {
	t.Parallel()
	ts := startServer(t, func(c *httpapi.Config) { c.BodyTimeout = 2 * time.Second })
	p := dial(t, ts)
	p.send("POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 163840\r\n\r\n")
	for range 10 {
		time.Sleep(250 * time.Millisecond) // the pace of the sender is what is tested
		p.send(strings.Repeat(" ", httpapi.BodyProgress))
	}
	if status, body := p.answer("POST"); status != 400 {
		t.Errorf("answer %d %s, want 400 for a body of spaces, after more than one timeout", status, body)
	}
}
