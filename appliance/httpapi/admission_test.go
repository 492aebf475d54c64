package httpapi_test

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

func TestOnlyNamesOfThisBoxAreServed(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) { c.AllowedHosts = []string{"box.lan"} })
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
	ts := startServer(t, func(c *httpapi.Config) { c.AllowedHosts = []string{"*"} })
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
