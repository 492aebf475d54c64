package httpapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/inference"
)

const echoBody = `{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}`

func TestHeadersBecomeParameters(t *testing.T) {
	for _, test := range []struct{ name, pattern, header, want string }{
		{"none", "", "X-Tenant", ""},
		{"a match", "^x-", "X-Tenant", "X-Tenant=me"},
		{"the client's spelling", "tenant", "x-tEnAnT", "x-tEnAnT=me"},
		{"capitals count", "(?-i)^x-", "X-Tenant", ""},
		{"capitals count and match", "(?-i)^X-", "X-Tenant", "X-Tenant=me"},
		{"a reserved name", "priority", "priority", "400"},
		{"a reserved beginning", "triton", "triton_x", "400"},
	} {
		for _, route := range []string{"infer", "generate"} {
			t.Run(test.name+" "+route, func(t *testing.T) {
				ts := startServer(t, func(c *httpapi.Config) { c.ForwardHeaders = test.pattern })
				got := ""
				ts.engine.hook = func(_ context.Context, req *edgewise.Request) {
					for name, value := range req.Parameters {
						got += fmt.Sprint(name, "=", value)
					}
				}
				body := echoBody
				if route == "generate" {
					body = `{"x":[1,2,3,4]}`
				}
				resp, text := ts.do(t, "POST", "/v2/models/echo/"+route, body, test.header, "me")
				if resp.StatusCode != 200 {
					got = fmt.Sprint(resp.StatusCode)
				}
				if got != test.want {
					t.Errorf("got %q, want %q: %s", got, test.want, text)
				}
			})
		}
	}
}

func TestForwardedHeadersAreBounded(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) { c.ForwardHeaders, c.MaxHeaderBytes = "^h", 64<<10 })
	headers := []string{}
	for i := range 257 {
		headers = append(headers, fmt.Sprintf("h%d", i), "v")
	}
	resp, text := ts.do(t, "POST", "/v2/models/echo/infer", echoBody, headers...)
	if resp.StatusCode != 400 || !strings.Contains(string(text), "more than 256 custom parameters, forwarded headers "+
		"included") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}

func TestABadPatternIsRefused(t *testing.T) {
	s, err := httpapi.New(httpapi.Config{ForwardHeaders: "("}, httpapi.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inference.Register(s, inference.Deps{}); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("got %v", err)
	}
}

func TestRestrictedAPIs(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) {
		c.Restricted = []frontend.Restriction{
			{APIs: []string{"health", "inference"}, Key: "api-key", Value: "s3cret"},
			{
				APIs: []string{"model-repository", "logging", "trace", "statistics", "shared-memory", "model-config", "metadata"},
				Key:  "admin-key", Value: "root",
			},
		}
	})
	for _, test := range []struct{ method, path, body, key, value string }{
		{"GET", "/v2/health/live", "", "api-key", "s3cret"},
		{"GET", "/v2/health/ready", "", "api-key", "s3cret"},
		{"GET", "/v2/models/echo/ready", "", "api-key", "s3cret"},
		{"POST", "/v2/models/echo/infer", echoBody, "api-key", "s3cret"},
		{"POST", "/v2/models/echo/generate", `{"x":[1,2,3,4]}`, "api-key", "s3cret"},
		{"GET", "/v2", "", "admin-key", "root"},
		{"GET", "/v2/models/echo", "", "admin-key", "root"},
		{"GET", "/v2/models/echo/config", "", "admin-key", "root"},
		{"GET", "/v2/models/stats", "", "admin-key", "root"},
		{"GET", "/v2/trace/setting", "", "admin-key", "root"},
		{"GET", "/v2/logging", "", "admin-key", "root"},
		{"POST", "/v2/repository/index", "", "admin-key", "root"},
		{"GET", "/v2/systemsharedmemory/status", "", "admin-key", "root"},
	} {
		for _, wrong := range [][]string{nil, {test.key, "wrong"}, {"other", test.value}} {
			resp, body := ts.do(t, test.method, test.path, test.body, wrong...)
			want := `{"error":"This API is restricted, expecting header '` + test.key + `'","code":"denied"}`
			if resp.StatusCode != 403 || string(body) != want {
				t.Errorf("%s %s with %v: %d %s", test.method, test.path, wrong, resp.StatusCode, body)
			}
		}
		if resp, body := ts.do(t, test.method, test.path, test.body, test.key, test.value); resp.StatusCode != 200 {
			t.Errorf("%s %s: %d %s", test.method, test.path, resp.StatusCode, body)
		}
	}
}
