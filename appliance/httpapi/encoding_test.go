package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

func gzipped(t testing.TB, plain string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, plain); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.String()
}

func deflated(t testing.TB, plain string) string {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := io.WriteString(w, plain); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEncodedBodiesAreExpandedInPlace(t *testing.T) {
	ts := startServer(t, nil)
	for _, n := range []int{1, 1000, 200_000} {
		body, head := binaryInfer(n)
		for _, test := range []struct{ encoding, body string }{
			{"gzip", gzipped(t, body)},
			{"GZIP", gzipped(t, body)},
			{"deflate", deflated(t, body)},
			{"identity", body},
		} {
			var at uintptr
			ts.engine.hook = func(_ context.Context, req *edgewise.Request) {
				at = uintptr(unsafe.Pointer(&req.Inputs[0].Data[0]))
			}
			resp, answer := ts.do(t, "POST", "/v2/models/echo/infer", test.body, "Content-Encoding", test.encoding,
				"Inference-Header-Content-Length", fmt.Sprint(head), "Accept-Encoding", "identity")
			if resp.StatusCode != 200 || !strings.HasSuffix(answer, body[head:]) || resp.Header.Get("Content-Encoding") != "" {
				t.Errorf("%d floats as %s: %d %.200q", n, test.encoding, resp.StatusCode, answer)
			}
			if at%blocks.Alignment != 0 {
				t.Errorf("%d floats as %s: the tensor lay at %#x", n, test.encoding, at)
			}
		}
	}
}

func TestBadEncodingsAreRefused(t *testing.T) {
	ts := startServer(t, nil)
	bomb := gzipped(t, strings.Repeat(" ", 1<<20)+tinyInfer) // the limit is 1 MiB
	for _, test := range []struct {
		name, path, encoding, body string
		status                     int
		want                       string
	}{
		{"not gzip", "infer", "gzip", tinyInfer, 400, `the body is not what its content encoding \"gzip\" says`},
		{
			"not a zlib stream", "infer", "deflate", tinyInfer, 400,
			`the body is not what its content encoding \"deflate\" says`,
		},
		{"cut off", "infer", "gzip", gzipped(t, tinyInfer)[:40], 400, "unexpected EOF"},
		{
			"a bad checksum", "infer", "deflate", deflated(t, tinyInfer)[:len(deflated(t, tinyInfer))-1] + "\x00", 400,
			"invalid checksum",
		},
		{"nothing", "infer", "gzip", "", 400, "EOF"},
		{"expands over the limit", "infer", "gzip", bomb, 400, `"code":"too_large","limit":1048576`},
		{"unknown", "infer", "br", tinyInfer, 501, "Unsupported compression type"},
		{"two", "infer", "gzip, gzip", tinyInfer, 501, "Unsupported compression type"},
		{"generate takes none", "generate", "gzip", gzipped(t, "{}"), 400, "is not supported here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp, body := ts.do(t, "POST", "/v2/models/echo/"+test.path, test.body, "Content-Encoding", test.encoding)
			if resp.StatusCode != test.status || !strings.Contains(body, test.want) {
				t.Errorf("answer %d %s, want %d with %q", resp.StatusCode, body, test.status, test.want)
			}
			if accept := resp.Header.Get("Accept-Encoding"); test.status == 501 && accept != "gzip, deflate" {
				t.Errorf("it says that %q would do", accept)
			}
		})
	}
}

func TestAnswersAreEncodedAsAsked(t *testing.T) {
	ts := startServer(t, nil)
	body, head := binaryInfer(5000)
	for _, test := range []struct{ accept, want string }{
		{"gzip", "gzip"},
		{"deflate", "deflate"},
		{"identity", ""},
		{"br", ""},
		{"*", ""},
		{"gzip;q=0", ""},
		{"deflate, gzip", "deflate"},
		{"gzip;q=0.5, deflate;q=0.8", "deflate"},
		{"identity;q=0.5, GZIP;Q=0.8", "gzip"},
		{"identity, gzip", ""},
		{"gzip;q=2", ""},
		{"gzip;q=NaN", ""},
		{"gzip;x, deflate; q = 0.1", "deflate"},
	} {
		t.Run(test.accept, func(t *testing.T) {
			resp, answer := ts.do(t, "POST", "/v2/models/echo/infer", body, "Inference-Header-Content-Length", fmt.Sprint(head),
				"Accept-Encoding", test.accept)
			if got := resp.Header.Get("Content-Encoding"); resp.StatusCode != 200 || got != test.want {
				t.Fatalf("answer %d with encoding %q, want %q", resp.StatusCode, got, test.want)
			}
			var plain io.Reader = strings.NewReader(answer)
			var err error
			switch test.want {
			case "gzip":
				plain, err = gzip.NewReader(plain)
			case "deflate":
				plain, err = zlib.NewReader(plain)
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(plain)
			var size int
			_, _ = fmt.Sscan(resp.Header.Get("Inference-Header-Content-Length"), &size)
			if err != nil || size == 0 || string(text[size:]) != body[head:] {
				t.Errorf("%d bytes came back changed (JSON part %d): %v", len(text), size, err)
			}
		})
	}
}

func TestAnAnswerThatDoesNotFitWhenEncodedStaysPlain(t *testing.T) {
	body, head := binaryInfer(1000)
	ts := startServer(t, func(c *httpapi.Config) {
		c.MaxInferBytes, c.MaxBodyBytes, c.MaxInflightBytes = 8<<10, 4<<10, 10_000
	})
	resp, answer := ts.do(t, "POST", "/v2/models/echo/infer", body, "Inference-Header-Content-Length", fmt.Sprint(head),
		"Accept-Encoding", "gzip")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Encoding") != "" || !strings.HasSuffix(answer, body[head:]) {
		t.Errorf("answer %d with encoding %q, %d bytes", resp.StatusCode, resp.Header.Get("Content-Encoding"), len(answer))
	}
}
