package httpapi

import (
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
)

func headerOf(method, target string) *fasthttp.RequestHeader {
	h := &fasthttp.RequestHeader{}
	h.SetMethod(method)
	h.SetRequestURI(target)
	return h
}

func TestTheRuleOfARequest(t *testing.T) {
	a := newAccess()
	for _, test := range []struct {
		name, method, target string
		rights               edgewise.Rights
		public               bool
		model                string
	}{
		{"infer", "POST", "/v2/models/cat/infer?x=y", edgewise.Infer, false, "cat"},
		{"infer of a version", "POST", "/v2/models/c%61t/versions/3/infer", edgewise.Infer, false, "c%61t"},
		{"statistics of all", "GET", "/v2/models/stats", edgewise.Read, false, ""},
		{"a model", "GET", "/v2/models/cat", use, false, "cat"},
		{"health", "GET", "/v2/health/live", 0, true, ""},
		{"health by HEAD", "HEAD", "/v2/health/live", 0, true, ""},
		{"an upload by HEAD", "HEAD", "/api/v1/uploads/abc", edgewise.Operate, false, ""},
		{"the page", "GET", "/models/cat", 0, true, ""},
		{"the page, posted", "POST", "/models/cat", edgewise.Admin, false, ""},
		{"no route", "GET", "/api/v1/none", edgewise.Admin, false, ""},
		{"another method", "PUT", "/v2/models/cat/infer", edgewise.Admin, false, ""},
		{"an empty name", "POST", "/v2/models//infer", edgewise.Admin, false, ""},
		{"more behind it", "GET", "/v2/health/live/", edgewise.Admin, false, ""},
		{"looks like an interface", "GET", "/v2x", 0, true, ""},
		{"the root of an interface", "GET", "/api", edgewise.Admin, false, ""},
		{"dots", "GET", "/v2/../api/v1/users", edgewise.Admin, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, model := a.find(headerOf(test.method, test.target))
			if r.rights != test.rights || r.public != test.public || string(model) != test.model {
				t.Errorf("%+v, model %q", r, model)
			}
		})
	}
}

func TestEveryRuleIsReached(t *testing.T) {
	a := newAccess()
	for i := range rules {
		if got, _ := a.find(headerOf(rules[i].method, rules[i].path)); got != &rules[i] {
			t.Errorf("%s %s is hidden by %s", rules[i].method, rules[i].path, got.path)
		}
	}
}

func BenchmarkFindARule(b *testing.B) {
	a, h := newAccess(), headerOf("POST", "/v2/models/ocr_recognize/infer")
	b.ReportAllocs()
	for b.Loop() {
		if r, _ := a.find(h); r.rights != edgewise.Infer {
			b.Fatal(r)
		}
	}
}
