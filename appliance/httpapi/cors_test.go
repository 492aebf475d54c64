package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// originKeys knows a key for pages of one origin, a key without origins, and one person.
type originKeys struct{ httpapi.Accounts }

const keyOrigin = "https://shop.example"

func (originKeys) Bearer(secret string, _ bool) (*edgewise.Principal, func(), error) {
	switch secret {
	case "ek_shop":
		return &edgewise.Principal{
			Kind: "key", Name: "shop", Rights: edgewise.Infer | edgewise.Read,
			Origins: []string{keyOrigin},
		}, nil, nil
	case "ek_plain":
		return &edgewise.Principal{Kind: "key", Name: "plain", Rights: edgewise.AllRights}, nil, nil
	}
	return nil, nil, edgewise.Errorf("fake", edgewise.Unauthenticated, "this key is not known")
}

func (originKeys) HasOrigin(origin string) bool                { return origin == keyOrigin }
func (originKeys) Record(admin.AuditEntry) error               { return nil }
func (originKeys) Claimed() bool                               { return true }
func (originKeys) CheckCSRF(*edgewise.Principal, string) error { return nil }
func (originKeys) Ask(*edgewise.Principal) (func(), error)     { return nil, nil }
func (originKeys) Person(token string) (*edgewise.Principal, error) {
	return &edgewise.Principal{Kind: "person", Name: token, Rights: edgewise.AllRights}, nil
}

func TestPagesOfOtherOrigins(t *testing.T) {
	const infer = "/v2/models/echo/infer"
	for _, test := range []struct {
		name         string
		origins      []string // configured
		open         bool     // no accounts
		method, path string
		headers      []string
		status       int
		allowed      string // Access-Control-Allow-Origin
	}{
		{
			"configured, with a key",
			[]string{"http://app.example"},
			false, "POST", infer,
			[]string{"Origin", "http://app.example", "Authorization", "Bearer ek_plain"},
			200, "http://app.example",
		},
		{
			"configured, without a key",
			[]string{"http://app.example"},
			false, "POST", infer,
			[]string{"Origin", "http://app.example"},
			401, "http://app.example",
		},
		{
			"configured, a public route",
			[]string{"http://app.example"},
			false, "GET", "/v2/health/live",
			[]string{"Origin", "http://app.example"},
			200, "http://app.example",
		},
		{
			"configured, a cookie",
			[]string{"http://app.example"},
			false, "POST", infer,
			[]string{"Origin", "http://app.example", "Cookie", "edgewise=anna"},
			401, "http://app.example",
		},
		{
			"configured, a cookie, reading",
			[]string{"http://app.example"},
			false, "GET", "/api/v1/models",
			[]string{"Origin", "http://app.example", "Cookie", "edgewise=anna"},
			401, "http://app.example",
		},
		{
			"all, a cookie",
			[]string{"*"},
			false, "GET", "/api/v1/models",
			[]string{"Origin", "http://any.example", "Cookie", "edgewise=anna"},
			401, "http://any.example",
		},
		{
			"all, with a key",
			[]string{"*"},
			false, "POST", infer,
			[]string{"Origin", "null", "Authorization", "Bearer ek_plain"},
			200, "null",
		},
		{
			"all, open",
			[]string{"*"},
			true, "POST", infer,
			[]string{"Origin", "http://any.example"},
			200,
			"http://any.example",
		},
		{"none, open", nil, true, "POST", infer, []string{"Origin", "http://any.example"}, 403, ""},
		{"none, open, reading", nil, true, "GET", "/v2", []string{"Origin", "http://any.example"}, 200, ""},
		{
			"another scheme",
			[]string{"http://app.example"},
			false, "POST", infer,
			[]string{"Origin", "https://app.example", "Authorization", "Bearer ek_plain"},
			403, "",
		},
		{
			"another port",
			[]string{"http://app.example"},
			false, "POST", infer,
			[]string{"Origin", "http://app.example:81", "Authorization", "Bearer ek_plain"},
			403, "",
		},
		{
			"a longer name",
			[]string{"http://app.example"},
			false, "POST", infer,
			[]string{"Origin", "http://app.example.evil.example", "Authorization", "Bearer ek_plain"},
			403, "",
		},
		{
			"of a key", nil, false, "POST", infer,
			[]string{"Origin", keyOrigin, "Authorization", "Bearer ek_shop"},
			200,
			keyOrigin,
		},
		{
			"of a key, reading", nil, false, "GET", "/v2",
			[]string{"Origin", keyOrigin, "Authorization", "Bearer ek_shop"},
			200,
			keyOrigin,
		},
		{
			"of a key, a right that it lacks", nil, false, "POST", "/v2/repository/models/echo/load",
			[]string{"Origin", keyOrigin, "Authorization", "Bearer ek_shop"},
			403, keyOrigin,
		},
		{
			"of another key", nil, false, "POST", infer,
			[]string{"Origin", keyOrigin, "Authorization", "Bearer ek_plain"},
			403,
			"",
		},
		{
			"of another key, reading", nil, false, "GET", "/v2",
			[]string{"Origin", keyOrigin, "Authorization", "Bearer ek_plain"},
			200, "",
		},
		{"of a key, without it", nil, false, "POST", infer, []string{"Origin", keyOrigin}, 403, ""},
		{
			"another than the key's", nil, false, "POST", infer,
			[]string{"Origin", "http://evil.example", "Authorization", "Bearer ek_shop"},
			403, "",
		},
		{"the server's own page", nil, false, "POST", infer, []string{"Origin", "own", "Cookie", "edgewise=anna"}, 200, ""},
		{"no origin", nil, false, "POST", infer, []string{"Authorization", "Bearer ek_shop"}, 200, ""},
		{"a login", []string{"*"}, false, "POST", "/api/v1/session", []string{"Origin", "http://any.example"}, 403, ""},
		{
			"what only people do",
			[]string{"*"},
			false, "POST", "/api/v1/session/confirm",
			[]string{"Origin", "http://any.example", "Cookie", "edgewise=anna"},
			403, "",
		},
		{
			"a route that is none",
			[]string{"http://app.example"},
			false, "GET", "/v2/none",
			[]string{"Origin", "http://app.example", "Authorization", "Bearer ek_plain"},
			404, "http://app.example",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := startServerWith(t, func(c *httpapi.Config) { c.Origins = test.origins }, func(d *httpapi.Deps) {
				if !test.open {
					d.Accounts = originKeys{}
				}
			})
			for i, h := range test.headers {
				if h == "own" {
					test.headers[i] = ts.url
				}
			}
			resp, body := ts.do(t, test.method, test.path, tinyInfer, test.headers...)
			if resp.StatusCode != test.status {
				t.Errorf("answer %d %s, want %d", resp.StatusCode, body, test.status)
			}
			wantShared(t, resp, test.allowed)
			if varies := strings.Contains(strings.Join(resp.Header.Values("Vary"), ","), "Origin"); test.allowed != "" &&
				!varies {
				t.Errorf("Vary: %q", resp.Header.Values("Vary"))
			}
		})
	}
}

