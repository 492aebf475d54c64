package httpapi_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/test/journal"
)

// route is a request and its whole answer.
type routeCase struct {
	name, method, path, body string
	status                   int
	want                     string
}

func checkRoutes(t *testing.T, ts *testServer, routes []routeCase) {
	t.Helper()
	for _, test := range routes {
		t.Run(test.name, func(t *testing.T) {
			resp, got := ts.do(t, test.method, test.path, test.body)
			if diff := cmp.Diff(test.want, got); resp.StatusCode != test.status || diff != "" {
				t.Errorf("%s %s: %d, want %d; body (-want +got):\n%s", test.method, test.path, resp.StatusCode, test.status, diff)
			}
			if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusNoContent && kind != "application/json" {
				t.Errorf("%s %s: content type %q", test.method, test.path, kind)
			}
			if server := resp.Header.Get("Server"); server != "" {
				t.Errorf("the answer names its server: %q", server)
			}
		})
	}
}

const (
	notFound   = `{"error":"Not Found"}`
	notAllowed = `{"error":"Method Not Allowed"}`
	noModel    = `{"error":"Request for unknown model: 'none' is not found","code":"not_found"}`
	noVersion  = `{"error":"Request for unknown model: 'echo' version 2 is not found","code":"not_found"}`
	notReady   = `{"error":"Request for unknown model: 'cold' version 1 is not at ready state","code":"unavailable"}`
)

