package appliance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// document is the OpenAPI document of the administration and its routes, read once.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("../api/openapi.yaml")
	if err == nil {
		doc.Servers = nil // the prefix is taken off before
	}
	return doc, err
})

// described returns the operations of both documents, by their method and path; what stands in a path is *.
func described(t *testing.T) map[string]*openapi3.Operation {
	t.Helper()
	administration, err := document()
	if err != nil {
		t.Fatal(err)
	}
	inference, err := openapi3.NewLoader().LoadFromFile("../api/inference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*openapi3.Operation{}
	for prefix, doc := range map[string]*openapi3.T{"/api/v1": administration, "": inference} {
		for path, item := range doc.Paths.Map() {
			for method, op := range item.Operations() {
				all[method+" "+prefix+nameless(path)] = op
			}
		}
	}
	return all
}

// conforming holds every answer of /api/v1 against the document.
type conforming struct {
	t      *testing.T
	next   http.RoundTripper
	router routers.Router
	seen   sync.Map // answers that were compared with the document, by operation, status and body
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
	return &conforming{t: t, next: next, router: router}
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
	answer := fmt.Sprintln(req.Method, route.Path, res.StatusCode, res.Header.Get("Content-Type"), string(body))
	if _, known := c.seen.LoadOrStore(answer, true); known {
		return res, nil
	}
	if err := openapi3filter.ValidateResponse(context.Background(), in); err != nil {
		c.t.Errorf("%s %s: %d %.300s\ndoes not conform to the document: %v", req.Method, req.URL.Path, res.StatusCode, body, err)
	}
	return res, nil
}

var parameter = regexp.MustCompile(`/(\{\w+\}|:\w+)`)

// nameless returns a path with * in place of its parameters.
func nameless(path string) string { return parameter.ReplaceAllString(path, "/*") }

func TestTheDocumentsAndTheRouterAreTheSame(t *testing.T) {
	all := described(t)
	h := runBox(t, nil)
	routed := map[string]bool{}
	for _, r := range h.app.rest.Routes() {
		if r.Path == "/" || r.Path == "/metrics" ||
			r.Method == "HEAD" && r.Path != "/api/v1/uploads/:id" {
			continue
		}
		routed[r.Method+" "+nameless(r.Path)] = true
	}
	for d := range all {
		if !routed[d] {
			t.Errorf("%s is described and not there", d)
		}
	}
	for r := range routed {
		if all[r] == nil {
			t.Errorf("%s is there and not described", r)
		}
	}
}

func TestTheDocumentsSayWhoMay(t *testing.T) {
	h := runBox(t, nil)
	table := map[string]httpapi.Route{}
	for _, r := range h.app.rest.Routes() {
		table[r.Method+" "+nameless(r.Path)] = r
	}
	for path, op := range described(t) {
		rule, ok := table[path]
		right := "self"
		switch {
		case rule.Public:
			right = "public"
		case rule.Rights != 0:
			right = strings.Join(rule.Rights.Names(), " or ")
		}
		confirm, _ := op.Extensions["x-confirm"].(bool)
		if !ok || right != op.Extensions["x-right"] || confirm != rule.Confirm {
			t.Errorf("%s: the document says %v, confirm %v; the table says %s, confirm %v", path, op.Extensions["x-right"],
				confirm, right, rule.Confirm)
		}
	}
}
