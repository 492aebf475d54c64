package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// wire is what a strict reader finds on a connection: requests, and what it could not read.
type wire struct {
	rest     []byte
	requests []string // method, target and body of each
}

var errFraming = errors.New("not a request of RFC 9112")

// strict reads requests in the one form that RFC 9112 has for each part. It stops at the first byte that has another,
// and behind a request after which the connection ends.
func strict(sent []byte) []string {
	w := &wire{rest: sent}
	for {
		for bytes.HasPrefix(w.rest, []byte("\r\n")) || bytes.HasPrefix(w.rest, []byte("\n")) {
			w.rest = w.rest[bytes.IndexByte(w.rest, '\n')+1:] // empty lines before a request are ignored (section 2.2)
		}
		last, err := w.request()
		if err != nil || last {
			return w.requests
		}
	}
}

func (w *wire) line() (string, error) {
	line, rest, ok := bytes.Cut(w.rest, []byte("\r\n"))
	if !ok || bytes.ContainsAny(line, "\r\n\x00") {
		return "", errFraming
	}
	w.rest = rest
	return string(line), nil
}

func (w *wire) request() (last bool, err error) {
	first, rest, ok := bytes.Cut(w.rest, []byte("\n")) // the only line that may end in LF alone (section 2.2)
	parts := strings.Split(strings.TrimSuffix(string(first), "\r"), " ")
	if !ok || len(parts) != 3 || !token(parts[0]) || parts[1] == "" || parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0" {
		return false, errFraming
	}
	w.rest = rest
	// no headers: all lines of the head may end in LF alone
	if parts[2] == "HTTP/1.0" && bytes.HasPrefix(rest, []byte("\n")) {
		w.requests = append(w.requests, fmt.Sprintf("%s %s ", parts[0], parts[1]))
		return true, nil
	}
	fields := map[string][]string{}
	for {
		line, err := w.line()
		if err != nil {
			return false, err
		}
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !token(name) {
			return false, errFraming
		}
		fields[strings.ToLower(name)] = append(fields[strings.ToLower(name)], strings.Trim(value, " \t"))
	}
	body, chunked, err := w.body(fields, parts[2])
	if err != nil {
		return false, err
	}
	w.requests = append(w.requests, fmt.Sprintf("%s %s %x", parts[0], parts[1], body))
	return chunked || parts[2] == "HTTP/1.0", nil
}

