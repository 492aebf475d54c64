package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

const (
	talkerStream = "/v2/models/talker/generate_stream"
	notOne       = `{"error":"generate expects model to produce exactly 1 response, use generate stream for model that ` +
		`generates various number of responses","code":"invalid"}`
)

func TestGenerateTakesOneResponseOfADecoupledModel(t *testing.T) {
	const generate = "/v2/models/talker/generate"
	checkRoutes(t, startServer(t, nil), []routeCase{
		{"one", "POST", generate, `{"n":1}`, 200, `{"model_name":"talker","model_version":"1","i":0}`},
		{"none", "POST", generate, `{"n":0}`, 400, notOne},
		{"two", "POST", generate, `{"n":2}`, 400, notOne},
		{"a faulty one", "POST", generate, `{"n":1,"fault":0}`, 422, `{"error":"not this one","code":"guest"}`},
		{
			"infer", "POST", "/v2/models/talker/infer", `{"inputs":[]}`, 501,
			`{"error":"HTTP end point doesn't support models with decoupled transaction policy","code":"unsupported"}`,
		},
	})
}

func TestAStreamHasAnEventForEachResponse(t *testing.T) {
	event := func(i int) string {
		return fmt.Sprintf("data: {\"model_name\":\"talker\",\"model_version\":\"1\",\"i\":%d}\n\n", i)
	}
	tests := []struct {
		name, body, want string
	}{
		{"three", `{"n":3}`, event(0) + event(1) + event(2)},
		{"none", `{"n":0}`, ""},
		{"a faulty one", `{"n":3,"fault":1}`, event(0) + "data: {\"error\":\"not this one\",\"code\":\"guest\"}\n\n" + event(2)},
		{"an error", `{"n":3,"fail":1}`, event(0) + "data: {\"error\":\"enough\",\"code\":\"guest\"}\n\n"},
		{"a bug", `{"n":3,"panic":1}`, event(0) +
			"data: {\"error\":\"internal error; the server's log has the details\",\"code\":\"internal\"}\n\n"},
	}
	ts := startServer(t, nil)
	for _, test := range tests {
		for range 2 { // the second on the connection of the first
			resp, body := ts.do(t, "POST", talkerStream, test.body)
			if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || body != test.want ||
				kind != "text/event-stream; charset=utf-8" {
				t.Errorf("%s: %d %q %q", test.name, resp.StatusCode, kind, body)
			}
		}
	}
	if resp, body := ts.do(t, "POST", talkerStream, `{"n":1,"fail":0}`); resp.StatusCode != 422 {
		t.Errorf("an error in place of the first response: %d %s", resp.StatusCode, body)
	}
	if released, talked := ts.engine.released.Load(), ts.engine.talked.Load(); released != talked {
		t.Errorf("%d responses of %d were released", released, talked)
	}
}

// TestAReaderHoldsTheModelBack reads one event: the model stops when the buffers of the connection are full, and goes on.
func TestAReaderHoldsTheModelBack(t *testing.T) {
	ts := startServer(t, nil)
	const n = 200_000
	req, err := http.NewRequestWithContext(t.Context(), "POST", ts.url+talkerStream, strings.NewReader(fmt.Sprintf(`{"n":%d}`, n)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() string {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return text
			}
		}
		return fmt.Sprint("the end: ", lines.Err())
	}
	first := next()
	held := int64(0)
	for before := int64(-1); held != before; {
		before = held
		time.Sleep(50 * time.Millisecond) // the longer, the more does it find; what it finds is right after any time
		held = ts.engine.talked.Load()
	}
	if held == n {
		t.Error("the model has made all responses for a reader that has read one")
	}
	for i, got := 0, first; i < n; i, got = i+1, next() {
		if want := fmt.Sprintf(`{"model_name":"talker","model_version":"1","i":%d}`, i); got != want {
			t.Fatalf("event %d: %s", i, got)
		}
		if i == n-1 {
			break
		}
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
}

func TestAStreamEndsWithItsClient(t *testing.T) {
	ts := startServer(t, nil)
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	ts.engine.hook = func(ctx context.Context, req *edgewise.Request) {
		resp := &edgewise.Response{Model: req.Model, Parameters: map[string]any{"i": int64(0)}}
		if err := req.Each(resp); err != nil {
			t.Error(err)
		}
		began <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
	}
	p := dial(t, ts)
	const body = `{"n":1}`
	p.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", talkerStream, len(body), body))
	<-began
	if err := p.conn.(*net.TCPConn).Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v", err)
	}
}

// TestTheTimeOfAStreamIsThatBetweenResponses has a model that makes no second response.
func TestTheTimeOfAStreamIsThatBetweenResponses(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) { c.RequestTimeout = 50 * time.Millisecond })
	ts.engine.hook = func(ctx context.Context, req *edgewise.Request) {
		if err := req.Each(&edgewise.Response{Model: req.Model}); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		ts.engine.fail = ctx.Err()
	}
	resp, body := ts.do(t, "POST", talkerStream, `{"n":1}`)
	if resp.StatusCode != 200 || !strings.HasSuffix(body, "\"code\":\"deadline\"}\n\n") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
