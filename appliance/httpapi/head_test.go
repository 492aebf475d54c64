package httpapi

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"unsafe"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

func TestTensorsOfABodyAreAligned(t *testing.T) {
	m := blocks.New(1 << 30)
	for n := range 200 {
		b := m.Take(1000)
		start := BodyStart([]byte(strings.Repeat("0", 3) + string(rune('0'+n/100)) + string(rune('0'+n/10%10)) +
			string(rune('0'+n%10))))
		if at := uintptr(unsafe.Pointer(&b.Bytes[start+n])); at%blocks.Alignment != 0 {
			t.Errorf("after %d bytes of JSON the tensor begins at %#x", n, at)
		}
		b.Free()
	}
	for _, bad := range []string{"", "-1", "x", "99999999999"} {
		if start := BodyStart([]byte(bad)); start != 0 {
			t.Errorf("header %q: body begins at %d", bad, start)
		}
	}
}

func FuzzParseHead(f *testing.F) {
	f.Add([]byte("Host: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nOrigin: x\r\n\r\n"))
	f.Add([]byte("Content-Length\r\n:\r\n x"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h := parseHead(raw)
		if h.lengths == 0 && bytes.Contains(bytes.ToLower(raw), []byte("\ncontent-length:")) {
			t.Errorf("a Content-Length was overlooked in %q", raw)
		}
		if h.encodings == 0 && bytes.HasPrefix(bytes.ToLower(raw), []byte("transfer-encoding:")) {
			t.Errorf("a Transfer-Encoding was overlooked in %q", raw)
		}
	})
}

func TestEveryProblemOfAConfigIsReported(t *testing.T) {
	_, err := Config{MaxConnections: -1, BodyTimeout: -1, MaxInferBytes: 17 << 30, MaxInflightBytes: 5}.completed()
	want := "http.max_connections is -1: want a positive value\nhttp.body_timeout is -1ns: want a positive value\n" +
		"http.max_body_bytes is 18253611008: at most 17179869184 is possible\nhttp.max_inflight_bytes is 5: too little for " +
		"one body of 18253611008 bytes"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// TestFieldFindsANameInAnySpelling holds the names that are looked for against the library's form of them.
func TestFieldFindsANameInAnySpelling(t *testing.T) {
	for _, name := range []string{
		fiber.HeaderOrigin, fiber.HeaderContentEncoding, fiber.HeaderAcceptEncoding, kserve.HeaderLength, refusedHeader,
	} {
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			var header fasthttp.RequestHeader
			text := "GET / HTTP/1.1\r\nHost: box\r\n" + spelling + ": 7\r\n\r\n"
			if err := header.Read(bufio.NewReader(strings.NewReader(text))); err != nil {
				t.Fatal(err)
			}
			if got := Field(&header, name); string(got) != "7" {
				t.Errorf("%s is %q when it is spelt %s", name, got, spelling)
			}
		}
	}
}
