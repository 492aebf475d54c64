package httpapi

import (
	"bytes"
	"strings"
	"testing"
	"unsafe"

	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

func TestOnlyNamesOfThisBoxAreServed(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.AllowedHosts = []string{"box.lan"} })
	for _, test := range []struct {
		host   string
		status int
	}{
		{"localhost", 200},
		{"LOCALHOST:8000", 200},
		{"127.0.0.1:1", 200},
		{"192.168.1.9", 200},
		{"[::1]:8000", 200},
		{"[fe80::1]", 200},
		{"box.lan", 200},
		{"Box.Lan:8000", 200},
		{"evil.example", 403},
		{"evil.example:8000", 403},
		{"localhost.evil.example", 403},
		{"box.lan.evil.example", 403},
		{"127.0.0.1.evil.example", 403},
		{"evil@localhost", 400},
		{"localhost.", 403},
	} {
		p := dial(t, ts)
		p.send("GET /v2/health/live HTTP/1.1\r\nHost: " + test.host + "\r\n\r\n")
		status, body := p.answer("GET")
		if status != test.status {
			t.Errorf("host %q: %d %s, want %d", test.host, status, body, test.status)
		}
		if status == 403 && !strings.Contains(body, "is not a name of this server") {
			t.Errorf("host %q: %s", test.host, body)
		}
	}
}

func TestEveryNameIsServedWhenAllAreAllowed(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.AllowedHosts = []string{"*"} })
	if resp, _ := ts.do(t, "GET", "/v2/health/live", "", "Host", "any.example"); resp.StatusCode != 200 {
		t.Errorf("answer %d, want 200", resp.StatusCode)
	}
}

func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	ts := startServer(t, nil)
	for _, test := range []struct {
		method, origin string
		status         int
	}{
		{"POST", "http://evil.example", 403},
		{"POST", "null", 403},
		{"POST", "http://localhost:9", 403},
		{"POST", "http://" + ts.addr, 200},
		{"POST", "", 200},
		{"PUT", "http://evil.example", 403},
		{"DELETE", "http://evil.example", 403},
		{"GET", "http://evil.example", 405},
	} {
		headers := []string{}
		if test.origin != "" {
			headers = []string{"Origin", test.origin}
		}
		if resp, body := ts.do(t, test.method, "/v2/repository/index", "", headers...); resp.StatusCode != test.status {
			t.Errorf("%s from %q: %d %s, want %d", test.method, test.origin, resp.StatusCode, body, test.status)
		}
	}
}

func TestTensorsOfABodyAreAligned(t *testing.T) {
	m := blocks.New(1 << 30)
	for n := range 200 {
		b := m.Take(1000)
		start := bodyStart([]byte(strings.Repeat("0", 3) + string(rune('0'+n/100)) + string(rune('0'+n/10%10)) +
			string(rune('0'+n%10))))
		if at := uintptr(unsafe.Pointer(&b.Bytes[start+n])); at%blocks.Alignment != 0 {
			t.Errorf("after %d bytes of JSON the tensor begins at %#x", n, at)
		}
		b.Free()
	}
	for _, bad := range []string{"", "-1", "x", "99999999999"} {
		if start := bodyStart([]byte(bad)); start != 0 {
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
