package httpapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// TestEveryInferenceIsCountedOnce sends requests that end at every stage of the way, twice on one connection each: the
// second time a known head goes a shorter way.
func TestEveryInferenceIsCountedOnce(t *testing.T) {
	const oneFloat = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]}`
	for _, test := range []struct {
		name, path, body string
		headers          []string
		fail             error
		want             string
	}{
		{"answered", "/v2/models/echo/infer", oneFloat, nil, nil, "echo 0 success"},
		{"a version", "/v2/models/echo/versions/3/infer", oneFloat, nil, nil, "echo 3 success"},
		{"generated", "/v2/models/echo/generate", `{"x":[1,2,3,4]}`, nil, nil, "echo 0 success"},
		{"not JSON", "/v2/models/echo/infer", "hello", nil, nil, "echo 0 invalid"},
		{"not JSON, of a version", "/v2/models/echo/versions/1/infer", "hello", nil, nil, "echo 1 invalid"},
		{"generate, not JSON", "/v2/models/echo/generate_stream", "hello", nil, nil, "echo 0 invalid"},
		{"a bad length", "/v2/models/echo/infer", oneFloat, []string{kserve.HeaderLength, "x"}, nil, "echo 0 invalid"},
		{"a bad encoding", "/v2/models/echo/infer", oneFloat, []string{"Content-Encoding", "br"}, nil, "echo 0 unsupported"},
		{"too large", "/v2/models/echo/infer", strings.Repeat(" ", 2<<20), nil, nil, "echo 0 too_large"},
		{
			"a region that is not there", "/v2/models/echo/infer",
			`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"parameters":{"shared_memory_region":"none",` +
				`"shared_memory_byte_size":4}}]}`, nil, nil, "echo 0 ",
		},
		{
			"the model fails", "/v2/models/echo/infer", oneFloat, nil, edgewise.Errorf("fake", edgewise.Internal, "broken"),
			"echo 0 internal",
		},
		{
			"classes of none", "/v2/models/echo/infer",
			`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}],"outputs":[{"name":"y",` +
				`"parameters":{"classification":1,"shared_memory_region":"none","shared_memory_byte_size":4}}]}`, nil, nil, "echo 0 ",
		},
		{"not ready", "/v2/models/cold/infer", oneFloat, nil, nil, "cold 0 unavailable"},
		{"unknown", "/v2/models/none/infer", oneFloat, nil, nil, "none 0 not_found"},
		{"an unknown version", "/v2/models/echo/versions/none/infer", oneFloat, nil, nil, "echo 0 not_found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := startServer(t, nil)
			ts.engine.fail = test.fail
			const times = 2
			for range times {
				ts.do(t, "POST", test.path, test.body, test.headers...)
			}
			ts.engine.mu.Lock()
			defer ts.engine.mu.Unlock()
			if n := len(ts.engine.counted); n != times || slices.ContainsFunc(ts.engine.counted,
				func(got string) bool { return !strings.HasPrefix(got, test.want) }) {
				t.Errorf("counted %q, want %d times %q", ts.engine.counted, times, test.want)
			}
		})
	}
}

func TestOtherRoutesAreNoInferences(t *testing.T) {
	ts := startServer(t, nil)
	for _, path := range []string{
		"/v2/models/echo/load", "/v2/models/echo", "/v2/repository/models/none/load",
		"/v2/models/a/b/infer", "/v2/models//infer/x",
	} {
		ts.do(t, "POST", path, "{")
	}
	ts.do(t, "GET", "/v2/models/echo/infer", "")
	if fmt.Sprint(ts.engine.counted) != "[]" {
		t.Errorf("counted %v", ts.engine.counted)
	}
}