func TestInferenceProtocolRoutes(t *testing.T) {
	const metadata = `"platform":"onnxruntime_onnx","inputs":[{"name":"x","datatype":"FP32","shape":[-1,4]}],` +
		`"outputs":[{"name":"y","datatype":"FP32","shape":[-1,4]}]}`
	const stats = `{"model_stats":[{"name":"echo","version":"3","last_inference":1700000000123,"inference_count":7,"execution_count":5,` +
		`"inference_stats":{"success":{"count":7,"ns":70},"fail":{"count":0,"ns":0},"queue":{"count":0,"ns":0},` +
		`"compute_input":{"count":0,"ns":0},` +
		`"compute_infer":{"count":0,"ns":0},"compute_output":{"count":0,"ns":0},"cache_hit":{"count":0,"ns":0},` +
		`"cache_miss":{"count":0,"ns":0}},` +
		`"response_stats":{},"batch_stats":[],"memory_usage":[]}]}`
	checkRoutes(t, startServer(t, nil), []routeCase{
		{"live", "GET", "/v2/health/live", "", 200, ""},
		{"live with a query", "GET", "/v2/health/live?x=y", "", 200, ""},
		{"ready", "GET", "/v2/health/ready", "", 200, ""},
		{
			"server", "GET", "/v2", "", 200,
			`{"name":"edgewise","version":"1.2.3","extensions":["classification","sequence","model_repository",` +
				`"model_repository(unload_dependents)","schedule_policy","model_configuration","system_shared_memory",` +
				`"cuda_shared_memory","binary_tensor_data","parameters","statistics","trace","logging"]}`,
		},
		{"model", "GET", "/v2/models/echo", "", 200, `{"name":"echo","versions":["1","3"],` + metadata},
		{"model version", "GET", "/v2/models/echo/versions/1", "", 200, `{"name":"echo","versions":["1"],` + metadata},
		{"model by an encoded name", "GET", "/v2/models/%65cho", "", 200, `{"name":"echo","versions":["1","3"],` + metadata},
		{"unknown model", "GET", "/v2/models/none", "", 404, noModel},
		{"unknown version", "GET", "/v2/models/echo/versions/2", "", 404, noVersion},
		{
			"version 0", "GET", "/v2/models/echo/versions/0", "", 404,
			`{"error":"Request for unknown model: 'echo' version 0 is not found","code":"not_found"}`,
		},
		{
			"version of 30 digits", "GET", "/v2/models/echo/versions/999999999999999999999999999999", "", 404,
			`{"error":"Request for unknown model: 'echo' version 999999999999999999999999999999 is not found","code":"not_found"}`,
		},
		{
			"version of text", "GET", "/v2/models/echo/versions/one", "", 404,
			`{"error":"Request for unknown model: 'echo' version 'one' is not found: want its number, or a label of this model","code":"not_found"}`,
		},
		{
			"negative version", "GET", "/v2/models/echo/versions/-1", "", 404,
			`{"error":"Request for unknown model: 'echo' version '-1' is not found: want its number, or a label of this model","code":"not_found"}`,
		},
		{"model not ready", "GET", "/v2/models/cold", "", 503, notReady},
		{
			"name with a slash", "GET", "/v2/models/a%2Fb", "", 404,
			`{"error":"Request for unknown model: 'a/b' is not found","code":"not_found"}`,
		},
		{
			"name that leaves a folder", "GET", "/v2/models/%2e%2e", "", 404,
			`{"error":"Request for unknown model: '..' is not found","code":"not_found"}`,
		},
		{
			"name with NUL", "GET", "/v2/models/a%00", "", 404,
			`{"error":"Request for unknown model: 'a\u0000' is not found","code":"not_found"}`,
		},
		{"ready model", "GET", "/v2/models/echo/ready", "", 200, ""},
		{"ready version", "GET", "/v2/models/echo/versions/3/ready", "", 200, ""},
		{"not ready", "GET", "/v2/models/cold/ready", "", 400, `{"error":"Model version not ready","code":"unavailable"}`},
		{
			"ready of an unknown model", "GET", "/v2/models/none/ready", "", 400,
			`{"error":"Model version not ready","code":"not_found"}`,
		},
		{
			"ready of an unknown version", "GET", "/v2/models/echo/versions/2/ready", "", 400,
			`{"error":"Model version not ready","code":"not_found"}`,
		},
		{
			"ready of an unknown label", "GET", "/v2/models/echo/versions/beta/ready", "", 400,
			`{"error":"Model version not ready","code":"not_found"}`,
		},
		{"statistics of all", "GET", "/v2/models/stats", "", 200, stats},
		{"statistics", "GET", "/v2/models/echo/stats", "", 200, stats},
		{"statistics of a version", "GET", "/v2/models/echo/versions/3/stats", "", 200, stats},
		{
			"statistics of an unknown model", "GET", "/v2/models/none/stats", "", 400,
			`{"error":"requested model 'none' is not available","code":"invalid"}`,
		},
		{"configuration of an unknown model", "GET", "/v2/models/none/config", "", 404, noModel},
		{"trailing slash", "GET", "/v2/", "", 404, notFound},
		{"trailing slash of a model", "GET", "/v2/models/echo/", "", 404, notFound},
		{"other case", "GET", "/V2", "", 404, notFound},
		{"empty name", "GET", "/v2/models//ready", "", 404, notFound},
		{"dots in the path", "GET", "/v2/models/../models/echo", "", 404, notFound},
		{"GET of generate", "GET", "/v2/models/echo/generate", "", 405, notAllowed},
		{"GET of infer", "GET", "/v2/models/echo/infer", "", 405, notAllowed},
		{"POST of health", "POST", "/v2/health/live", "", 405, notAllowed},
		{"PATCH", "PATCH", "/v2", "", 405, notAllowed},
	})
}

func TestAnUnhealthyServerAnswers400WithoutABody(t *testing.T) {
	ts := startServer(t, nil)
	ts.engine.notLive.Store(true)
	checkRoutes(t, ts, []routeCase{
		{"live", "GET", "/v2/health/live", "", 400, ""},
		{"ready", "GET", "/v2/health/ready", "", 400, ""},
	})
}

