package appliance

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

func TestEventsTellWhatHappens(t *testing.T) {
	h, anna := runReal(t)
	events := anna.listen(t, "/api/v1/events")
	if e := events.next(t); e.topic != "hello" {
		t.Fatalf("%+v", e)
	}
	anna.live("net", onnxgen.MLP(1).Bytes())
	anna.ask("PATCH", "/api/v1/settings", map[string]string{"name": "shed"}, nil)
	seen, last := map[string]bool{}, ""
	for !seen["settings"] || !seen["statistics"] || !seen["ping"] {
		e := events.next(t)
		seen[e.topic] = true
		if e.topic == "settings" {
			last = e.id
		}
	}
	for _, topic := range []string{"model", "job", "deployment"} {
		if !seen[topic] {
			t.Errorf("no event of %s: %v", topic, seen)
		}
	}
	n, _ := strconv.Atoi(last)
	back := anna.listen(t, fmt.Sprintf("/api/v1/events?topics=settings&after=%d", n-1))
	if back.next(t); back.next(t).topic != "settings" {
		t.Error("the last event is not told again to who comes back")
	}
	viewer := h.login(anna, "viewer")
	if status, _ := viewer.ask("GET", "/api/v1/events?topics=log", nil, nil); status != 403 {
		t.Errorf("a viewer listens to the log: %d", status)
	}
	for range 6 {
		anna.listen(t, "/api/v1/events").next(t)
	}
	if status, text := anna.ask("GET", "/api/v1/events", nil, nil); status != 429 {
		t.Errorf("the ninth stream: %d %s", status, text)
	}
	events.close()
	eventually(t, "a place for another stream", func() bool {
		status := anna.peek(t, "/api/v1/events?topics=settings")
		if status != 200 && status != 429 {
			t.Errorf("another stream: %d", status)
		}
		return status == 200
	})
}

type event struct{ id, topic, data string }

type stream struct {
	lines *bufio.Scanner
	body  io.Closer
}

// close leaves the stream.
func (s *stream) close() { _ = s.body.Close() }

// peek opens a stream, leaves it at once, and returns the status of the answer.
func (v *visitor) peek(t *testing.T, path string) int {
	t.Helper()
	res := v.open(t, path)
	_ = res.Body.Close()
	return res.StatusCode
}

func (v *visitor) listen(t *testing.T, path string) *stream {
	t.Helper()
	res := v.open(t, path)
	if res.StatusCode != 200 {
		t.Fatalf("%s: %s", path, res.Status)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return &stream{bufio.NewScanner(res.Body), res.Body}
}

// open asks for a stream.
func (v *visitor) open(t *testing.T, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", v.running.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = v.header.Clone()
	res, err := v.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (s *stream) next(t *testing.T) (e event) {
	t.Helper()
	for s.lines.Scan() {
		key, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch key {
		case "id":
			e.id = value
		case "event":
			e.topic = value
		case "data":
			e.data = value
		case "":
			return e
		}
	}
	t.Fatalf("the stream has ended: %v", s.lines.Err())
	return e
}

func TestTheLastHourIsKept(t *testing.T) {
	_, anna := runReal(t)
	anna.live("first", adding(1))
	input := map[string]any{"inputs": []any{map[string]any{
		"name": "x", "datatype": "FP32", "shape": []int{1, 4},
		"data": []float32{1, 2, 3, 4},
	}}}
	deadline := time.Now().Add(10 * time.Minute)
	for {
		if status, text := anna.ask("POST", "/v2/models/first/infer", input, nil); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		var hist admin.History
		anna.ask("GET", "/api/v1/statistics?seconds=60&model=first", nil, &hist)
		if len(hist.Series) == 1 && len(hist.Series[0].Requests) == 12 && hist.Series[0].Requests[11] > 0 && hist.Series[0].P99[11] != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", hist)
		}
		time.Sleep(200 * time.Millisecond)
	}
	var page admin.LogPage
	if anna.ask("GET", "/api/v1/logs?q=LABEL+moved&level=info", nil, &page); len(page.Lines) != 1 || page.Lines[0].Message != "label moved" {
		t.Errorf("%+v", page)
	}
}
