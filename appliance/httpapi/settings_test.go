package httpapi

import (
	"testing"
)

// fakeLogging remembers what it was told.
type fakeLogging struct {
	info, warning, err bool
	verbose            uint32
}

func (f *fakeLogging) Levels() (info, warning, err bool, verbose uint32) {
	return f.info, f.warning, f.err, f.verbose
}

func (f *fakeLogging) SetLevels(info, warning, err bool, verbose uint32) {
	*f = fakeLogging{info, warning, err, verbose}
}

func TestLogSettings(t *testing.T) {
	const preset = `{"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0,"log_format":"default"}`
	const changed = `{"log_file":"","log_info":false,"log_warning":true,"log_error":true,"log_verbose_level":2,"log_format":"ISO8601"}`
	checkRoutes(t, startServer(t, nil), []route{
		{"at first", "GET", "/v2/logging", "", 200, preset},
		{"nothing", "POST", "/v2/logging", "", 200, preset},
		{"null and unknown", "POST", "/v2/logging", `{"log_info":null,"log_errors":false}`, 200, preset},
		{"a file", "POST", "/v2/logging", `{"log_info":false,"log_file":"/tmp/x"}`, 501, `{"error":"log file location can not be updated through network protocol: the log goes to standard error","code":"unsupported"}`},
		{"a bad format", "POST", "/v2/logging", `{"log_info":false,"log_format":"xml"}`, 400, `{"error":"Invalid argument for log_format: \"xml\", want default or ISO8601","code":"invalid"}`},
		{"a bad type", "POST", "/v2/logging", `{"log_info":"yes"}`, 400, `{"error":"member \"log_info\" of the body is a string: want a bool","code":"invalid","field":"log_info"}`},
		{"below 0", "POST", "/v2/logging", `{"log_verbose_level":-1}`, 400, `{"error":"member \"log_verbose_level\" of the body is a number -1: want a uint32","code":"invalid","field":"log_verbose_level"}`},
		{"nothing has changed", "GET", "/v2/logging", "", 200, preset},
		{"a change", "POST", "/v2/logging", `{"log_info":false,"log_verbose_level":2,"log_format":"ISO8601"}`, 200, changed},
		{"it has changed", "GET", "/v2/logging", "", 200, changed},
		{"wrong method", "PUT", "/v2/logging", "", 405, notAllowed},
	})
}

func TestTraceSettings(t *testing.T) {
	const off = `{"trace_level":["OFF"],"trace_rate":"1000","trace_count":"-1","log_frequency":"0","trace_file":"","trace_mode":"triton"}`
	cannot := func(name string) string {
		return `{"error":"this server does not trace requests: ` + name + ` can not be changed","code":"unsupported"}`
	}
	checkRoutes(t, startServer(t, nil), []route{
		{"of the server", "GET", "/v2/trace/setting", "", 200, off},
		{"of a model", "GET", "/v2/models/echo/trace/setting", "", 200, off},
		{"of an unknown model", "GET", "/v2/models/none/trace/setting", "", 404, noModel},
		{"of a version", "GET", "/v2/models/echo/versions/1/trace/setting", "", 404, notFound},
		{"what it is already", "POST", "/v2/trace/setting", off[:len(off)-len(`,"trace_file":"","trace_mode":"triton"}`)] + "}", 200, off},
		{"numbers as they are", "POST", "/v2/models/echo/trace/setting", `{"trace_rate":1000,"trace_count":-1,"trace_level":"OFF","trace_mode":"triton"}`, 200, off},
		{"null clears", "POST", "/v2/models/echo/trace/setting", `{"trace_level":null,"trace_rate":null,"trace_file":null}`, 200, off},
		{"unknown members", "POST", "/v2/trace/setting", `{"x":1}`, 200, off},
		{"on", "POST", "/v2/trace/setting", `{"trace_level":["TIMESTAMPS"]}`, 501, cannot("trace_level")},
		{"another rate", "POST", "/v2/trace/setting", `{"trace_rate":"5"}`, 501, cannot("trace_rate")},
		{"another count", "POST", "/v2/trace/setting", `{"trace_count":5}`, 501, cannot("trace_count")},
		{"another frequency", "POST", "/v2/trace/setting", `{"log_frequency":"5"}`, 501, cannot("log_frequency")},
		{"another mode", "POST", "/v2/trace/setting", `{"trace_mode":"opentelemetry"}`, 501, cannot("trace_mode")},
		{"a file", "POST", "/v2/trace/setting", `{"trace_file":"x"}`, 501, `{"error":"trace file location can not be updated through network protocol","code":"unsupported"}`},
		{"OFF and more", "POST", "/v2/trace/setting", `{"trace_level":["OFF","TIMESTAMPS"]}`, 400, `{"error":"trace_level: OFF stands beside other trace levels: want it alone","code":"invalid"}`},
		{"an unknown level", "POST", "/v2/trace/setting", `{"trace_level":["X"]}`, 400, `{"error":"trace_level: \"X\" is no trace level: want OFF, or TIMESTAMPS and TENSORS","code":"invalid"}`},
		{"no number", "POST", "/v2/trace/setting", `{"trace_rate":"x"}`, 400, `{"error":"trace_rate is \"x\": want a number from 1 to 4294967295","code":"invalid"}`},
		{"out of range", "POST", "/v2/trace/setting", `{"trace_count":-2}`, 400, `{"error":"trace_count is -2: want a number from -1 to 2147483647","code":"invalid"}`},
		{"an unknown mode", "POST", "/v2/trace/setting", `{"trace_mode":"x"}`, 400, `{"error":"trace_mode is \"x\": want triton or opentelemetry","code":"invalid"}`},
		{"not JSON", "POST", "/v2/trace/setting", `{`, 400, `{"error":"the body is not the JSON this route takes: unexpected end of JSON input","code":"invalid"}`},
	})
}