func TestRequestsAreLoggedAsDetails(t *testing.T) {
	log := &journal.Journal{}
	ts := startServerWith(t, nil, func(d *httpapi.Deps) {
		d.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	checkRoutes(t, ts, []routeCase{{
		"load of an unknown model", "POST", "/v2/repository/models/none/load", "", 404,
		`{"error":"failed to load 'none', failed to poll from model repository","code":"not_found"}`,
	}})
	want := `level=DEBUG msg="request failed" method=POST path=/v2/repository/models/none/load kind=not_found ` +
		`error="failed to load 'none', failed to poll from model repository"`
	const asked = `level=DEBUG msg=request method=POST path=/v2/repository/models/none/load`
	if !strings.Contains(log.String(), want) || !strings.Contains(log.String(), asked) {
		t.Errorf("got %q, want %q and %q", log.String(), asked, want)
	}
}

func TestRepositoryRoutes(t *testing.T) {
	ts := startServer(t, nil)
	const all = `[{"name":"cold","version":"1","state":"UNAVAILABLE","reason":"unloaded"},{"name":"echo","version":"3",` +
		`"state":"READY"},{"name":"never"}]`
	checkRoutes(t, ts, []routeCase{
		{"index", "POST", "/v2/repository/index", "", 200, all},
		{"index, all", "POST", "/v2/repository/index", `{"ready":false}`, 200, all},
		{
			"index, ready", "POST", "/v2/repository/index", `{"ready":true}`, 200,
			`[{"name":"echo","version":"3","state":"READY"}]`,
		},
		{"index of a repository", "POST", "/v2/repository/any/index", "{}", 200, all},
		{
			"index, bad JSON", "POST", "/v2/repository/index", `{"ready":true`, 400,
			`{"error":"failed to parse the request JSON buffer: Missing a comma or } after an object member. at 13",` +
				`"code":"invalid"}`,
		},
		{
			"index, bad type", "POST", "/v2/repository/index", `{"ready":1}`, 400,
			`{"error":"Invalid value for 'ready': expected a boolean, got a number","code":"invalid","field":"ready"}`,
		},
		{"load", "POST", "/v2/repository/models/echo/load", "", 200, ""},
		{"load with parameters", "POST", "/v2/repository/models/echo/load", `{"parameters":{}}`, 200, ""},
		{
			"load of an unknown model", "POST", "/v2/repository/models/none/load", "", 404,
			`{"error":"failed to load 'none', failed to poll from model repository","code":"not_found"}`,
		},
		{"load with a configuration", "POST", "/v2/repository/models/echo/load", `{"parameters":{"config":"{}"}}`, 200, ""},
		{
			"load with a configuration that is no text", "POST", "/v2/repository/models/echo/load",
			`{"parameters":{"config":{}}}`, 400, `{"error":"load parameter 'config' is {}: want text","code":"invalid"}`,
		},
		{
			"load with a file", "POST", "/v2/repository/models/echo/load",
			`{"parameters":{"config":"{}","file:1/model.onnx":"AA=="}}`, 200, "",
		},
		{
			"load with a file that is not base64", "POST", "/v2/repository/models/echo/load",
			`{"parameters":{"config":"{}","file:1/model.onnx":"?"}}`, 400,
			`{"error":"load parameter 'file:1/model.onnx': its text is not base64: illegal base64 data at input byte 0","code":"invalid"}`,
		},
		{
			"load of a blank name", "POST", "/v2/repository/models/%20/load", "", 400,
			`{"error":"Model name cannot be empty. Please enter a valid name to deploy.","code":"invalid"}`,
		},
		{
			"load of a path", "POST", "/v2/repository/models/..%2Fx/load", "", 400,
			`{"error":"invalid model name '../x', model name must not contain path traversal characters","code":"invalid"}`,
		},
		{
			"load with nonsense", "POST", "/v2/repository/models/echo/load", `{"parameters":{"x":1}}`, 400,
			`{"error":"Unrecognized load parameter 'x'","code":"invalid"}`,
		},
		{"unload", "POST", "/v2/repository/models/echo/unload", "", 200, ""},
		{
			"unload with dependents", "POST", "/v2/repository/models/echo/unload", `{"parameters":{"unload_dependents":true}}`,
			200, "",
		},
		{
			"unload, bad parameter", "POST", "/v2/repository/models/echo/unload", `{"parameters":{"unload_dependents":"yes"}}`,
			400, `{"error":"Unable to parse 'unload_dependents': it is \"yes\", want true or false","code":"invalid"}`,
		},
		{"unload, unknown parameter", "POST", "/v2/repository/models/echo/unload", `{"parameters":{"x":true}}`, 200, ""},
		{
			"named repository", "POST", "/v2/repository/any/models/echo/load", "", 501,
			`{"error":"'repository_name' specification is not supported","code":"unsupported"}`,
		},
		{"GET of the index", "GET", "/v2/repository/index", "", 405, notAllowed},
	})
	want := []string{
		"load echo  map[]", "load echo  map[]", "load none  map[]", "load echo {} map[]",
		"load echo {} map[1/model.onnx:[0]]", "unload echo false", "unload echo true", "unload echo false",
	}
	if diff := cmp.Diff(want, ts.engine.calls); diff != "" {
		t.Errorf("calls of the engine (-want +got):\n%s", diff)
	}
}

func TestAdministrationRoutes(t *testing.T) {
	ts := startServer(t, nil)
	for range 2 {
		if resp, body := ts.do(t, "POST", uploadPath, "abc", typeKey, "application/octet-stream"); resp.StatusCode != 201 {
			t.Fatalf("upload: %d %s", resp.StatusCode, body)
		}
	}
	const version = `"digest":"abc","size":3,"created":"2026-01-02T03:04:05Z","origin":"upload",` +
		`"files":[{"path":"model.onnx","size":3,"digest":"def"}]}`
	const stored = `{"name":"m","wanted":true,"labels":[{"name":"live","version":2,"changed":"2026-01-02T03:04:05Z"}],` +
		`"versions":[{"name":"m","version":1,` +
		version + `,{"name":"m","version":2,` + version + `],"kind":"onnx"}`
	const missing = `{"error":"model \"none\" is not stored","code":"not_found","model":"none"}`
	badName := `{"error":"model name \"a b\": character ' ' at byte 1 is not allowed: want ASCII letters, digits and ` +
		`any of \"_-.,\", beginning with a letter, a digit or '_'","code":"invalid"}`
	checkRoutes(t, ts, []routeCase{
		{"list", "GET", "/api/v1/models", "", 200, "[" + stored + "]"},
		{"show", "GET", "/api/v1/models/m", "", 200, stored},
		{"unknown model", "GET", "/api/v1/models/none", "", 404, missing},
		{"bad name", "GET", "/api/v1/models/a%20b", "", 400, badName},
		{"name over the limit", "GET", "/api/v1/models/" + strings.Repeat("a", 300), "", 400, `{"error":"model name \"` +
			strings.Repeat("a", 40) + `\" has 300 bytes: want 1 to 128","code":"invalid"}`},
		{
			"inspection", "GET", "/api/v1/models/m/versions/1/inspection", "", 200,
			`{"inputs":null,"outputs":null,"producer":"pytorch","opsets":{"ai.onnx":17},"operators":null,"parameters":0,` +
				`"parameter_bytes":0,"nodes":2}`,
		},
		{
			"proposals", "GET", "/api/v1/models/m/versions/1/proposals", "", 200,
			`[{"task":"image classification","because":"it says so","steps":[{"name":"m_labels","gallery":"labels"}]}]`,
		},
		{"proposals for an unknown model", "GET", "/api/v1/models/none/versions/1/proposals", "", 404, missing},
		{"inspection of an unknown model", "GET", "/api/v1/models/none/versions/1/inspection", "", 404, missing},
		{
			"inspection of version 0", "GET", "/api/v1/models/m/versions/0/inspection", "", 400,
			`{"error":"version \"0\": want a number from 1 to 9223372036854775807","code":"invalid"}`,
		},
		{
			"set label", "PUT", "/api/v1/models/m/labels/live", `{"version":2}`, 200,
			`{"name":"live","version":2,"changed":"2026-01-02T03:04:05Z","history":[1]}`,
		},
		{
			"set label without a version", "PUT", "/api/v1/models/m/labels/live", "", 400,
			`{"error":"the body names no version: want {\"version\": N} with N of 1 or more","code":"invalid"}`,
		},
		{
			"label like a version", "PUT", "/api/v1/models/m/labels/7", `{"version":2}`, 400,
			`{"error":"label \"7\" is a number: a label must not look like a version","code":"invalid"}`,
		},
		{"label of an unknown model", "PUT", "/api/v1/models/none/labels/live", `{"version":2}`, 404, missing},
		{"remove label", "DELETE", "/api/v1/models/m/labels/beta", "", 204, ""},
		{
			"roll back", "POST", "/api/v1/models/m/rollback", "", 200,
			`{"name":"live","version":1,"changed":"2026-01-02T03:04:05Z"}`,
		},
		{
			"roll back a label", "POST", "/api/v1/models/m/rollback", `{"label":"live"}`, 200,
			`{"name":"live","version":1,"changed":"2026-01-02T03:04:05Z"}`,
		},
		{
			"nothing to roll back to", "POST", "/api/v1/models/m/rollback", `{"label":"beta"}`, 409,
			`{"error":"label \"beta\" of model \"m\" has no earlier version","code":"conflict"}`,
		},
		{
			"roll back an empty label", "POST", "/api/v1/models/m/rollback", `{"label":""}`, 400,
			`{"error":"label \"\" has 0 bytes: want 1 to 128","code":"invalid"}`,
		},
		{"delete version", "DELETE", "/api/v1/models/m/versions/2", "", 204, ""},
		{
			"delete a version in use", "DELETE", "/api/v1/models/m/versions/1", "", 409,
			`{"error":"model \"m\" version 1: label \"live\" points to it","code":"conflict"}`,
		},
		{"delete model", "DELETE", "/api/v1/models/m", "", 204, ""},
		{"delete an unknown model", "DELETE", "/api/v1/models/none", "", 404, missing},
		{"GET of versions", "GET", "/api/v1/models/m/versions", "", 405, notAllowed},
	})
}

func TestBadPercentEncodingIsRefused(t *testing.T) {
	p := dial(t, startServer(t, nil))
	p.send("GET /v2/models/a%zz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if status, body := p.answer("GET"); status != 400 ||
		body != `{"error":"path segment \"a%zz\": bad percent-encoding","code":"invalid"}` {
		t.Errorf("answer %d %s", status, body)
	}
}

func TestConfigurationIsTheModelsOwnJSON(t *testing.T) {
	resp, body := startServer(t, nil).do(t, "GET", "/v2/models/echo/versions/1/config", "")
	want, err := json.Marshal(echoModel())
	if err != nil || resp.StatusCode != 200 || body != string(want) {
		t.Errorf("answer %d %s, want %s", resp.StatusCode, body, want)
	}
}

func TestAllowNamesTheMethodsOfAPath(t *testing.T) {
	ts := startServer(t, nil)
	for path, want := range map[string]string{
		"/v2": "GET, HEAD", "/v2/models/echo/infer": "POST",
		"/api/v1/models/m/labels/x": "PUT, DELETE",
	} {
		resp, _ := ts.do(t, "PATCH", path, "")
		if got := resp.Header.Get("Allow"); resp.StatusCode != 405 || got != want {
			t.Errorf("PATCH %s: %d, Allow %q, want %q", path, resp.StatusCode, got, want)
		}
	}
}

func TestTheFirstPageNamesTheUsefulURLs(t *testing.T) {
	ts := startServer(t, nil)
	resp, body := ts.do(t, "GET", "/", "")
	for _, want := range []string{
		`"name":"edgewise"`, `"version":"1.2.3"`, "/v2/health/ready", "/api/v1/models",
		"/metrics",
	} {
		if resp.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("answer %d %s, want it to name %s", resp.StatusCode, body, want)
		}
	}
}

func TestMetricsAreServedAsTheyAre(t *testing.T) {
	resp, body := startServer(t, nil).do(t, "GET", "/metrics", "")
	if resp.StatusCode != 200 || body != "up 1\n" || resp.Header.Get("Content-Type") != "text/plain; version=0.0.4" {
		t.Errorf("answer %d %q %q", resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
}

func TestHeadAnswersWithoutABody(t *testing.T) {
	resp, body := startServer(t, nil).do(t, "HEAD", "/v2", "")
	if resp.StatusCode != 200 || body != "" || resp.ContentLength <= 0 {
		t.Errorf("answer %d with %d bytes, Content-Length %d", resp.StatusCode, len(body), resp.ContentLength)
	}
}
