package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// probe is a raw connection.
type probe struct {
	t    testing.TB
	conn net.Conn
	br   *bufio.Reader
}

func dial(t testing.TB, ts *testServer) *probe {
	t.Helper()
	c, err := net.Dial("tcp", ts.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &probe{t: t, conn: c, br: bufio.NewReader(c)}
}

// send writes text. That the server may have closed already is what some probes are about.
func (p *probe) send(text string) {
	_, _ = io.WriteString(p.conn, text)
}

// answer reads one answer to a request of the method and returns its status and body.
func (p *probe) answer(method string) (int, string) {
	p.t.Helper()
	resp, err := http.ReadResponse(p.br, &http.Request{Method: method})
	if err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatalf("answer %d: %v", resp.StatusCode, err)
	}
	return resp.StatusCode, string(text)
}

// wantClosed claims that nothing more is answered.
func (p *probe) wantClosed() {
	p.t.Helper()
	rest, err := io.ReadAll(p.br)
	if len(rest) > 0 {
		p.t.Errorf("after the answer came %.200q", rest)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		p.t.Errorf("the connection stayed open")
	}
}

const smuggled = "POST /v2/repository/models/echo/unload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"

func (ts *testServer) wantNotSmuggled(t *testing.T) {
	t.Helper()
	ts.engine.mu.Lock()
	defer ts.engine.mu.Unlock()
	if len(ts.engine.calls) > 0 {
		t.Errorf("the hidden request was executed: %v", ts.engine.calls)
	}
}

func TestBodiesOverTheLimitAreRefusedAndTheConnectionCloses(t *testing.T) {
	ts := startServer(t, nil)
	const mib = 1 << 20
	for _, test := range []struct {
		name    string
		path    string
		headers string
		body    string
	}{
		{"infer, declared", "/v2/models/echo/infer", "Content-Length: 2097152", strings.Repeat("x", 2*mib)},
		{"infer, one byte over", "/v2/models/echo/infer", "Content-Length: 1048577", strings.Repeat("x", mib+1)},
		{"infer, declared beyond all numbers", "/v2/models/echo/infer", "Content-Length: 999999999999999999", "x"},
		{"infer, chunked", "/v2/models/echo/infer", "Transfer-Encoding: chunked", chunks(strings.Repeat("x", mib+1), 64<<10)},
		{"other route, declared", "/v2/repository/index", "Content-Length: 65537", strings.Repeat("x", 65537)},
		{
			"other route, chunked", "/v2/repository/index", "Transfer-Encoding: chunked",
			chunks(strings.Repeat("x", 65537), 1000),
		},
		{
			"upload, declared", "/api/v1/models/m/versions", "Content-Type: application/octet-stream\r\nContent-Length: 4194305",
			strings.Repeat("x", 4*mib+1),
		},
		{
			"upload, chunked", "/api/v1/models/m/versions",
			"Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked",
			chunks(strings.Repeat("x", 4*mib+1), 128<<10),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, ts)
			go p.send("POST " + test.path + " HTTP/1.1\r\nHost: localhost\r\n" + test.headers + "\r\n\r\n" + test.body +
				smuggled)
			status, body := p.answer("POST")
			want := 413
			if strings.HasPrefix(test.path, "/v2/") { // as Triton's clients know it
				want = 400
			}
			if status != want || !strings.Contains(body, `"code":"too_large"`) {
				t.Errorf("answer %d %s, want %d too_large", status, body, want)
			}
			p.wantClosed()
			ts.wantNotSmuggled(t)
			if n := ts.library.versions(); n != 0 {
				t.Errorf("%d versions exist", n)
			}
		})
	}
}

func TestBodiesAtTheLimitAreTaken(t *testing.T) {
	ts := startServer(t, nil)
	for _, test := range []struct{ name, headers, body string }{
		{"declared", "Content-Length: 65536", strings.Repeat(" ", 65536)},
		{"chunked", "Transfer-Encoding: chunked", chunks(strings.Repeat(" ", 65536), 7000)},
		{"chunked, single bytes", "Transfer-Encoding: chunked", chunks(strings.Repeat(" ", 3000), 1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, ts)
			go p.send("POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\n" + test.headers + "\r\n\r\n" + test.body)
			if status, body := p.answer("POST"); status != 200 {
				t.Errorf("answer %d %s, want 200", status, body)
			}
		})
	}
}

