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

// wholeTable is a server with every route. Its handlers are not to be called.
func wholeTable(t testing.TB) *Server {
	t.Helper()
	s := &Server{}
	var table []*route
	for _, part := range []func() []*route{
		s.metricsRoutes, s.serverRoutes, s.loggingRoutes, s.tracingRoutes, s.modelRoutes, s.sharedMemoryRoutes,
		s.repositoryRoutes,
		s.storeRoutes, s.sessionRoutes, s.accountRoutes, s.boxRoutes, s.systemRoutes, s.uploadRoutes, s.catalogRoutes,
		s.editorRoutes, s.activityRoutes,
	} {
		table = append(table, part()...)
	}
	s.table = append(table, get("/", s.root).forAll())
	s.router = newRouter(s.table, &route{path: "page", public: true}, &route{path: "none", rights: edgewise.Admin})
	return s
}

func TestTheRouteOfATarget(t *testing.T) {
	s := wholeTable(t)
	for _, test := range []struct{ name, method, target, route, model string }{
		{"infer", "POST", "/v2/models/cat/infer?x=y", "/v2/models/:model/infer", "cat"},
		{
			"infer of a version", "POST", "/v2/models/c%61t/versions/3/infer", "/v2/models/:model/versions/:version/infer",
			"c%61t",
		},
		{"statistics of all", "GET", "/v2/models/stats", "/v2/models/stats", ""},
		{"a model", "GET", "/v2/models/cat", "/v2/models/:model", "cat"},
		{"health", "GET", "/v2/health/live", "/v2/health/live", ""},
		{"health by HEAD", "HEAD", "/v2/health/live", "/v2/health/live", ""},
		{"an upload by HEAD", "HEAD", "/api/v1/uploads/abc", "/api/v1/uploads/:id", ""},
		{
			"a repository that is called as another route's segment", "POST", "/v2/repository/models/index",
			"/v2/repository/:repository/index", "",
		},
		{"a load", "POST", "/v2/repository/models/cat/load", "/v2/repository/models/:model/load", "cat"},
		{
			"a load from a repository", "POST", "/v2/repository/r/models/cat/load",
			"/v2/repository/:repository/models/:model/load", "cat",
		},
		{"the root", "GET", "/", "/", ""},
		{"the page", "GET", "/models/cat", "page", ""},
		{"the page, posted", "POST", "/models/cat", "none", ""},
		{"no route", "GET", "/api/v1/none", "none", ""},
		{"another method", "PUT", "/v2/models/cat/infer", "none", ""},
		{"no method of this server", "BREW", "/v2", "none", ""},
		{"a method in small letters", "get", "/v2", "none", ""},
		{"an empty name", "POST", "/v2/models//infer", "none", ""},
		{"a slash behind it", "GET", "/v2/health/live/", "none", ""},
		{"two slashes before it", "GET", "//v2/health/live", "page", ""},
		{"capitals", "GET", "/V2/health/live", "page", ""},
		{"an encoded slash", "GET", "/v2/health%2Flive", "none", ""},
		{"an encoded letter", "GET", "/v2/health/liv%65", "none", ""},
		{"a parameter behind a segment", "GET", "/v2/health/live;x=y", "none", ""},
		{"looks like an interface", "GET", "/v2x", "page", ""},
		{"the root of an interface", "GET", "/api", "none", ""},
		{"dots", "GET", "/v2/../api/v1/users", "none", ""},
		{"one dot", "GET", "/./v2", "page", ""},
		{"no slash", "GET", "v2", "none", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := s.router.find(headerOf(test.method, test.target))
			if m.route.path != test.route || string(m.value("model")) != test.model {
				t.Errorf("route %q, model %q; want %q, %q", m.route.path, m.value("model"), test.route, test.model)
			}
		})
	}
}

func TestEveryRouteIsReached(t *testing.T) {
	s := wholeTable(t)
	for _, want := range s.table {
		if got := s.router.find(headerOf(want.method, want.path)); got.route != want {
			t.Errorf("%s %s is hidden by %s", want.method, want.path, got.route.path)
		}
	}
}

func TestOnlyTheseRoutesArePublic(t *testing.T) {
	known := map[string]bool{
		"GET /": true, "GET /v2/health/live": true, "GET /v2/health/ready": true, "GET /api/v1/openapi.yaml": true,
		"GET /api/v1/setup": true, "POST /api/v1/setup/claim": true, "GET /api/v1/session": true,
		"POST /api/v1/session":      true,
		"GET /api/v1/tls/authority": true, "OPTIONS /api/v1/uploads": true,
	}
	for _, r := range wholeTable(t).table {
		if r.public != known[r.method+" "+r.path] {
			t.Errorf("%s %s: public %v", r.method, r.path, r.public)
		}
		if r.public && (r.rights != 0 || r.confirm) {
			t.Errorf("%s %s is public and wants more", r.method, r.path)
		}
	}
}

func TestFindingARouteAllocatesNothing(t *testing.T) {
	s, h := wholeTable(t), headerOf("POST", "/v2/models/ocr_recognize/versions/3/infer")
	if n := testing.AllocsPerRun(100, func() { s.router.find(h) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFindARoute(b *testing.B) {
	s, h := wholeTable(b), headerOf("POST", "/v2/models/ocr_recognize/infer")
	b.ReportAllocs()
	for b.Loop() {
		if m := s.router.find(h); m.rights != edgewise.Infer {
			b.Fatal(m)
		}
	}
}
