package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// inferKey knows one key, which may run models and nothing else.
type inferKey struct{ httpapi.Accounts }

func (inferKey) Bearer(secret string, _ bool) (*edgewise.Principal, func(), error) {
	if secret != "ek_infer" {
		return nil, nil, edgewise.Errorf("fake", edgewise.Unauthenticated, "this key is not known")
	}
	return &edgewise.Principal{Kind: "key", Name: "camera", Rights: edgewise.Infer}, nil, nil
}

func (inferKey) Claimed() bool { return true }

// Two readers of these requests may disagree about what they ask for.
func TestTargetsAndHostsWithTwoMeaningsAreRefused(t *testing.T) {
	ts := startServerWith(t, nil, func(d *httpapi.Deps) { d.Accounts = inferKey{} })
	for _, test := range []struct{ name, method, target, host string }{
		{"a fragment behind a private page", "GET", "/metrics#", "localhost"},
		{"a fragment that looks like a path", "POST", "/v2/logging#/register", "localhost"},
		{"a fragment behind an administration route", "GET", "/api/v1/models#", "localhost"},
		{"a fragment behind a query", "GET", "/v2?x=y#z", "localhost"},
		{"a fragment alone", "GET", "#", "localhost"},
		{"a fragment before the path", "GET", "/#/metrics", "localhost"},
		{"an open bracket in the host", "GET", "/metrics", "[::1"},
		{"an open bracket in the host, administration", "GET", "/api/v1/models", "[::1"},
		{"a slash in the host", "GET", "/metrics", "localhost/x"},
		{"a fragment in the host", "GET", "/metrics", "localhost#"},
		{"a question mark in the host", "GET", "/metrics", "localhost?"},
		{"a user in the host", "GET", "/metrics", "user@localhost"},
		{"a space in the host", "GET", "/metrics", "local host"},
		{"a comma in the host", "GET", "/metrics", "localhost,localhost"},
		{"a port that is no number", "GET", "/metrics", "localhost:x"},
		{"a port with too many digits", "GET", "/metrics", "localhost:123456"},
		{"two ports", "GET", "/metrics", "localhost:1:2"},
		{"an IPv6 address without brackets", "GET", "/metrics", "::1"},
		{"a bad IPv6 address", "GET", "/metrics", "[::g]"},
		{"more behind the bracket", "GET", "/metrics", "[::1]x"},
		{"no host", "GET", "/metrics", ""},
		{"an absolute target", "GET", "http://localhost/metrics", "localhost"},
		{"an authority", "GET", "localhost:80", "localhost"},
		{"an asterisk", "OPTIONS", "*", "localhost"},
		{"two slashes", "GET", "//localhost/metrics", "localhost"},
		{"a backslash", "GET", "/\\metrics", "localhost"},
		{"a NUL", "GET", "/metrics\x00", "localhost"},
		{"a tab", "GET", "/metrics\t", "localhost"},
		{"a space", "GET", "/met rics", "localhost"},
		{"a byte beyond ASCII", "GET", "/metrics\xc3\xa4", "localhost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, ts)
			p.send(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer ek_infer\r\nContent-Length: 2\r\n\r\n{}",
				test.method, test.target, test.host))
			status, body := p.answer(test.method)
			if status != 400 || !strings.Contains(body, `"error"`) {
				t.Errorf("answer %d %.200s, want 400", status, body)
			}
			p.wantClosed()
		})
	}
}

// These have one meaning, which is not that of the route that they resemble.
func TestTargetsThatResembleARouteAreNotIt(t *testing.T) {
	ts := startServerWith(t, nil, func(d *httpapi.Deps) { d.Accounts = inferKey{} })
	for _, target := range []string{
		"/metrics/", "/metrics%23", "/metric%73", "/metrics;x", "/metrics%2F", "/metrics%00", "/./metrics", "/x/../metrics",
		"/METRICS",
		"/v2/models//infer", "/v2/models/echo/infer/", "/v2/models/echo/versions//infer", "/v2/models/echo%2Finfer",
		"/v2//models/stats",
		"/v2/repository/index", "/" + strings.Repeat("a/", 1500),
	} {
		p := dial(t, ts)
		p.send(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ek_infer\r\n\r\n", target))
		if status, body := p.answer("GET"); status != 403 && status != 404 && status != 405 ||
			strings.Contains(body, "up 1") {
			t.Errorf("GET %.80s: %d %.200s", target, status, body)
		}
	}
}