// chunks frames body in chunks of n bytes.
func chunks(body string, n int) string {
	var b strings.Builder
	for len(body) > 0 {
		part := body[:min(n, len(body))]
		body = body[len(part):]
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
	}
	return b.String() + "0\r\n\r\n"
}

func TestAnUnreadBodyIsNeverTheNextRequest(t *testing.T) {
	ts := startServer(t, nil)
	pad := strings.Repeat("x", 8192)
	both := pad + smuggled
	for _, test := range []struct {
		name, request string
		status        int
	}{
		{"unknown path", "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 404},
		{"wrong method", "PUT /v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 405},
		{"method of no kind", "BREW /v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 501},
		{"GET with a body", "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 200},
		{"HEAD with a body", "HEAD /v2/health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 200},
		{"refused host", "POST /v2/repository/index HTTP/1.1\r\nHost: evil.example\r\nContent-Length: %d\r\n\r\n", 403},
		{"refused origin", "POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nOrigin: " +
			"http://evil.example\r\nContent-Length: %d\r\n\r\n", 403},
		{"upload of an unknown type", "POST /api/v1/models/m/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
			"text/plain\r\nContent-Length: %d\r\n\r\n", 415},
		{"upload with a bad name", "POST /api/v1/models/%%00/versions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
			"%d\r\n\r\n", 400},
		{"upload with a bad query", "POST /api/v1/models/m/versions?promote=maybe HTTP/1.1\r\nHost: " +
			"localhost\r\nContent-Length: %d\r\n\r\n", 400},
		{"upload of a broken archive", "POST /api/v1/models/m/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
			"application/x-tar\r\nContent-Length: %d\r\n\r\n", 400},
		{
			"infer of an unknown model", "POST /v2/models/none/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
			400,
		},
		{"multipart", "POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; " +
			"boundary=b\r\nContent-Length: %d\r\n\r\n", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, ts)
			go func() {
				p.send(fmt.Sprintf(test.request, len(both)) + both)
				_ = p.conn.(*net.TCPConn).CloseWrite()
			}()
			method, _, _ := strings.Cut(test.request, " ")
			if status, body := p.answer(method); status != test.status {
				t.Errorf("answer %d %s, want %d", status, body, test.status)
			}
			p.wantClosed()
			ts.wantNotSmuggled(t)
		})
	}
}

func TestAmbiguousFramingIsRefused(t *testing.T) {
	ts := startServer(t, nil)
	for _, test := range []struct {
		name, headers string
		status        int
	}{
		{"length and chunked", "Content-Length: 4\r\nTransfer-Encoding: chunked", 400},
		{"chunked and length", "Transfer-Encoding: chunked\r\nContent-Length: 4", 400},
		{"two lengths", "Content-Length: 0\r\nContent-Length: 104", 400},
		{"two equal lengths", "Content-Length: 4\r\nContent-Length: 4", 400},
		{"list of lengths", "Content-Length: 4, 4", 400},
		{"signed length", "Content-Length: +4", 400},
		{"negative length", "Content-Length: -4", 400},
		{"hexadecimal length", "Content-Length: 0x4", 400},
		{"length of 30 digits", "Content-Length: 999999999999999999999999999999", 400},
		{"other encoding", "Transfer-Encoding: xchunked", 400},
		{"gzip, chunked", "Transfer-Encoding: gzip, chunked", 400},
		{"identity", "Transfer-Encoding: identity\r\nContent-Length: 4", 400},
		{"two encodings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", 400},
		{"space before the colon", "Transfer-Encoding : chunked", 400},
		{"folded header", "X: y\r\n Transfer-Encoding: chunked", 400},
		{"two hosts", "Host: localhost", 400},
		{"a bare LF", "X: y\nContent-Length: 4", 400},
		{"a bare CR", "X: y\rContent-Length: 4", 400},
		{"a NUL", "X: y\x00", 400},
		{"a line without a colon", "X", 400},
		{"a name with a space", "X Y: z", 400},
		{"no name", ": z", 400},
		{"a name with a control character", "X\x01: z", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, ts)
			p.send("POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\n" + test.headers + "\r\n\r\n0\r\n\r\n" + smuggled)
			if status, body := p.answer("POST"); status != test.status {
				t.Errorf("answer %d %s, want %d", status, body, test.status)
			}
			p.wantClosed()
			ts.wantNotSmuggled(t)
		})
	}
}

// In these bodies two readers can disagree where a chunk ends, and take what follows for the next request or not.
func TestBadChunksAreRefused(t *testing.T) {
	ts := startServer(t, nil)
	for _, test := range []struct{ name, body string }{
		{"a prefix of the size", "0x2\r\n{}\r\n0\r\n\r\n"},
		{"a sign", "+2\r\n{}\r\n0\r\n\r\n"},
		{"a minus", "-2\r\n{}\r\n0\r\n\r\n"},
		{"a list of sizes", "2,2\r\n{}\r\n0\r\n\r\n"},
		{"no size", "\r\n{}\r\n0\r\n\r\n"},
		{"a space before the size", " 2\r\n{}\r\n0\r\n\r\n"},
		{"a space behind the size", "2 \r\n{}\r\n0\r\n\r\n"},
		{"a letter behind the size", "2g\r\n{}\r\n0\r\n\r\n"},
		{"a bare LF behind the size", "2\n{}\r\n0\r\n\r\n"},
		{"a bare CR behind the size", "2\r{}\r\n0\r\n\r\n"},
		{"two CR behind the size", "2\r\r\n{}\r\n0\r\n\r\n"},
		{"a bare LF behind the chunk", "2\r\n{}\n0\r\n\r\n"},
		{"nothing behind the chunk", "2\r\n{}0\r\n\r\n"},
		{"more than the size", "2\r\n{} \r\n0\r\n\r\n"},
		{"a bare LF behind the last size", "2\r\n{}\r\n0\n\r\n"},
		{"a bare LF at the end", "2\r\n{}\r\n0\r\n\n"},
		{"a trailer", "2\r\n{}\r\n0\r\nX: y\r\n\r\n"},
		{"a trailer that frames", "2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n"},
		{"too many digits", "0000000000000002\r\n{}\r\n0\r\n\r\n"},
		{"a huge size", "fffffffffffffff\r\n{}\r\n0\r\n\r\n"},
		{"a LF in an extension", "2;a\n\r\n{}\r\n0\r\n\r\n"},
		{"a NUL in an extension", "2;a\x00\r\n{}\r\n0\r\n\r\n"},
		{"a long extension", "2;" + strings.Repeat("a", httpapi.MaxChunkLine) + "\r\n{}\r\n0\r\n\r\n"},
	} {
		for _, path := range []string{"/v2/repository/index", "/v2/models/echo/infer", "/api/v1/models/m/versions"} {
			t.Run(test.name+" to "+path, func(t *testing.T) {
				p := dial(t, ts)
				p.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
					"application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + test.body + smuggled)
				_ = p.conn.(*net.TCPConn).CloseWrite()
				if status, body := p.answer("POST"); status != 400 && status != 413 {
					t.Errorf("answer %d %s, want 400", status, body)
				}
				p.wantClosed()
				ts.wantNotSmuggled(t)
				if n := ts.library.versions(); n != 0 {
					t.Errorf("%d versions exist", n)
				}
			})
		}
	}
}

func TestChunkExtensionsAreIgnored(t *testing.T) {
	ts := startServer(t, nil)
	p := dial(t, ts)
	p.send("POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b; " +
		"c=\"d\"\r\n{\r\n01;x\r\n}\r\n000\r\n\r\n" + smuggled)
	if status, body := p.answer("POST"); status != 200 {
		t.Errorf("answer %d %s, want 200", status, body)
	}
	p.wantClosed()
	ts.wantNotSmuggled(t)
}

func TestBadRequestLinesAreRefused(t *testing.T) {
	ts := startServer(t, nil)
	for _, test := range []struct {
		name, line string
		status     int
	}{
		{"absolute target", "GET http://evil.example/v2 HTTP/1.1", 400},
		{"two slashes", "GET //evil.example/v2 HTTP/1.1", 400},
		{"no slash", "GET v2 HTTP/1.1", 400},
		{"space in the target", "GET /v2 /x HTTP/1.1", 400},
		{"NUL in the target", "GET /v2\x00 HTTP/1.1", 400},
		{"other protocol", "GET /v2 HTTP/3.0", 400},
		{"no protocol", "GET /v2", 400},
		{"not HTTP", "\x16\x03\x01\x02", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, ts)
			p.send(test.line + "\r\nHost: localhost\r\n\r\n")
			status, body := p.answer("GET")
			if test.name == "no protocol" && status == 200 {
				return // the library takes it for HTTP/1.0, whose answer is the same
			}
			if status != test.status || !strings.Contains(body, `"error"`) {
				t.Errorf("answer %d %s, want %d", status, body, test.status)
			}
			p.wantClosed()
		})
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	ts := startServer(t, nil)
	p := dial(t, ts)
	one, head := binaryInfer(1000)
	request := func(body string, head int) string {
		return fmt.Sprintf("POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: "+
			"%d\r\nInference-Header-Content-Length: %d\r\n\r\n%s", len(body), head, body)
	}
	two, head2 := binaryInfer(20_000)
	go p.send(request(one, head) + "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n" + request(two, head2) +
		"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n" +
		"POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks("{}", 1) +
		smuggled)
	for i, want := range []struct {
		status int
		end    string
	}{{200, string(floats(1000))}, {200, ""}, {200, string(floats(20_000))}, {404, "}"}, {200, "]"}} {
		status, body := p.answer("POST")
		if status != want.status || !strings.HasSuffix(body, want.end) {
			t.Fatalf("answer %d: %d %.100s, want %d", i, status, body, want.status)
		}
	}
	p.wantClosed() // nothing behind a chunked body is a request
	ts.wantNotSmuggled(t)
}

