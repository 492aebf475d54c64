package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// httpRequest is a request as it goes over the wire.
func httpRequest(path, headers, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), headers, body)
}

// numbers is the body of an inference that is told apart by its id and its one number.
func numbers(id string, n int) string {
	return fmt.Sprintf(`{"id":"%s","inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[%d]}]}`, id, n)
}

const echoPath = "/v2/models/echo/infer"

// raw reads one answer as it is on the wire, its date blotted out.
func (p *probe) raw() string {
	p.t.Helper()
	var text strings.Builder
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(p.br, &text)), &http.Request{Method: "POST"})
	if err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		p.t.Fatalf("answer %d: %v", resp.StatusCode, err)
	}
	if _, err := http.ParseTime(resp.Header.Get("Date")); err != nil {
		p.t.Errorf("Date: %v", err)
	}
	return regexp.MustCompile(`Date: [^\r]*`).ReplaceAllString(text.String(), "Date: now")
}

// wantRouted claims that n requests went the way of the library so far.
func (ts *testServer) wantRouted(t *testing.T, n int64) {
	t.Helper()
	if got := ts.routed.Load(); got != n {
		t.Errorf("%d requests went through the router, want %d", got, n)
	}
}

func TestAHeadThatComesAgainIsAnsweredTheSame(t *testing.T) {
	binary, jsonSize := binaryInfer(4)
	large, largeJSON := binaryInfer(50_000)
	classes := `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}],"outputs":[{"name":"y","parameters":{"classification":1}}]}`
	for _, test := range []struct{ name, path, headers, body string }{
		{"JSON", echoPath, "", tinyInfer},
		{"binary", echoPath, fmt.Sprintf("Inference-Header-Content-Length: %d\r\n", jsonSize), binary},
		{"binary of many pieces", echoPath, fmt.Sprintf("Inference-Header-Content-Length: %d\r\n", largeJSON), large},
		{"raw binary", echoPath, "Inference-Header-Content-Length: 0\r\n", string(floats(4))},
		{"classes", echoPath, "Content-Type: application/json\r\nconnection: Keep-Alive\r\n", classes},
		{"a version, percent-encoded, with a query", "/v2/models/%65cho/versions/3/infer?a=b", "X-Other: 1\r\n", tinyInfer},
		{"an error of the request", echoPath, "", `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":["no"]}]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := startServer(t, nil)
			p := dial(t, ts)
			first, routed := "", int64(1)
			if strings.HasPrefix(test.name, "an error") {
				p.send(httpRequest(test.path, test.headers, tinyInfer)) // only an answer makes a head familiar
				p.raw()
				fresh := dial(t, ts)
				fresh.send(httpRequest(test.path, test.headers, test.body))
				first, routed = fresh.raw(), 2
			} else {
				p.send(httpRequest(test.path, test.headers, test.body))
				first = p.raw()
			}
			for range 3 {
				p.send(httpRequest(test.path, test.headers, test.body))
				if again := p.raw(); again != first {
					t.Fatalf("then came\n%.400s\ninstead of\n%.400s", again, first)
				}
			}
			ts.wantRouted(t, routed)
		})
	}
}

func TestTheLengthOfABodyMayChange(t *testing.T) {
	ts := startServer(t, nil)
	p := dial(t, ts)
	for n := range 3000 {
		if n%7 == 0 {
			n *= 1_000_003
		}
		p.send(httpRequest(echoPath, "", numbers(fmt.Sprint("id", n), n)))
		if _, body := p.answer("POST"); !strings.Contains(body, fmt.Sprintf(`"id":"id%d"`, n)) {
			t.Fatalf("the answer to %d is %s", n, body)
		}
	}
	ts.wantRouted(t, 1)
}

func TestABinaryTensorIsAlignedAgain(t *testing.T) {
	ts := startServer(t, nil)
	var at atomic.Uint64
	ts.engine.hook = func(_ context.Context, req *edgewise.Request) {
		at.Store(uint64(uintptr(unsafe.Pointer(&req.Inputs[0].Data[0]))))
	}
	for _, n := range []int{10, 50_000} {
		p := dial(t, ts)
		for range 3 {
			p.send(inferRequest(binaryInfer(n)))
			p.answer("POST")
			if at.Load()%alignment != 0 {
				t.Errorf("a tensor of %d floats lay at %#x", n, at.Load())
			}
		}
	}
	ts.wantRouted(t, 2)
}

// Whatever a connection brings, in whatever pieces, one after the other or many at a time: its answers are those that each request has
// alone.
func TestAnyMixOfRequestsOnOneConnectionIsAnsweredInOrder(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.MaxHeaderBytes = 16 << 10 })
	binary, jsonSize := binaryInfer(300)
	requests := []string{
		httpRequest(echoPath, "", numbers("a", 1)), httpRequest(echoPath, "", numbers("bb", 22)), httpRequest(echoPath, "", numbers("ccc", 333)),
		httpRequest(echoPath, "", numbers("a", 1)), httpRequest(echoPath, "", numbers("", 4)), inferRequest(binary, jsonSize), inferRequest(binaryInfer(5000)),
		httpRequest("/v2/models/echo/versions/1/infer", "", numbers("v", 5)),
		httpRequest(echoPath, "", "{}"), httpRequest(echoPath, "X: y\r\n", numbers("a", 1)),
		httpRequest(echoPath, "Content-Type: text/plain\r\n", "hello POST "+echoPath+" HTTP/1.1\r\n\r\n"),
		"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /v2/models/echo HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		httpRequest("/v2/models/none/infer", "", numbers("n", 6)), httpRequest("/v2/nothing", "", "{}"),
		httpRequest(echoPath, "Accept-Encoding: gzip\r\n", numbers("zip", 8)),
		// After these nobody but the library knows where the next request begins.
		"POST " + echoPath + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(tinyInfer), tinyInfer),
		"POST " + echoPath + " HTTP/1.1\nHost: localhost\nContent-Length: 74\n\n" + tinyInfer,
		"GET /v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
		httpRequest(echoPath, "X-Long: "+strings.Repeat("x", maxKnownHead)+"\r\n", numbers("long", 7)),
	}
	want := make([]string, len(requests))
	for i, r := range requests {
		p := dial(t, ts)
		p.send(r)
		want[i] = p.one()
		_ = p.conn.Close()
	}
	const lost = 4
	all := 0
	for seed := range uint64(80) {
		random := rand.New(rand.NewPCG(seed, 1))
		var order []int
		for len(order) < 60 {
			kinds := len(requests)
			if len(order) < 40 {
				kinds -= lost
			}
			for i := random.IntN(kinds); ; {
				order = append(order, i)
				if random.IntN(3) == 0 {
					break
				}
			}
		}
		p := dial(t, ts)
		if seed%2 == 0 {
			go p.pieces(random, requests, order)
		}
		for n, i := range order {
			if seed%2 == 1 {
				p.pieces(random, requests, order[n:n+1])
			}
			if got := p.one(); got != want[i] {
				t.Fatalf("seed %d: answer %d is\n%.400s\nand to its request alone it is\n%.400s", seed, n, got, want[i])
			}
		}
		all += len(order)
		_ = p.conn.Close()
	}
	if n := int(ts.routed.Load()); n < all/4 || n > all*9/10 {
		t.Errorf("%d of %d requests went through the router: the test is to try both ways", n, all)
	}
}

// pieces sends requests one by one, several at a time, or cut anywhere.
func (p *probe) pieces(random *rand.Rand, requests []string, order []int) {
	var held string
	for _, i := range order {
		held += requests[i]
		switch random.IntN(4) {
		case 0: // with the next one
		case 1:
			cut := random.IntN(len(held))
			p.send(held[:cut])
			time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond) // so that it is read alone; nothing depends on it
			held = held[cut:]
		default:
			p.send(held)
			held = ""
			time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
		}
	}
	p.send(held)
}

// one reads one answer, head and body; its date is left out.
func (p *probe) one() string {
	p.t.Helper()
	resp, err := http.ReadResponse(p.br, &http.Request{Method: "POST"})
	if err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatalf("answer %d: %v", resp.StatusCode, err)
	}
	resp.Header.Del("Date")
	return fmt.Sprint(resp.StatusCode, resp.Header, string(body))
}

func TestWhatIsNotTheSameGoesToTheLibrary(t *testing.T) {
	first := httpRequest(echoPath, "", tinyInfer)
	for _, test := range []struct {
		name, second string
		status       int
	}{
		{"another header", httpRequest(echoPath, "X: y\r\n", tinyInfer), 200},
		{"another path", httpRequest("/v2/models/none/infer", "", tinyInfer), 404},
		{"the length is no number", "POST " + echoPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7x\r\n\r\n" + tinyInfer, 400},
		{"the length is missing", "POST " + echoPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: \r\n\r\n", 400},
		{"the length is below 0", "POST " + echoPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: -74\r\n\r\n", 400},
		{"the length is over the limit", "POST " + echoPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n", 413},
		{"the length overflows", "POST " + echoPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551690\r\n\r\n", 400},
		{"two lengths", "POST " + echoPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 74\r\nContent-Length: 74\r\n\r\n" + tinyInfer, 400},
		{"no body", httpRequest(echoPath, "", ""), 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := startServer(t, nil)
			p := dial(t, ts)
			for range 2 {
				p.send(first)
				p.answer("POST")
			}
			ts.wantRouted(t, 1)
			p.send(test.second)
			if status, body := p.answer("POST"); status != test.status {
				t.Errorf("answer %d %s, want %d", status, body, test.status)
			}
		})
	}
}

func TestHeadsThatNeedTheLibraryStayWithIt(t *testing.T) {
	for _, headers := range []string{
		"Accept-Encoding: gzip\r\n", "Content-Encoding: identity\r\n", "X-Long: " + strings.Repeat("x", maxKnownHead) + "\r\n",
	} {
		ts := startServer(t, func(c *Config) { c.MaxHeaderBytes = 16 << 10 })
		p := dial(t, ts)
		for n := range int64(3) {
			p.send(httpRequest(echoPath, headers, tinyInfer))
			if status, body := p.answer("POST"); status != 200 {
				t.Errorf("%.40s: answer %d %.200s", headers, status, body)
			}
			ts.wantRouted(t, n+1)
		}
	}
	t.Run("headers that become parameters", func(t *testing.T) {
		ts := startServer(t, func(c *Config) { c.ForwardHeaders = "x-.*" })
		var seen atomic.Value
		ts.engine.hook = func(_ context.Context, req *edgewise.Request) { seen.Store(fmt.Sprint(req.Parameters)) }
		p := dial(t, ts)
		for range 3 {
			p.send(httpRequest(echoPath, "X-Who: me\r\n", tinyInfer))
			if p.answer("POST"); seen.Load() != "map[X-Who:me]" {
				t.Errorf("parameters %v", seen.Load())
			}
		}
	})
	t.Run("tracing", func(t *testing.T) {
		ts := startServer(t, nil)
		p := dial(t, ts)
		for range 2 {
			p.send(httpRequest(echoPath, "", tinyInfer))
			p.answer("POST")
		}
		p.send(httpRequest("/v2/trace/setting", "", `{"trace_level":["TIMESTAMPS"]}`))
		p.answer("POST")
		ts.wantRouted(t, 2)
		for range 2 {
			p.send(httpRequest(echoPath, "", tinyInfer))
			p.answer("POST")
		}
		ts.wantRouted(t, 4)
	})
}

func TestErrorsOfAFamiliarRequestAreThoseOfAny(t *testing.T) {
	for _, kind := range []edgewise.Kind{edgewise.Internal, edgewise.Invalid, edgewise.NotFound, edgewise.Busy, edgewise.Unavailable, edgewise.Exhausted,
		edgewise.Deadline, edgewise.Canceled, edgewise.Guest, edgewise.Unsupported, edgewise.Corrupt} {
		fail := &edgewise.Error{Op: "fake", Kind: kind, Model: edgewise.ModelID{Name: "echo", Version: 3}, Err: fmt.Errorf("it is %v", kind)}
		ts := startServer(t, nil)
		ts.engine.failOn = func(req *edgewise.Request) error {
			if req.ID == "bad" {
				return fail
			}
			return nil
		}
		fresh, p := dial(t, ts), dial(t, ts)
		fresh.send(httpRequest(echoPath, "", numbers("bad", 1)))
		want := fresh.raw()
		p.send(httpRequest(echoPath, "", numbers("ok", 1)))
		p.raw()
		for range 2 {
			p.send(httpRequest(echoPath, "", numbers("bad", 1)))
			if got := p.raw(); got != want {
				t.Errorf("%v: %s\nwant %s", kind, got, want)
			}
			p.send(httpRequest(echoPath, "", numbers("ok", 1)))
			if status, _ := p.answer("POST"); status != 200 {
				t.Errorf("%v: the next request: %d", kind, status)
			}
		}
		ts.wantRouted(t, 2)
	}
}

func TestAPanicOfAFamiliarRequestIsAnsweredAndEndsTheConnection(t *testing.T) {
	ts := startServer(t, nil)
	ts.engine.hook = func(_ context.Context, req *edgewise.Request) {
		if req.ID == "boom" {
			panic("boom")
		}
	}
	p := dial(t, ts)
	p.send(httpRequest(echoPath, "", numbers("a", 1)))
	p.answer("POST")
	p.send(httpRequest(echoPath, "", numbers("boom", 1)))
	if status, body := p.answer("POST"); status != 500 || strings.Contains(body, "boom") || !strings.Contains(body, `"code":"internal"`) {
		t.Errorf("answer %d %s, want 500 without the panic's text", status, body)
	}
	p.wantClosed()
	ts.wantRouted(t, 1)
	if n := ts.Server.Statistics().Panics; n != 1 {
		t.Errorf("%d panics counted, want 1", n)
	}
	waitFor(t, func() bool { return ts.Server.Statistics().Connections == 0 })
}

func TestABodyThatStopsIsCutOffAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		leave  func(*net.TCPConn) error
		status int
	}{
		{"stalls", func(*net.TCPConn) error { return nil }, 408},
		{"breaks off", (*net.TCPConn).CloseWrite, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := startServer(t, func(c *Config) { c.BodyTimeout = 200 * time.Millisecond })
			body, head := binaryInfer(20_000)
			whole := inferRequest(body, head)
			p := dial(t, ts)
			for range 2 {
				p.send(whole)
				p.answer("POST")
			}
			ts.wantRouted(t, 1)
			p.send(whole[:len(whole)/2])
			if err := test.leave(p.conn.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			if status, body := p.answer("POST"); status != test.status {
				t.Errorf("answer %d %s, want %d", status, body, test.status)
			}
			p.wantClosed()
			if n := ts.engine.infers.Load(); n != 2 {
				t.Errorf("%d inferences", n)
			}
			waitFor(t, func() bool { return ts.Server.Statistics().Connections == 0 })
		})
	}
}

func TestAClientThatLeavesCancelsItsFamiliarRequest(t *testing.T) {
	ts := startServer(t, nil)
	p := dial(t, ts)
	p.send(httpRequest(echoPath, "", tinyInfer))
	p.answer("POST")
	began, ended := waitForEnd(ts, 30*time.Second)
	p.send(httpRequest(echoPath, "", tinyInfer))
	<-began
	_ = p.conn.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v, want %v", err, context.Canceled)
	}
	ts.wantRouted(t, 1)
}

func TestShutdownLetsAFamiliarRequestEnd(t *testing.T) {
	ts := startServer(t, nil)
	entered, proceed := make(chan struct{}), make(chan struct{})
	ts.engine.hook = func(_ context.Context, req *edgewise.Request) {
		if req.ID == "slow" {
			close(entered)
			<-proceed
		}
	}
	idle, busy := dial(t, ts), dial(t, ts)
	for _, p := range []*probe{idle, busy} {
		for range 2 {
			p.send(httpRequest(echoPath, "", numbers("a", 1)))
			p.answer("POST")
		}
	}
	busy.send(httpRequest(echoPath, "", numbers("slow", 1)))
	<-entered
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		done <- ts.Shutdown(ctx)
	}()
	idle.wantClosed()
	close(proceed)
	if status, body := busy.answer("POST"); status != 200 {
		t.Errorf("the request in progress: %d %s, want 200", status, body)
	}
	busy.wantClosed()
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	ts.wantRouted(t, 2)
}

func TestAFamiliarConnectionThatIdlesIsClosed(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.IdleTimeout = 100 * time.Millisecond })
	p := dial(t, ts)
	for range 3 {
		p.send(httpRequest(echoPath, "", tinyInfer))
		p.answer("POST")
	}
	p.wantClosed()
	ts.wantRouted(t, 1)
}

func TestAfterAnErrorAFamiliarConnectionMayIdleAsLongAsAnyOther(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.BodyTimeout, c.IdleTimeout = 50*time.Millisecond, 5*time.Second })
	ts.engine.failOn = func(*edgewise.Request) error {
		if ts.engine.infers.Load() == 2 {
			return edgewise.Errorf("fake", edgewise.Invalid, "the second one")
		}
		return nil
	}
	body, head := binaryInfer(20_000)
	p := dial(t, ts)
	for _, want := range []int{200, 400, 200} {
		p.send(inferRequest(body, head))
		if status, _ := p.answer("POST"); status != want {
			t.Errorf("answer %d, want %d", status, want)
		}
		time.Sleep(200 * time.Millisecond) // longer than a body may stall, shorter than a connection may idle
	}
	ts.wantRouted(t, 1)
}

// fakeKeys knows one key, as long as it is not revoked.
type fakeKeys struct {
	Accounts
	revoked atomic.Bool
	asked   atomic.Int64
	ended   atomic.Int64
}

func (f *fakeKeys) Bearer(secret string, _ bool) (*edgewise.Principal, func(), error) {
	if secret != "ek_good" || f.revoked.Load() {
		return nil, nil, edgewise.Errorf("fake", edgewise.Unauthenticated, "this key is not known")
	}
	f.asked.Add(1)
	return &edgewise.Principal{Kind: "key", Name: "camera", Rights: edgewise.Infer, Models: []string{"echo"}}, func() { f.ended.Add(1) }, nil
}

func TestAKeyIsLookedAtWithEveryRequest(t *testing.T) {
	keys := &fakeKeys{}
	ts := startServerWith(t, nil, func(s *Server) { s.deps.Accounts = keys })
	var who atomic.Value
	ts.engine.hook = func(ctx context.Context, _ *edgewise.Request) { who.Store(edgewise.ActorOf(ctx)) }
	p := dial(t, ts)
	for range 3 {
		p.send(httpRequest(echoPath, "Authorization: Bearer ek_good\r\n", tinyInfer))
		if status, body := p.answer("POST"); status != 200 || who.Load() != "key:camera" {
			t.Fatalf("answer %d %s to %v", status, body, who.Load())
		}
	}
	ts.wantRouted(t, 1)
	keys.revoked.Store(true)
	p.send(httpRequest(echoPath, "Authorization: Bearer ek_good\r\n", tinyInfer))
	if status, body := p.answer("POST"); status != 401 {
		t.Errorf("after the key was revoked: %d %s", status, body)
	}
	if a, b := keys.asked.Load(), keys.ended.Load(); a != 3 || b != 3 {
		t.Errorf("%d requests with the key began, %d ended; want 3", a, b)
	}
}
