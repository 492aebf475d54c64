package perf

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// patience bounds what a test waits for.
const patience = time.Minute

// scripted accepts connections and hands each to serve.
func scripted(t *testing.T, serve func(net.Conn, *bufio.Reader)) *Request {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				serve(c, bufio.NewReader(c))
			}()
		}
	}()
	return post(t, "http://"+l.Addr().String(), []byte("body"))
}

func post(t *testing.T, base string, body []byte) *Request {
	t.Helper()
	r, err := NewPost(base, "/infer", "", body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// readRequest reads a request with its body; false at the end of the connection.
func readRequest(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

func answerOK(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") }

func TestConnectionIsKept(t *testing.T) {
	accepted := make(chan struct{}, 10)
	r := scripted(t, func(c net.Conn, in *bufio.Reader) {
		accepted <- struct{}{}
		for readRequest(in) {
			answerOK(c)
		}
	})
	c := newConnection(r, patience, 1)
	defer c.close()
	for range 5 {
		if err := c.call(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(accepted) != 1 || c.reconnects != 0 {
		t.Errorf("%d connections, %d reconnects", len(accepted), c.reconnects)
	}
}

func TestConnectionThatTheServerClosedIsReplacedWithinTheCall(t *testing.T) {
	r := scripted(t, func(c net.Conn, in *bufio.Reader) {
		if readRequest(in) {
			answerOK(c)
		}
	})
	c := newConnection(r, patience, 1)
	defer c.close()
	for i := range 5 {
		if err := c.call(t.Context()); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if c.reconnects != 4 {
		t.Errorf("%d reconnects, want 4", c.reconnects)
	}
}

func TestNewConnectionThatTheServerClosesIsAnError(t *testing.T) {
	r := scripted(t, func(_ net.Conn, in *bufio.Reader) { readRequest(in) })
	c := newConnection(r, patience, 1)
	defer c.close()
	if err := c.call(t.Context()); err == nil || !strings.Contains(err.Error(), "before it answered") || c.reconnects != 0 {
		t.Errorf("%v, %d reconnects", err, c.reconnects)
	}
}

func TestRefusalIsReadAlthoughTheBodyIsStillBeingSent(t *testing.T) {
	r := scripted(t, func(c net.Conn, in *bufio.Reader) {
		if _, err := in.Peek(1); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 21\r\n\r\n{\"error\":\"too large\"}")
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, in)
	})
	big := *r
	big.bytes = append([]byte("POST /infer HTTP/1.1\r\nContent-Length: 8000000\r\n\r\n"), make([]byte, 8_000_000)...)
	c := newConnection(&big, patience, 1)
	defer c.close()
	err := c.call(t.Context())
	if refused, ok := errors.AsType[*refusal](err); !ok || refused.status != 413 || refused.text != "too large" {
		t.Errorf("got %v", err)
	}
}

func TestServerThatDoesNotAnswerIsATimeout(t *testing.T) {
	r := scripted(t, func(_ net.Conn, in *bufio.Reader) {
		for readRequest(in) {
			continue
		}
	})
	err := r.Try(t.Context(), 30*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "no answer within 30ms") || edgewise.KindOf(err) != edgewise.Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestEndOfTheContextAbortsACall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := scripted(t, func(_ net.Conn, in *bufio.Reader) {
		readRequest(in)
		cancel()
		readRequest(in)
	})
	c := newConnection(r, time.Hour, 1)
	defer c.close()
	finished := make(chan error, 1)
	go func() { finished <- c.call(ctx) }()
	select {
	case err := <-finished:
		if err == nil {
			t.Error("the call succeeded")
		}
	case <-time.After(patience):
		t.Fatal("the call does not end")
	}
}

func TestServerThatIsNotThereIsUnavailable(t *testing.T) {
	r := post(t, "http://127.0.0.1:1", nil)
	err := r.Try(t.Context(), time.Second)
	if err == nil || edgewise.KindOf(err) != edgewise.Unavailable || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

func TestRefusedTryHasTheKindOfItsStatus(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":"no such model"}`)
	}))
	defer s.Close()
	err := post(t, s.URL, nil).Try(t.Context(), patience)
	if err == nil || err.Error() != "no such model" || edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("got %v", err)
	}
}

func TestBasesThatAreNoURLAreRefused(t *testing.T) {
	for _, base := range []string{"", "localhost:8000", "ftp://x", "http://", "http://:80", "http://a b"} {
		if _, err := NewPost(base, "/", "", nil); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("%q: got %v", base, err)
		}
	}
}

func TestRequestNamesTheHostAndKeepsThePathOfTheBase(t *testing.T) {
	for base, want := range map[string]string{
		"http://box":             "box:80 POST /infer HTTP/1.1 Host: box",
		"https://box/gateway/":   "box:443 POST /gateway/infer HTTP/1.1 Host: box",
		"http://[::1]:8000":      "[::1]:8000 POST /infer HTTP/1.1 Host: [::1]:8000",
		"http://box:81/a%20b/c/": "box:81 POST /a%20b/c/infer HTTP/1.1 Host: box:81",
	} {
		r := post(t, base, []byte("x"))
		lines := strings.SplitN(string(r.bytes), "\r\n", 3)
		if got := r.address + " " + lines[0] + " " + lines[1]; got != want {
			t.Errorf("%s: got %q, want %q", base, got, want)
		}
	}
}