// TestAFullDiskRefusesBeforeTheBody also lets room come free between the refusal and its answer: the hidden body must
// not become the next request.
func TestAFullDiskRefusesBeforeTheBody(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers string
		body    string
		refused int // calls of Room that find none
		status  int
	}{
		{"nothing sent", "Expect: 100-continue\r\n", "", 2, 507},
		{"body sent", "", smuggled, 2, 507},
		{"room came free", "", smuggled, 1, 503},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := startServer(t, nil)
			ts.library.full = test.refused
			p := dial(t, ts)
			p.send(fmt.Sprintf("POST /api/v1/models/m/versions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
				"application/octet-stream\r\n%sContent-Length: %d\r\n\r\n%s",
				test.headers, len(smuggled), test.body))
			if status, body := p.answer("POST"); status != test.status {
				t.Errorf("answer %d %s, want %d", status, body, test.status)
			}
			p.wantClosed()
			ts.wantNotSmuggled(t)
			if n := ts.library.versions(); n != 0 {
				t.Errorf("%d versions were stored", n)
			}
		})
	}
}

func TestExpectContinueIsAnsweredBeforeTheBody(t *testing.T) {
	ts := startServer(t, nil)
	for _, test := range []struct {
		name, path string
		length     int
		headers    string
		refused    int // status without a 100 before it
	}{
		{"taken", "/v2/repository/index", 2, "", 0},
		{"taken, beyond the first read", "/v2/repository/index", 60_000, "", 0},
		{"upload taken", "/api/v1/models/m/versions", 100_000, "Content-Type: application/octet-stream\r\n", 0},
		{"too large", "/v2/repository/index", 65537, "", 400},
		{"upload too large", "/api/v1/models/m/versions", 4<<20 + 1, "", 413},
		{"foreign origin", "/api/v1/models/m/versions", 10, "Origin: https://evil.example\r\n", 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, ts)
			p.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n%sContent-Length: %d\r\n\r\n",
				test.path, test.headers, test.length))
			if test.refused != 0 {
				if status, body := p.answer("POST"); status != test.refused {
					t.Errorf("answer %d %s, want %d", status, body, test.refused)
				}
				p.wantClosed()
				return
			}
			if line, err := p.br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("first line %q, %v; want 100 Continue", line, err)
			}
			_, _ = p.br.ReadString('\n')
			p.send(strings.Repeat(" ", test.length))
			if status, body := p.answer("POST"); status != 200 && status != 201 {
				t.Errorf("answer %d %s", status, body)
			}
			p.send("GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if status, _ := p.answer("GET"); status != 200 {
				t.Errorf("the next request on the connection: %d, want 200", status)
			}
		})
	}
}

