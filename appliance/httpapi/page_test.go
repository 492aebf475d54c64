package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

func pageOf(path, _ string) (httpapi.PageFile, bool) {
	switch path {
	case "assets/a.js":
		return httpapi.PageFile{
			Body: []byte("let a"), Type: "text/javascript", Encoding: "br", ETag: `"a"`,
			CacheControl: "immutable", Policy: "default-src 'none'",
		}, true
	case "assets/gone.js":
		return httpapi.PageFile{}, false
	}
	return httpapi.PageFile{
		Body: []byte("<html>"), Type: "text/html", ETag: `"h"`, CacheControl: "no-cache",
		Policy: "default-src 'none'",
	}, true
}

func TestBrowsersGetThePageAndProgramsTheTruth(t *testing.T) {
	ts := startServerWith(t, nil, func(d *httpapi.Deps) { d.Page = pageOf })
	tests := []struct {
		name, method, path, accept string
		status                     int
		want                       string
	}{
		{name: "browser at the root", method: "GET", path: "/", accept: "text/html,*/*", status: 200, want: "<html>"},
		{name: "program at the root", method: "GET", path: "/", accept: "*/*", status: 200, want: `"version"`},
		{
			name: "browser at an address of the page", method: "GET", path: "/models/cat", accept: "text/html", status: 200,
			want: "<html>",
		},
		{
			name: "program there", method: "GET", path: "/models/cat", accept: "application/json", status: 404,
			want: "Not Found",
		},
		{name: "a script", method: "GET", path: "/assets/a.js", accept: "*/*", status: 200, want: "let a"},
		{
			name: "a script of an older build", method: "GET", path: "/assets/gone.js", accept: "*/*", status: 404,
			want: "Not Found",
		},
		{
			name: "browser at an unknown route of the API", method: "GET", path: "/api/v1/nothing", accept: "text/html",
			status: 404, want: "Not Found",
		},
		{
			name: "browser at an unknown route of the protocol", method: "GET", path: "/v2/nothing", accept: "text/html",
			status: 404, want: "Not Found",
		},
		{name: "post to the page", method: "POST", path: "/models", accept: "text/html", status: 404, want: "Not Found"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resp, body := ts.do(t, test.method, test.path, "", "Accept", test.accept)
			if resp.StatusCode != test.status || !strings.Contains(body, test.want) {
				t.Errorf("answer %d %q, want %d with %q", resp.StatusCode, body, test.status, test.want)
			}
		})
	}
}

func TestThePageCarriesItsPolicyAndIsNotSentTwice(t *testing.T) {
	ts := startServerWith(t, nil, func(d *httpapi.Deps) { d.Page = pageOf })
	resp, _ := ts.do(t, "GET", "/assets/a.js", "", "Accept-Encoding", "br")
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy":  "no-referrer",
		"Content-Encoding": "br", "Etag": `"a"`, "Cache-Control": "immutable", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	resp, body := ts.do(t, "GET", "/assets/a.js", "", "Accept-Encoding", "br", "If-None-Match", `"x", "a"`)
	if resp.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("asked again: %d with %d bytes", resp.StatusCode, len(body))
	}
}
