package appliance

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/edgewise-ai/edgewise/api"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// document is the OpenAPI document and its routes, read once.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err == nil {
		doc.Servers = nil // the prefix is taken off before
	}
	return doc, err
})

// conforming holds every answer of /api/v1 against the document.
type conforming struct {
	t      *testing.T
	next   http.RoundTripper
	router routers.Router
}

func conform(t *testing.T, next http.RoundTripper) http.RoundTripper {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &conforming{t, next, router}
}

func (c *conforming) CloseIdleConnections() {
	if closer, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

func (c *conforming) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.next.RoundTrip(req)
	if err != nil || !strings.HasPrefix(req.URL.Path, "/api/v1/") || strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	bare := req.Clone(req.Context())
	bare.URL.Path, bare.URL.RawPath = strings.TrimPrefix(req.URL.Path, "/api/v1"), ""
	route, parameters, err := c.router.FindRoute(bare)
	if err != nil {
		if res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusUnauthorized &&
			res.StatusCode != http.StatusMethodNotAllowed && res.StatusCode != http.StatusForbidden {
			c.t.Errorf("%s %s answers %d and is not in the document: %v", req.Method, req.URL.Path, res.StatusCode, err)
		}
		return res, nil
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: bare, PathParams: parameters, Route: route},
		Status:                 res.StatusCode, Header: res.Header, Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			ExcludeResponseBody:   !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json"),
		},
	}
	in.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(context.Background(), in); err != nil {
		c.t.Errorf("%s %s: %d %.300s\ndoes not conform to the document: %v", req.Method, req.URL.Path, res.StatusCode, body, err)
	}
	return res, nil
}

var parameter = regexp.MustCompile(`\{(\w+)\}|:(\w+)`)

func TestTheDocumentAndTheRouterAreTheSame(t *testing.T) {
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	var described, routed []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" /api/v1"+parameter.ReplaceAllString(path, "*"))
		}
	}
	h := runBox(t, nil)
	for _, r := range h.app.rest.Routes() {
		if !strings.HasPrefix(r.Path, "/api/v1/") || r.Method == "HEAD" && r.Path != "/api/v1/uploads/:id" {
			continue
		}
		routed = append(routed, r.Method+" "+parameter.ReplaceAllString(r.Path, "*"))
	}
	for _, d := range described {
		if !slices.Contains(routed, d) {
			t.Errorf("%s is described and not there", d)
		}
	}
	for _, r := range routed {
		if !slices.Contains(described, r) {
			t.Errorf("%s is there and not described", r)
		}
	}
}

func TestTheDocumentSaysWhoMay(t *testing.T) {
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	h := runBox(t, nil)
	table := map[string]httpapi.Route{}
	for _, r := range h.app.rest.Routes() {
		table[r.Method+" "+parameter.ReplaceAllString(r.Path, "*")] = r
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			rule, ok := table[method+" /api/v1"+parameter.ReplaceAllString(path, "*")]
			right := "self"
			switch {
			case rule.Public:
				right = "public"
			case rule.Rights != 0:
				right = strings.Join(rule.Rights.Names(), " or ")
			}
			confirm, _ := op.Extensions["x-confirm"].(bool)
			if !ok || right != op.Extensions["x-right"] || confirm != rule.Confirm {
				t.Errorf("%s %s: the document says %v, confirm %v; the table says %s, confirm %v", method, path,
					op.Extensions["x-right"], confirm, right, rule.Confirm)
			}
		}
	}
}