func TestAClientThatClosedItsHalfIsAnswered(t *testing.T) {
	p := dial(t, startServer(t, nil))
	body, head := binaryInfer(30_000)
	p.send(fmt.Sprintf("POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: "+
		"%d\r\nInference-Header-Content-Length: %d\r\n\r\n%s", len(body), head, body))
	_ = p.conn.(*net.TCPConn).CloseWrite()
	if status, answer := p.answer("POST"); status != 200 || !strings.HasSuffix(answer, string(floats(30_000))) {
		t.Errorf("answer %d of %d bytes", status, len(answer))
	}
	p.wantClosed()
}

func TestHeadersOverTheLimitAreRefused(t *testing.T) {
	p := dial(t, startServer(t, nil))
	go p.send("GET /v2 HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("y", 1<<20) + "\r\n\r\n")
	if status, body := p.answer("GET"); status != 431 || !strings.Contains(body, "4096 bytes") {
		t.Errorf("answer %d %s, want 431 with the limit", status, body)
	}
	p.wantClosed()
}

func TestConnectionsOverTheLimitAreRefused(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) { c.MaxConnections = 3 })
	var held []*probe
	for range 3 {
		p := dial(t, ts)
		p.send("GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if status, _ := p.answer("GET"); status != 200 {
			t.Fatalf("answer %d, want 200", status)
		}
		held = append(held, p)
	}
	over := dial(t, ts)
	if status, body := over.answer("GET"); status != 503 || !strings.Contains(body, `"code":"busy"`) {
		t.Errorf("answer %d %s, want 503 busy", status, body)
	}
	over.wantClosed()
	_ = held[0].conn.Close()
	waitFor(t, func() bool { return ts.Server.Statistics().Connections < 3 })
	again := dial(t, ts)
	again.send("GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if status, _ := again.answer("GET"); status != 200 {
		t.Errorf("after one left: %d, want 200", status)
	}
}

