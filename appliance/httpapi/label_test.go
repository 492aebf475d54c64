package httpapi_test

import (
	"context"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// point makes a label of the model echo.
func (l *fakeLibrary) point(label string, version int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records["echo"] = &edgewise.Record{
		Name:   "echo",
		Labels: []edgewise.Label{{Name: label, Version: version, Changed: created}},
	}
}

const fourNumbers = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}`

func TestALabelStandsForItsVersion(t *testing.T) {
	ts := startServer(t, nil)
	ts.library.point("beta", 3)
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		part                     string
	}{
		{"metadata", "GET", "/v2/models/echo/versions/beta", "", 200, ""},
		{"ready", "GET", "/v2/models/echo/versions/beta/ready", "", 200, ""},
		{"statistics", "GET", "/v2/models/echo/versions/beta/stats", "", 200, ""},
		{"inference", "POST", "/v2/models/echo/versions/beta/infer", fourNumbers, 200, ""},
		{"percent-encoded", "POST", "/v2/models/echo/versions/b%65ta/infer", fourNumbers, 200, ""},
		{
			"another label", "POST", "/v2/models/echo/versions/gamma/infer", fourNumbers, 404,
			"'echo' version 'gamma' is not found: want its number, or a label of this model",
		},
		{"a label of another case", "GET", "/v2/models/echo/versions/Beta", "", 404, "'Beta'"},
		{
			"a label of a model that is not there", "GET", "/v2/models/none/versions/beta", "", 404,
			"'none' version 'beta' is not found",
		},
		{"no label at all", "GET", "/v2/models/echo/versions/%2e%2e", "", 404, "'..'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if resp, text := ts.do(t, test.method, test.path, test.body); resp.StatusCode != test.status ||
				!strings.Contains(text, test.part) {
				t.Errorf("%s %s: %d %s, want %d and %q", test.method, test.path, resp.StatusCode, text, test.status, test.part)
			}
		})
	}
}

func TestARequestGoesAlongWithALabelThatMoves(t *testing.T) {
	ts := startServer(t, nil)
	ts.library.point("beta", 2) // which is not there any more when the request comes to it
	ts.engine.hook = func(_ context.Context, req *edgewise.Request) {
		if req.Model.Version == 2 {
			ts.library.point("beta", 3)
		}
	}
	if resp, text := ts.do(t, "POST", "/v2/models/echo/versions/beta/infer", fourNumbers); resp.StatusCode != 200 {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if resp, _ := ts.do(t, "POST", "/v2/models/echo/versions/2/infer", fourNumbers); resp.StatusCode != 404 {
		t.Errorf("a request for version 2 itself: %d", resp.StatusCode)
	}
}