// wantShared claims that pages of an origin, "" for none, may read an answer, and never with a cookie.
func wantShared(t *testing.T, resp *http.Response, origin string) {
	t.Helper()
	if got := resp.Header.Get("Access-Control-Allow-Origin"); got != origin {
		t.Errorf("Access-Control-Allow-Origin %q, want %q", got, origin)
	}
	if got := resp.Header.Get("Access-Control-Allow-Credentials"); got != "" {
		t.Errorf("Access-Control-Allow-Credentials %q", got)
	}
}

func TestPreflights(t *testing.T) {
	for _, test := range []struct {
		name, path, origin, method string
		status                     int
		allowed                    string
	}{
		{"configured", "/v2/models/echo/infer", "http://app.example", "POST", 204, "http://app.example"},
		{"of a key", "/v2/models/echo/infer", keyOrigin, "POST", 204, keyOrigin},
		{"of nobody", "/v2/models/echo/infer", "http://evil.example", "POST", 403, ""},
		{"a method that the path lacks", "/v2/models/echo/infer", "http://app.example", "DELETE", 403, ""},
		{"a path that is none", "/v2/none", "http://app.example", "POST", 403, ""},
		{"a login", "/api/v1/session", "http://app.example", "POST", 403, ""},
		{"what only people do", "/api/v1/session", "http://app.example", "DELETE", 403, ""},
		{"an upload", "/api/v1/uploads/abc", "http://app.example", "PATCH", 204, "http://app.example"},
		{"an administration route", "/api/v1/models/m/labels/live", "http://app.example", "PUT", 204, "http://app.example"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := &testServer{Server: wholeTable(t, httpapi.Config{Origins: []string{"http://app.example"}}, originKeys{})}
			ts.listen(t)
			resp, body := ts.do(t, "OPTIONS", test.path, "", "Origin", test.origin, "Access-Control-Request-Method", test.method,
				"Access-Control-Request-Headers", "authorization,content-type", "Access-Control-Request-Private-Network", "true")
			if resp.StatusCode != test.status {
				t.Errorf("answer %d %s, want %d", resp.StatusCode, body, test.status)
			}
			wantShared(t, resp, test.allowed)
			if test.allowed == "" {
				return
			}
			for name, want := range map[string]string{
				"Access-Control-Allow-Methods": test.method, "Access-Control-Allow-Headers": "*, Authorization",
				"Access-Control-Max-Age":               "600",
				"Access-Control-Allow-Private-Network": "true", "Vary": "Origin, Access-Control-Request-Method, " +
					"Access-Control-Request-Headers",
			} {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s %q, want %q", name, got, want)
				}
			}
		})
	}
}