func TestMemoryOfAllRequestsTogetherIsBounded(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) { c.MaxInflightBytes = 2 << 20 })
	entered, proceed := make(chan struct{}), make(chan struct{})
	ts.engine.hook = func(context.Context, *edgewise.Request) { entered <- struct{}{}; <-proceed }
	body, head := binaryInfer(200_000) // 800 kB
	send := func() *probe {
		p := dial(t, ts)
		go p.send(fmt.Sprintf("POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: "+
			"%d\r\nInference-Header-Content-Length: %d\r\n\r\n%s", len(body), head, body))
		return p
	}
	first := []*probe{send(), send()}
	<-entered
	<-entered
	over := send()
	resp, err := http.ReadResponse(over.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	third := make([]byte, 4096)
	n, _ := io.ReadFull(resp.Body, third)
	if resp.StatusCode != 503 && n > 0 {
		t.Errorf("a third body: %d %s, want 503", resp.StatusCode, third[:n])
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After is %q", resp.Header.Get("Retry-After"))
	}
	close(proceed)
	for _, p := range first {
		if status, _ := p.answer("POST"); status != 200 && status != 503 {
			t.Errorf("a body within the limit: %d", status)
		}
	}
}

func TestAPanicIsAnsweredAndCounted(t *testing.T) {
	ts := startServer(t, nil)
	ts.engine.hook = func(context.Context, *edgewise.Request) { panic("boom") }
	resp, body := ts.do(t, "POST", "/v2/models/echo/infer",
		`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]}`)
	if resp.StatusCode != 500 || strings.Contains(body, "boom") || !strings.Contains(body, `"code":"internal"`) {
		t.Errorf("answer %d %s, want 500 without the panic's text", resp.StatusCode, body)
	}
	if n := ts.Server.Statistics().Panics; n != 1 {
		t.Errorf("%d panics counted, want 1", n)
	}
	if resp, _ := ts.do(t, "GET", "/v2/health/live", ""); resp.StatusCode != 200 {
		t.Errorf("after a panic: %d, want 200", resp.StatusCode)
	}
}