func token(s string) bool {
	return s != "" &&
		strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

func (w *wire) body(fields map[string][]string, protocol string) (body []byte, chunked bool, err error) {
	lengths, codings := fields["content-length"], fields["transfer-encoding"]
	switch {
	case len(lengths)+len(codings) == 0:
		return nil, false, nil
	case len(lengths)+len(codings) > 1:
		return nil, false, errFraming
	case len(codings) == 1:
		if !strings.EqualFold(codings[0], "chunked") || protocol != "HTTP/1.1" {
			return nil, false, errFraming
		}
		body, err = w.chunks()
		return body, true, err
	}
	n, err := strconv.ParseUint(lengths[0], 10, 31)
	if err != nil || n > uint64(len(w.rest)) {
		return nil, false, errFraming
	}
	body, w.rest = w.rest[:n], w.rest[n:]
	return body, false, nil
}

func (w *wire) chunks() (body []byte, err error) {
	for {
		line, err := w.line()
		if err != nil {
			return nil, err
		}
		digits, extension, _ := strings.Cut(line, ";")
		n, err := strconv.ParseUint(digits, 16, 60)
		if err != nil || strings.Trim(digits, "0123456789abcdefABCDEF") != "" || len(line) > httpapi.MaxChunkLine {
			return nil, errFraming
		}
		for _, b := range []byte(extension) {
			if b != '\t' && b < ' ' || b == 0x7f {
				return nil, errFraming
			}
		}
		if n == 0 {
			if !bytes.HasPrefix(w.rest, []byte("\r\n")) {
				return nil, errFraming
			}
			w.rest = w.rest[2:]
			return body, nil
		}
		if n+2 > uint64(len(w.rest)) || string(w.rest[n:n+2]) != "\r\n" {
			return nil, errFraming
		}
		body, w.rest = append(body, w.rest[:n]...), w.rest[n+2:]
	}
}

// echoing is a server whose every route notes what it was asked.
type echoing struct {
	address string
	mu      sync.Mutex
	ran     []string
}

func newEchoing(t testing.TB) *echoing {
	t.Helper()
	s := wholeTable(t, httpapi.Config{HeaderTimeout: time.Minute, AllowedHosts: []string{"*"}}, nil)
	e := &echoing{address: filepath.Join(t.TempDir(), "socket")}
	s.HandleAll(func(route httpapi.Route) httpapi.Handler {
		return func(r *httpapi.Request) error { return e.note(r, route.Stream) }
	})
	ln, err := net.Listen("unix", e.address)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return e
}

func (e *echoing) note(r *httpapi.Request, streamed bool) error {
	header := &r.Request().Header
	line := fmt.Sprintf("%s %s", header.Method(), header.RequestURI())
	var body []byte
	var err error
	if !streamed {
		body = r.Request().Body()
	} else if body, err = io.ReadAll(r.Stream); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ran = append(e.ran, fmt.Sprintf("%s %x", line, body))
	return nil
}

// send sends bytes on one connection, closes its side, and waits until the server has closed the other. It returns what
// ran. Only one goroutine sends.
func (e *echoing) send(t *testing.T, sent []byte) []string {
	t.Helper()
	c, err := net.Dial("unix", e.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		_, _ = c.Write(sent)
		_ = c.(*net.UnixConn).CloseWrite()
	}()
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the server did not close the connection")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ran := e.ran
	e.ran = nil
	return ran
}

// framings are bytes of one connection, and how many requests they are.
var framings = []struct {
	text string
	ran  int
}{
	{"GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n", 1},
	{"\r\nGET /v2 HTTP/1.1\r\nHost: a\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /v2 HTTP/1.1\r\nHost: a\r\n\r\n", 2},
	{"POST /v2/logging HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcPUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: " +
		"0\r\n\r\n", 2},
	{"POST /v2/logging HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /v2 " +
		"HTTP/1.1\r\nHost: a\r\n\r\n", 1},
	{
		"POST /api/v1/models/m/versions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n00\r\n\r\n",
		1,
	},
	{"POST /v2/logging HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\nGET /v2 " +
		"HTTP/1.1\r\nHost: a\r\n\r\n", 0},
	{"POST /v2/logging HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\nGET /v2 " +
		"HTTP/1.1\r\nHost: a\r\n\r\n", 0},
	{"POST /v2/logging HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\nGET /v2 HTTP/1.1\r\nHost: a\r\n\r\n", 0},
	{"POST /v2/logging HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 0},
	{"POST /v2/logging HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", 0},
	{"POST /v2/logging HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc", 0},
	{"POST /v2/logging HTTP/1.1\nHost: a\nContent-Length: 3\n\nabcGET /v2 HTTP/1.1\r\nHost: a\r\n\r\n", 0},
	{"GET /v2 HTTP/1.1\r\nHost: a\r\n X: y\r\n\r\n", 0},
	{"GET /v2 HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 0},
	{"GET /v2 HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 0},
	{"GET /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n", 0},
	{"HEAD / HTTP/1.0\n\n\r\n\r\n", 1},
	{"GET /v2 HTTP/1.0\n\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 1},
	{"GET /v2 HTTP/1.0\r\n\r\nGET /v2 HTTP/1.0\r\n\r\n", 1},
	{"GET /v2 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}GET /v2 HTTP/1.1\r\nHost: " +
		"a\r\n\r\n", 2},
	{"HEAD /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}DELETE /api/v1/models/m HTTP/1.1\r\nHost: a\r\n\r\n", 2},
}

// check holds what the server ran against what the strict reader saw, and returns how many requests ran.
func (e *echoing) check(t *testing.T, sent []byte) int {
	t.Helper()
	ran, seen := e.send(t, sent), strict(sent)
	for i := range ran {
		if i >= len(seen) || ran[i] != seen[i] {
			t.Fatalf("of %q ran\n%q\nwhere a strict reader sees\n%q", sent, ran, seen)
		}
	}
	return len(ran)
}

func TestOnlyRequestsThatAStrictReaderSeesRun(t *testing.T) {
	e := newEchoing(t)
	for _, test := range framings {
		if n := e.check(t, []byte(test.text)); n != test.ran {
			t.Errorf("of %q ran %d, want %d", test.text, n, test.ran)
		}
	}
}

// FuzzFraming sends bytes to the server and to a strict reader. Each request that the server runs is the one that the
// strict reader sees at that place.
func FuzzFraming(f *testing.F) {
	for _, seed := range framings {
		f.Add([]byte(seed.text))
	}
	e := newEchoing(f)
	f.Fuzz(func(t *testing.T, sent []byte) { e.check(t, sent) })
}
