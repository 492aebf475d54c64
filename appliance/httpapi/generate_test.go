package httpapi_test

import (
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

func TestGenerate(t *testing.T) {
	const answer = `{"model_name":"echo","model_version":"3","id":"7","y":[1,2,3,4]}`
	checkRoutes(t, startServer(t, nil), []routeCase{
		{"a model", "POST", "/v2/models/echo/generate", `{"id":"7","x":[1,2,3,4],"temperature":0.5}`, 200, answer},
		{"a version", "POST", "/v2/models/echo/versions/3/generate", `{"id":"7","parameters":{"x":[1,2,3,4]}}`, 200, answer},
		{
			"no proper shape", "POST", "/v2/models/echo/generate", `{"x":1}`, 400,
			`{"error":"The schema can not convert input 'x' to tensor with proper shape: 1 elements do not make shape [-1,4]",` +
				`"code":"invalid","model":"echo","input":"x"}`,
		},
		{"an unknown model", "POST", "/v2/models/none/generate", "{}", 404, noModel},
		{"an unknown version", "POST", "/v2/models/echo/versions/2/generate", "{}", 404, noVersion},
		{"a model that is not ready", "POST", "/v2/models/cold/generate_stream", "{}", 503, notReady},
		{
			"a stream that fails before its answer", "POST", "/v2/models/echo/generate_stream", `{"x":{}}`, 400,
			`{"error":"Unable to parse 'x': want a value or an array of values, got an object","code":"invalid","model":"echo","input":"x"}`,
		},
		{"GET of a stream", "GET", "/v2/models/echo/generate_stream", "", 405, notAllowed},
	})
}

func TestGenerateStreamAnswersWithEvents(t *testing.T) {
	ts := startServer(t, nil)
	for _, path := range []string{"/v2/models/echo/generate_stream", "/v2/models/echo/versions/1/generate_stream"} {
		resp, body := ts.do(t, "POST", path, `{"x":[1,2,3,4]}`)
		want := "data: {\"model_name\":\"echo\",\"model_version\":\"3\",\"y\":[1,2,3,4]}\n\n"
		if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || body != want ||
			kind != "text/event-stream; charset=utf-8" {
			t.Errorf("%s: %d %q %q", path, resp.StatusCode, kind, body)
		}
	}
}

func TestGenerateReleasesItsAnswers(t *testing.T) {
	ts := startServer(t, func(c *httpapi.Config) { c.MaxInferBytes, c.MaxBodyBytes, c.MaxInflightBytes = 300, 300, 1000 })
	resp, body := ts.do(t, "POST", "/v2/models/echo/generate", `{"x":[1,2,3,4]}`)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || ts.engine.released.Load() != 1 {
		t.Errorf("without memory for the answer: %d %s", resp.StatusCode, body)
	}
}
