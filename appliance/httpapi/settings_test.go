package httpapi_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// fakeLogging remembers what it was told.
type fakeLogging struct{ settings kserve.LogSettings }

func (f *fakeLogging) Settings() kserve.LogSettings { return f.settings }

func (f *fakeLogging) Change(c kserve.LogChange) (kserve.LogSettings, error) {
	next, err := c.On(f.settings)
	if err == nil {
		f.settings = next
	}
	return next, err
}

// fakeTracing remembers what it was told, of the server and of models alike, and traces every request.
type fakeTracing struct {
	settings edgewise.TraceSettings
	begun    []edgewise.TraceStart
	ended    []string
}

func (f *fakeTracing) On() bool { return f.settings.Levels[0] != "OFF" }

func (f *fakeTracing) Settings(string) edgewise.TraceSettings { return f.settings }

func (f *fakeTracing) Change(_ string, c edgewise.TraceChange) error {
	if c.Levels != nil {
		f.settings.Levels = c.Levels
	}
	if c.Rate != nil {
		f.settings.Rate = *c.Rate
	}
	for _, name := range c.Clear {
		f.settings.File += name + ";"
	}
	return nil
}

func (f *fakeTracing) Begin(start edgewise.TraceStart) edgewise.TracedRequest {
	f.begun = append(f.begun, start)
	return &fakeTraced{f}
}

type fakeTraced struct{ tracing *fakeTracing }

func (*fakeTraced) Context(ctx context.Context) context.Context { return ctx }
func (*fakeTraced) Parent() string                              { return "00-own-span-01" }
func (f *fakeTraced) Sending()                                  { f.tracing.ended = append(f.tracing.ended, "sending") }

func (f *fakeTraced) End(err error) {
	f.tracing.ended = append(f.tracing.ended, fmt.Sprint("end ", err))
}

func TestLogSettings(t *testing.T) {
	const preset = `{"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0,"log_format":"default"}`
	const changed = `{"log_file":"","log_info":false,"log_warning":true,"log_error":true,"log_verbose_level":2,"log_format":"ISO8601"}`
	checkRoutes(t, startServer(t, nil), []routeCase{
		{"at first", "GET", "/v2/logging", "", 200, preset},
		{"nothing", "POST", "/v2/logging", "", 200, preset},
		{"null and unknown", "POST", "/v2/logging", `{"log_info":null,"log_errors":false}`, 200, preset},
		{
			"a file", "POST", "/v2/logging", `{"log_info":false,"log_file":"/tmp/x"}`, 501,
			`{"error":"log file location can not be updated through network protocol","code":"unsupported"}`,
		},
		{
			"a bad format", "POST", "/v2/logging", `{"log_info":false,"log_format":"xml"}`, 400,
			`{"error":"Invalid argument for log_format: \"xml\", want default or ISO8601","code":"invalid"}`,
		},
		{
			"a bad type", "POST", "/v2/logging", `{"log_info":"yes"}`, 400,
			`{"error":"member \"log_info\" of the body is a string: want true or false","code":"invalid","field":"log_info"}`,
		},
		{
			"below 0", "POST", "/v2/logging", `{"log_verbose_level":-1}`, 400,
			`{"error":"member \"log_verbose_level\" of the body is a number -1: want a whole number of 0 or more",` +
				`"code":"invalid","field":"log_verbose_level"}`,
		},
		{"nothing has changed", "GET", "/v2/logging", "", 200, preset},
		{"a change", "POST", "/v2/logging", `{"log_info":false,"log_verbose_level":2,"log_format":"ISO8601"}`, 200, changed},
		{"it has changed", "GET", "/v2/logging", "", 200, changed},
		{"wrong method", "PUT", "/v2/logging", "", 405, notAllowed},
	})
}

