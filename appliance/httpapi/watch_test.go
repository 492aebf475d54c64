package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// waitForEnd makes inferences wait until their context ends, or for limit.
func waitForEnd(ts *testServer, limit time.Duration) (began chan struct{}, ended chan error) {
	began, ended = make(chan struct{}, 1), make(chan error, 1)
	ts.engine.hook = func(ctx context.Context, _ *edgewise.Request) {
		began <- struct{}{}
		select {
		case <-ctx.Done():
			ended <- context.Cause(ctx)
		case <-time.After(limit):
			ended <- nil
		}
	}
	return began, ended
}

func TestAClientThatLeavesCancelsItsRequest(t *testing.T) {
	for _, test := range []struct {
		name, path, body string
		leave            func(c *net.TCPConn) error
	}{
		{"closes", "infer", tinyInfer, (*net.TCPConn).Close},
		{"closes its side", "infer", tinyInfer, (*net.TCPConn).CloseWrite},
		{"resets", "infer", tinyInfer, func(c *net.TCPConn) error {
			if err := c.SetLinger(0); err != nil {
				return err
			}
			return c.Close()
		}},
		{"closes a generate request", "generate", `{"x":[1,2,3,4]}`, (*net.TCPConn).Close},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := startServer(t, nil)
			began, ended := waitForEnd(ts, 30*time.Second)
			p := dial(t, ts)
			p.send(fmt.Sprintf("POST /v2/models/echo/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", test.path,
				len(test.body), test.body))
			<-began
			if err := test.leave(p.conn.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the request ended with %v, want %v", err, context.Canceled)
			}
		})
	}
}

func TestAClientThatStaysIsAnswered(t *testing.T) {
	ts := startServer(t, nil)
	began, ended := waitForEnd(ts, 8*httpapi.WatchInterval)
	p := dial(t, ts)
	for range 2 {
		p.send(fmt.Sprintf("POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
			len(tinyInfer), tinyInfer))
		<-began
		// What a client sends ahead is no sign of its leaving.
		p.send("GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if err := <-ended; err != nil {
			t.Errorf("the request ended with %v", err)
		}
		if status, body := p.answer("POST"); status != 200 {
			t.Errorf("answer %d %s", status, body)
		}
		if status, _ := p.answer("GET"); status != 200 {
			t.Errorf("the request after it: %d", status)
		}
	}
}

func TestTheWatcherStopsWhenNothingHappens(t *testing.T) {
	ts := startServer(t, nil)
	for range 2 { // it begins again, too
		ts.do(t, "GET", "/v2/health/live", "")
		if !ts.WatcherOn() {
			t.Error("a request does not begin it")
		}
		for end := time.Now().Add(time.Minute); ts.WatcherOn(); time.Sleep(httpapi.WatchInterval) {
			if time.Now().After(end) {
				t.Fatal("it does not end")
			}
		}
	}
}

func TestABodyMayNotHaveTooManyChunks(t *testing.T) {
	ts := startServer(t, nil)
	for _, test := range []struct {
		name   string
		chunks int
		status int
	}{{"as many as are allowed", httpapi.MaxChunks, 200}, {"too many", httpapi.MaxChunks + 1, 400}} {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, ts)
			spaces := test.chunks - 1
			text := fmt.Sprintf("%s%x\r\n%s\r\n0\r\n\r\n", strings.Repeat("1\r\n \r\n", spaces), len(tinyInfer), tinyInfer)
			go p.send("POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + text)
			status, body := p.answer("POST")
			if status != test.status || status == 400 &&
				body != `{"error":"Chunked request body exceeds maximum of 65536 non-empty chunks. Send fewer or larger HTTP `+
					`chunks.","code":"invalid","limit":65536}` {
				t.Errorf("answer %d %s, want %d", status, body, test.status)
			}
		})
	}
}
