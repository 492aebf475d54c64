package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// httpRequest is a request as it goes over the wire.
func httpRequest(path, headers, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), headers,
		body)
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
}

// Whatever a connection brings, in whatever pieces, one after the other or many at a time: its answers are those that
// each request has alone.
func TestAnyMixOfRequestsOnOneConnectionIsAnsweredInOrder(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) { c.MaxHeaderBytes = 16 << 10 })
	binary, jsonSize := binaryInfer(300)
	requests := []string{
		httpRequest(echoPath, "", numbers("a", 1)), httpRequest(echoPath, "", numbers("bb", 22)),
		httpRequest(echoPath, "", numbers("ccc", 333)),
		httpRequest(echoPath, "", numbers("a", 1)), httpRequest(echoPath, "", numbers("", 4)), inferRequest(binary, jsonSize),
		inferRequest(binaryInfer(5000)),
		httpRequest("/v2/models/echo/versions/1/infer", "", numbers("v", 5)),
		httpRequest(echoPath, "", "{}"), httpRequest(echoPath, "X: y\r\n", numbers("a", 1)),
		httpRequest(echoPath, "Content-Type: text/plain\r\n", "hello POST "+echoPath+" HTTP/1.1\r\n\r\n"),
		"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /v2/models/echo HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		httpRequest("/v2/models/none/infer", "", numbers("n", 6)), httpRequest("/v2/nothing", "", "{}"),
		httpRequest(echoPath, "Accept-Encoding: gzip\r\n", numbers("zip", 8)),
		"GET /v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
		httpRequest(echoPath, "X-Long: "+strings.Repeat("x", 4<<10)+"\r\n", numbers("long", 7)),
	}
	want := make([]string, len(requests))
	for i, r := range requests {
		p := dial(t, ts)
		p.send(r)
		want[i] = p.one()
		_ = p.conn.Close()
	}
	for seed := range uint64(80) {
		random := rand.New(rand.NewPCG(seed, 1))
		var order []int
		for len(order) < 60 {
			for i := random.IntN(len(requests)); ; {
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
		_ = p.conn.Close()
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

// fakeKeys knows one key, as long as it is not revoked.
type fakeKeys struct {
	httpapi.Accounts
	revoked atomic.Bool
	asked   atomic.Int64
	ended   atomic.Int64
}

func (f *fakeKeys) Bearer(secret string, _ bool) (*edgewise.Principal, func(), error) {
	if secret != "ek_good" || f.revoked.Load() {
		return nil, nil, edgewise.Errorf("fake", edgewise.Unauthenticated, "this key is not known")
	}
	f.asked.Add(1)
	return &edgewise.Principal{Kind: "key", Name: "camera", Rights: edgewise.Infer, Models: []string{"echo"}},
		func() { f.ended.Add(1) }, nil
}

func TestAKeyIsLookedAtWithEveryRequest(t *testing.T) {
	keys := &fakeKeys{}
	ts := startServerWith(t, nil, func(d *httpapi.Deps) { d.Accounts = keys })
	var who atomic.Value
	ts.engine.hook = func(ctx context.Context, _ *edgewise.Request) { who.Store(edgewise.PrincipalOf(ctx).Actor()) }
	p := dial(t, ts)
	for range 3 {
		p.send(httpRequest(echoPath, "Authorization: Bearer ek_good\r\n", tinyInfer))
		if status, body := p.answer("POST"); status != 200 || who.Load() != "key:camera" {
			t.Fatalf("answer %d %s to %v", status, body, who.Load())
		}
	}
	keys.revoked.Store(true)
	p.send(httpRequest(echoPath, "Authorization: Bearer ek_good\r\n", tinyInfer))
	if status, body := p.answer("POST"); status != 401 {
		t.Errorf("after the key was revoked: %d %s", status, body)
	}
	if a, b := keys.asked.Load(), keys.ended.Load(); a != 3 || b != 3 {
		t.Errorf("%d requests with the key began, %d ended; want 3", a, b)
	}
}
