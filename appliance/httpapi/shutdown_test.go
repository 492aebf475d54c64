package httpapi_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

const tinyInfer = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}`

func (p *probe) sendTinyInfer() {
	p.send("POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 74\r\n\r\n" + tinyInfer)
}

func TestShutdownLetsRequestsInProgressEnd(t *testing.T) {
	ts := startServer(t, nil)
	entered, proceed := make(chan struct{}), make(chan struct{})
	ts.engine.hook = func(context.Context, *edgewise.Request) { close(entered); <-proceed }
	idle, fresh, busy := dial(t, ts), dial(t, ts), dial(t, ts)
	idle.send("GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
	idle.answer("GET")
	busy.sendTinyInfer()
	<-entered
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		done <- ts.Shutdown(ctx)
	}()
	idle.wantClosed()
	fresh.wantClosed()
	if c, err := net.Dial("tcp", ts.addr); err == nil {
		_ = c.Close()
		t.Error("a stopping server takes a new connection")
	}
	close(proceed)
	if status, body := busy.answer("POST"); status != 200 {
		t.Errorf("the request in progress: %d %s, want 200", status, body)
	}
	busy.wantClosed()
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ts.Serve(ln); edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("Serve after Shutdown: %v, want a conflict", err)
	}
}

// TestAServerThatIsLeftEndsConnectionsWithTheirNextAnswer keeps a connection, and makes a new one, while the server is left.
func TestAServerThatIsLeftEndsConnectionsWithTheirNextAnswer(t *testing.T) {
	ts := startServer(t, nil)
	kept := dial(t, ts)
	kept.sendTinyInfer()
	if status, body := kept.answer("POST"); status != 200 {
		t.Fatalf("before: %d %s, want 200", status, body)
	}
	ts.Leave()
	for name, p := range map[string]*probe{"kept": kept, "new": dial(t, ts)} {
		p.sendTinyInfer()
		response, err := http.ReadResponse(p.br, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if response.StatusCode != 200 || !response.Close {
			t.Errorf("%s: answer %d, says that it closes: %v; want 200 and true", name, response.StatusCode, response.Close)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		p.wantClosed()
	}
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	ts := startServer(t, nil)
	entered := make(chan struct{})
	ts.engine.hook = func(ctx context.Context, _ *edgewise.Request) { close(entered); <-ctx.Done() }
	busy := dial(t, ts)
	busy.sendTinyInfer()
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := ts.Shutdown(ctx)
	if err == nil || edgewise.KindOf(err) != edgewise.Deadline ||
		!strings.Contains(err.Error(), "1 connections were cut off") {
		t.Errorf("Shutdown: %v, want 1 connection cut off", err)
	}
	busy.wantClosed()
}

// TestShutdownWaitsForAnAnswerThatIsBeingMade cuts the connection of a client that does not read. What is written then fails,
// and whoever writes it still uses the parts that the box closes after the server.
func TestShutdownWaitsForAnAnswerThatIsBeingMade(t *testing.T) {
	ts := startServer(t, nil)
	cut, release := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	ts.Handle(httpapi.Route{Method: "GET", Path: "/api/v1/endless", Handler: func(r *httpapi.Request) error {
		r.SendWritten("an endless answer", func(w io.Writer) (err error) {
			for err == nil {
				_, err = w.Write(make([]byte, 64<<10))
			}
			close(cut)
			<-release
			ended.Store(true)
			return err
		})
		return nil
	}})
	p := dial(t, ts)
	p.send("GET /api/v1/endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := p.br.ReadByte(); err != nil { // it is being made
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = ts.Shutdown(ctx)
		close(done)
	}()
	<-cut
	time.AfterFunc(50*time.Millisecond, func() { close(release) }) // a Shutdown that does not wait has returned before
	<-done
	if !ended.Load() {
		t.Error("the server is shut down while an answer is being made")
	}
}

func TestARequestEndsAtItsDeadline(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) { c.RequestTimeout = 20 * time.Millisecond })
	ts.engine.hook = func(ctx context.Context, _ *edgewise.Request) { <-ctx.Done() }
	resp, body := ts.do(t, "POST", "/v2/models/echo/infer", tinyInfer)
	if resp.StatusCode != 504 || !strings.Contains(body, `"code":"deadline"`) {
		t.Errorf("answer %d %s, want 504", resp.StatusCode, body)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) { c.IdleTimeout = 50 * time.Millisecond })
	p := dial(t, ts)
	p.send("GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
	p.answer("GET")
	p.wantClosed()
}

func TestAClientThatDoesNotReadIsDropped(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) {
		c.WriteTimeout, c.MaxInferBytes, c.MaxInflightBytes = 100*time.Millisecond, 32<<20, 128<<20
	})
	body, head := binaryInfer(7 << 20)
	p := dial(t, ts)
	_ = p.conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	p.send(inferRequest(body, head))
	waitFor(t, func() bool { return ts.Server.Statistics().Connections == 0 })
}

// waitFor waits until cond holds.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within a minute")
		}
	}
}
