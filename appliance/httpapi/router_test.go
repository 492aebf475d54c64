package httpapi_test

import (
	"log/slog"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/compatible"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/inference"
)

func headerOf(method, target string) *fasthttp.RequestHeader {
	h := &fasthttp.RequestHeader{}
	h.SetMethod(method)
	h.SetRequestURI(target)
	return h
}

// wholeTable is a server with every route. Its handlers are not to be called.
func wholeTable(t testing.TB, cfg httpapi.Config, accounts httpapi.Accounts) *httpapi.Server {
	t.Helper()
	s, err := httpapi.New(cfg, httpapi.Deps{Log: slog.New(slog.DiscardHandler), Accounts: accounts})
	if err != nil {
		t.Fatal(err)
	}
	protocol, err := inference.Register(s, inference.Deps{
		Deps:    frontend.Deps{Logging: &fakeLogging{}, Tracing: &fakeTracing{}},
		Metrics: func() ([]byte, string, error) { return nil, "", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	compatible.Register(s, compatible.Deps{Inference: inferences{protocol}})
	deps := administration.Deps{
		Models: newFakeLibrary(), Box: struct{ administration.Box }{}, Jobs: struct{ administration.Jobs }{},
		Catalog: struct{ administration.Catalog }{}, Editor: struct{ administration.Editor }{},
		System: struct{ administration.System }{},
	}
	fill(&deps.Accounts)
	fill(&deps.Uploads)
	fill(&deps.Hub)
	administration.Register(s, deps)
	s.NameRest()
	return s
}

// fill makes a part be there whose handlers are not called.
func fill[T any](part **T) { *part = new(T) }

func TestTheRouteOfATarget(t *testing.T) {
	s := wholeTable(t, httpapi.Config{}, nil)
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
		{"a prediction", "POST", "/v1/models/cat:predict", "/v1/models/:model:predict", "cat"},
		{
			"a prediction of a label", "POST", "/v1/models/cat/labels/new:classify",
			"/v1/models/:model/labels/:version:classify", "cat",
		},
		{"a prediction of none", "POST", "/v1/models/:predict", "none", ""},
		{"an unknown verb", "POST", "/v1/models/cat:explain", "none", ""},
		{"an encoded verb", "POST", "/v1/models/cat%3Apredict", "none", ""},
		{"a verb twice", "POST", "/v1/models/cat:predict:predict", "/v1/models/:model:predict", "cat:predict"},
		{"a status", "GET", "/v1/models/cat", "/v1/models/:model", "cat"},
		{"nothing of TensorFlow's", "GET", "/v1/none", "none", ""},
		{"a file to predict with", "PUT", "/predictions/cat/1.0", "/predictions/:model/:version", "cat"},
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
			r, model := s.Find(headerOf(test.method, test.target))
			if r.Path != test.route || string(model) != test.model {
				t.Errorf("route %q, model %q; want %q, %q", r.Path, model, test.route, test.model)
			}
		})
	}
}

func TestEveryRouteIsReached(t *testing.T) {
	s := wholeTable(t, httpapi.Config{}, nil)
	for _, want := range s.Routes() {
		if got, _ := s.Find(headerOf(want.Method, want.Path)); got.Method != want.Method || got.Path != want.Path {
			t.Errorf("%s %s is hidden by %s", want.Method, want.Path, got.Path)
		}
	}
}

func TestOnlyTheseRoutesArePublic(t *testing.T) {
	known := map[string]bool{
		"GET /ping": true, "GET /": true, "GET /v2/health/live": true, "GET /v2/health/ready": true, "GET /api/v1/openapi.yaml": true,
		"GET /api/v1/setup": true, "POST /api/v1/setup/claim": true, "GET /api/v1/session": true,
		"POST /api/v1/session":       true,
		"GET /api/v1/inference.yaml": true, "GET /api/v1/grpc_service.proto": true, "GET /api/v1/model_config.proto": true,
		"GET /api/v1/tls/authority": true, "OPTIONS /api/v1/uploads": true,
	}
	for _, r := range wholeTable(t, httpapi.Config{}, nil).Routes() {
		if r.Public != known[r.Method+" "+r.Path] {
			t.Errorf("%s %s: public %v", r.Method, r.Path, r.Public)
		}
		if r.Public && (r.Rights != 0 || r.Confirm) {
			t.Errorf("%s %s is public and wants more", r.Method, r.Path)
		}
	}
}

func TestFindingARouteAllocatesNothing(t *testing.T) {
	s, h := wholeTable(t, httpapi.Config{}, nil), headerOf("POST", "/v2/models/ocr_recognize/versions/3/infer")
	if n := testing.AllocsPerRun(100, func() { s.Find(h) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFindARoute(b *testing.B) {
	s, h := wholeTable(b, httpapi.Config{}, nil), headerOf("POST", "/v2/models/ocr_recognize/infer")
	b.ReportAllocs()
	for b.Loop() {
		if r, _ := s.Find(h); r.Rights != edgewise.Infer {
			b.Fatal(r)
		}
	}
}
