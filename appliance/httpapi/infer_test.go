package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

// inferRequest is a whole binary inference as it goes over the wire.
func inferRequest(body string, head int) string {
	return fmt.Sprintf("POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: "+
		"%d\r\nInference-Header-Content-Length: %d\r\n\r\n%s", len(body), head, body)
}

func TestJSONInference(t *testing.T) {
	ts := startServer(t, nil)
	for _, path := range []string{
		"/v2/models/echo/infer", "/v2/models/echo/versions/3/infer",
		"/v2/models/%65cho/infer?x=y",
	} {
		resp, body := ts.do(t, "POST", path,
			`{"id":"a","inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[[1,2.5]]}]}`)
		var got struct {
			ID, ModelName, ModelVersion string
			Outputs                     []struct {
				Name, Datatype string
				Shape          []int
				Data           []float32
			}
		}
		text := strings.NewReplacer("model_name", "modelname", "model_version", "modelversion").Replace(body)
		if err := json.Unmarshal([]byte(text), &got); err != nil || resp.StatusCode != 200 || len(got.Outputs) != 1 {
			t.Fatalf("%s: %d %s: %v", path, resp.StatusCode, body, err)
		}
		if got.ID != "a" || got.ModelName != "echo" || got.ModelVersion != "3" ||
			fmt.Sprint(got.Outputs) != "[{y FP32 [1 2] [1 2.5]}]" {
			t.Errorf("%s: %s", path, body)
		}
		if kind := resp.Header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s: content type %q", path, kind)
		}
	}
	if a, b := ts.engine.infers.Load(), ts.engine.released.Load(); a != 3 || b != 3 {
		t.Errorf("%d responses, %d released", a, b)
	}
}

func TestBinaryInferenceIsAlignedAndExact(t *testing.T) {
	ts := startServer(t, nil)
	for _, n := range []int{1, 10, 1000, 2000, 2048, 100_000, 200_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var at uintptr
			ts.engine.hook = func(_ context.Context, req *edgewise.Request) {
				at = uintptr(unsafe.Pointer(&req.Inputs[0].Data[0]))
			}
			body, head := binaryInfer(n)
			resp, answer := ts.do(t, "POST", "/v2/models/echo/infer", body, "Inference-Header-Content-Length", fmt.Sprint(head))
			var size int
			if _, err := fmt.Sscan(resp.Header.Get("Inference-Header-Content-Length"), &size); err != nil ||
				resp.StatusCode != 200 {
				t.Fatalf("answer %d %.200s: %v", resp.StatusCode, answer, err)
			}
			if answer[size:] != string(floats(n)) {
				t.Errorf("%d bytes came back changed", 4*n)
			}
			if kind := resp.Header.Get("Content-Type"); kind != "application/octet-stream" {
				t.Errorf("content type %q", kind)
			}
			if at%blocks.Alignment != 0 {
				t.Errorf("the tensor lay at %#x", at)
			}
		})
	}
}

func TestBadInferencesAreRefused(t *testing.T) {
	ts := startServer(t, nil)
	for _, test := range []struct {
		name, path, body, header string
		status                   int
		want                     string
	}{
		{"empty", "/v2/models/echo/infer", "", "", 400, `"code":"invalid"`},
		{"not JSON", "/v2/models/echo/infer", "hello", "", 400, `"model":"echo"`},
		{
			"header no number", "/v2/models/echo/infer", tinyInfer, "x", 400,
			"Unable to parse Inference-Header-Content-Length, got: x",
		},
		{
			"header over the body", "/v2/models/echo/infer", tinyInfer, "99", 400,
			"inference header size should be in range (0, 74), got: 99",
		},
		{"header below 0", "/v2/models/echo/infer", tinyInfer, "-1", 400, "inference header size should be in range (0, " +
			"74), got: -1"},
		{"unknown model", "/v2/models/none/infer", tinyInfer, "", 404, "Request for unknown model: 'none' is not found"},
		{"unknown version", "/v2/models/echo/versions/2/infer", tinyInfer, "", 404, "version 2 is not found"},
		{"not ready", "/v2/models/cold/infer", tinyInfer, "", 503, "is not at ready state"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var headers []string
			if test.header != "" {
				headers = []string{"Inference-Header-Content-Length", test.header}
			}
			resp, body := ts.do(t, "POST", test.path, test.body, headers...)
			if resp.StatusCode != test.status || !strings.Contains(body, test.want) {
				t.Errorf("answer %d %s; want %d with %q", resp.StatusCode, body, test.status, test.want)
			}
		})
	}
}

func TestClassesAreLabelledAndRankedInEachElementOfTheBatch(t *testing.T) {
	ts := startServer(t, nil)
	resp, body := ts.do(t, "POST", "/v2/models/echo/infer",
		`{"inputs":[{"name":"x","datatype":"FP32","shape":[2,2],"data":[1,2,4,3]}],"outputs":[{"name":"y","parameters":{"classification":1}}]}`)
	want := `{"model_name":"echo","model_version":"3","outputs":[{"name":"y","datatype":"BYTES","shape":[2,1],` +
		`"data":["2.000000:1:y-b","4.000000:0:y-a"]}]}`
	if resp.StatusCode != 200 || body != want {
		t.Errorf("answer %d %s, want %s", resp.StatusCode, body, want)
	}
}

func TestARawBinaryRequestIsTheOneInput(t *testing.T) {
	ts := startServer(t, nil)
	resp, body := ts.do(t, "POST", "/v2/models/echo/infer", string(floats(4)), "Inference-Header-Content-Length", "0")
	if resp.StatusCode != 200 || !strings.HasSuffix(body, string(floats(4))) {
		t.Errorf("answer %d %q", resp.StatusCode, body)
	}
}