func TestTraceSettings(t *testing.T) {
	const off = `{"log_frequency":"0","trace_count":"-1","trace_file":"","trace_level":["OFF"],"trace_mode":"triton","trace_rate":"1000"}`
	const on = `{"log_frequency":"0","trace_count":"-1","trace_file":"","trace_level":["TIMESTAMPS","TENSORS"],` +
		`"trace_mode":"triton","trace_rate":"5"}`
	cleared := strings.ReplaceAll(on, `"trace_file":""`, `"trace_file":"trace_level;trace_rate;"`)
	checkRoutes(t, startServer(t, nil), []routeCase{
		{"of the server", "GET", "/v2/trace/setting", "", 200, off},
		{"of a model", "GET", "/v2/models/echo/trace/setting", "", 200, off},
		{
			"of an unknown model", "GET", "/v2/models/none/trace/setting", "", 404,
			`{"error":"Request for unknown model : none","code":"not_found","model":"none"}`,
		},
		{"of a version", "GET", "/v2/models/echo/versions/1/trace/setting", "", 404, notFound},
		{"nothing", "POST", "/v2/trace/setting", "", 200, off},
		{"unknown members", "POST", "/v2/trace/setting", `{"x":1}`, 200, off},
		{
			"numbers as they are", "POST", "/v2/models/echo/trace/setting",
			`{"trace_rate":1000,"trace_level":"OFF","trace_mode":"triton"}`, 200, off,
		},
		{
			"a file", "POST", "/v2/trace/setting", `{"trace_file":"x"}`, 501,
			`{"error":"trace file location can not be updated through network protocol","code":"unsupported"}`,
		},
		{
			"another mode", "POST", "/v2/trace/setting", `{"trace_mode":"opentelemetry"}`, 501,
			`{"error":"trace mode can not be updated through network protocol: it is triton","code":"unsupported"}`,
		},
		{
			"OFF and more", "POST", "/v2/trace/setting", `{"trace_level":["OFF","TIMESTAMPS"]}`, 400,
			`{"error":"trace_level: OFF stands beside other trace levels: want it alone","code":"invalid"}`,
		},
		{
			"an unknown level", "POST", "/v2/trace/setting", `{"trace_level":["X"]}`, 400,
			`{"error":"trace_level: \"X\" is no trace level: want OFF, or TIMESTAMPS and TENSORS","code":"invalid"}`,
		},
		{
			"no number", "POST", "/v2/trace/setting", `{"trace_rate":"x"}`, 400,
			`{"error":"trace_rate is \"x\": want a number from 0 to 4294967295","code":"invalid"}`,
		},
		{
			"out of range", "POST", "/v2/trace/setting", `{"trace_count":-2}`, 400,
			`{"error":"trace_count is -2: want a number from -1 to 2147483647","code":"invalid"}`,
		},
		{
			"a frequency out of range", "POST", "/v2/trace/setting", `{"log_frequency":"-1"}`, 400,
			`{"error":"log_frequency is \"-1\": want a number from 0 to 4294967295","code":"invalid"}`,
		},
		{
			"an unknown mode", "POST", "/v2/trace/setting", `{"trace_mode":"x"}`, 400,
			`{"error":"trace_mode is \"x\": want triton or opentelemetry","code":"invalid"}`,
		},
		{
			"not JSON", "POST", "/v2/trace/setting", `{`, 400,
			`{"error":"the body is not the JSON this route takes: unexpected end of JSON input","code":"invalid"}`,
		},
		{"nothing has changed", "GET", "/v2/trace/setting", "", 200, off},
		{"on", "POST", "/v2/models/echo/trace/setting", `{"trace_level":["TIMESTAMPS","TENSORS"],"trace_rate":"5"}`, 200, on},
		{
			"null clears", "POST", "/v2/trace/setting", `{"trace_level":null,"trace_rate":null,"trace_file":null}`, 200,
			cleared,
		},
	})
}

func TestInferencesAreTraced(t *testing.T) {
	ts := startServer(t, nil)
	ts.tracing.settings.Levels = []string{"TIMESTAMPS"}
	const path, body = "/v2/models/echo/infer",
		`{"id":"7","inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}`
	resp, _ := ts.do(t, "POST", path, body, "traceparent", "00-client-01", "tracestate", "a=b")
	if resp.StatusCode != 200 || resp.Header.Get("traceparent") != "00-own-span-01" {
		t.Errorf("%d, traceparent %q", resp.StatusCode, resp.Header.Get("traceparent"))
	}
	if resp, _ := ts.do(t, "POST", "/v2/models/none/infer", body); resp.StatusCode != 404 {
		t.Errorf("%d", resp.StatusCode)
	}
	if len(ts.tracing.begun) != 2 || ts.tracing.begun[0].Received.IsZero() {
		t.Fatalf("begun: %v", ts.tracing.begun)
	}
	first := ts.tracing.begun[0]
	if first.Frontend != "HTTP" || first.Model.Name != "echo" || first.ID != "7" || first.Parent != "00-client-01" ||
		first.State != "a=b" {
		t.Errorf("begun: %+v", first)
	}
	want := []string{"sending", "end <nil>", "end Request for unknown model: 'none' is not found"}
	if !slices.Equal(ts.tracing.ended, want) {
		t.Errorf("ended: %q, want %q", ts.tracing.ended, want)
	}
}