func TestAFileIsRefusedByAModelThatTakesNone(t *testing.T) {
	ts := startServer(t, nil)
	for _, kind := range []string{"image/jpeg", "IMAGE/PNG", "audio/wav; rate=16000", "video/mp4"} {
		resp, body := ts.do(t, "POST", "/v2/models/echo/infer", "file", "Content-Type", kind)
		if resp.StatusCode != 400 || !strings.Contains(body, "model 'echo' takes no file as the body of a request: its "+
			"input 'x' has type FP32, not BYTES") {
			t.Errorf("%s: %d %s", kind, resp.StatusCode, body)
		}
	}
	for _, form := range []string{"multipart/form-data; boundary=x", "Multipart/Form-Data; boundary=x"} {
		resp, body := ts.do(t, "POST", "/v2/models/echo/infer", "--x\r\nfile\r\n--x--", "Content-Type", form)
		if resp.StatusCode != 400 || !strings.Contains(body, "the body is a form (multipart/form-data): send the file "+
			"itself as the body") {
			t.Errorf("%s: %d %s", form, resp.StatusCode, body)
		}
	}
	if resp, body := ts.do(t, "POST", "/v2/models/echo/infer", fourNumbers, "Content-Type",
		"multipart/form-data"); resp.StatusCode != 200 {
		t.Errorf("a request that calls itself a form: %d %s", resp.StatusCode, body)
	}
	if resp, body := ts.do(t, "POST", "/v2/models/echo/infer", "file", "Content-Type",
		"imagery"); resp.StatusCode != 400 || !strings.Contains(body, "want an object") {
		t.Errorf("another type: %d %s", resp.StatusCode, body)
	}
}

func TestEveryKindOfErrorHasItsAnswer(t *testing.T) {
	ts := startServer(t, nil)
	for kind, status := range map[edgewise.Kind]int{
		edgewise.Internal: 500, edgewise.Invalid: 400, edgewise.NotFound: 404, edgewise.Busy: 503, edgewise.Unavailable: 503,
		edgewise.Exhausted: 507,
		edgewise.Deadline:  504, edgewise.Canceled: 499, edgewise.Guest: 422, edgewise.Unsupported: 501,
		edgewise.Corrupt: 500,
	} {
		ts.engine.fail = &edgewise.Error{
			Op: "fake", Kind: kind, Model: edgewise.ModelID{Name: "echo", Version: 3},
			Err: fmt.Errorf("it is %v", kind),
		}
		resp, body := ts.do(t, "POST", "/v2/models/echo/infer", tinyInfer)
		want := fmt.Sprintf(`{"error":"it is %v","code":"%v","model":"echo","version":3}`, kind, kind)
		if resp.StatusCode != status || body != want {
			t.Errorf("%v: %d %s, want %d %s", kind, resp.StatusCode, body, status, want)
		}
		if retry := resp.Header.Get("Retry-After"); (retry == "1") != (kind == edgewise.Busy) {
			t.Errorf("%v: Retry-After is %q", kind, retry)
		}
	}
}

func TestManyClientsGetTheirOwnAnswers(t *testing.T) {
	ts := startServer(t, nil)
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			p := dial(t, ts)
			for i := range 20 {
				body, head := binaryInfer(client*1000 + i*37 + 1)
				go p.send(inferRequest(body, head))
				if status, answer := p.answer("POST"); status != 200 || !strings.HasSuffix(answer, body[head:]) {
					t.Errorf("client %d, request %d: %d, %d bytes", client, i, status, len(answer))
					return
				}
			}
		})
	}
	clients.Wait()
	if a, b := ts.engine.infers.Load(), ts.engine.released.Load(); a != b {
		t.Errorf("%d responses, %d released", a, b)
	}
}

// exchanger returns a function by which one client sends a request with so many floats to an engine that sends back what
// it got, and reads the answer. The client allocates nothing, so the allocations are the server's.
func exchanger(tb testing.TB, floats int) (exchange func(), size int) {
	ts := startServer(tb, nil)
	body, head := binaryInfer(floats)
	request := []byte(inferRequest(body, head))
	p := dial(tb, ts)
	_, _ = p.conn.Write(request)
	answer := make([]byte, 2*len(body)+4096)
	n := 0
	for !bytes.HasSuffix(answer[:n], request[len(request)-4*floats:]) {
		got, err := p.conn.Read(answer[n:])
		if err != nil {
			tb.Fatal(err)
		}
		n += got
	}
	_ = p.conn.SetDeadline(time.Time{})
	return func() {
		if _, err := p.conn.Write(request); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.ReadFull(p.conn, answer[:n]); err != nil {
			tb.Fatal(err)
		}
	}, len(body)
}

// TestASmallRequestAllocatesLittle counts the allocations of the server and of the engine of these tests, which makes most
// of them.
func TestASmallRequestAllocatesLittle(t *testing.T) {
	const most = 17
	exchange, _ := exchanger(t, 16)
	least := math.Inf(1)
	for range 50 { // others allocate now and then
		least = min(least, testing.AllocsPerRun(1, exchange))
	}
	if least > most {
		t.Errorf("a request takes %v allocations, at most %d are allowed", least, most)
	}
}

func BenchmarkInfer(b *testing.B) {
	for _, size := range []struct {
		name   string
		floats int
	}{{"tiny", 16}, {"602112bytes", 150528}} {
		b.Run(size.name, func(b *testing.B) {
			exchange, bytes := exchanger(b, size.floats)
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			for b.Loop() {
				exchange()
			}
		})
	}
}
