package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"math"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/npy"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

const (
	noServable = `{"error":"Servable not found for request: Latest(none)","code":"not_found"}`
	fourRow    = `{"instances":[[1,2,3,4]]}`
	fourBack   = `{"predictions":[[1.0,2.0,3.0,4.0]]}`
	echoStatus = `{"model_version_status":[{"version":"3","state":"AVAILABLE","status":{"error_code":"OK","error_message":""}}],` +
		`"name":"echo","ready":true}`
)

func TestTensorFlowRoutes(t *testing.T) {
	const tensor = `"tensor_shape":{"dim":[{"size":"-1","name":""},{"size":"4","name":""}],"unknown_rank":false}`
	const metadata = `{"model_spec":{"name":"echo","signature_name":"","version":"3"},"metadata":{"signature_def":{"signature_def":` +
		`{"serving_default":{"inputs":{"x":{"dtype":"DT_FLOAT",` + tensor + `,"name":"x"}},"outputs":{"y":{"dtype":"DT_FLOAT",` +
		tensor + `,"name":"y"}},"method_name":"tensorflow/serving/predict"}}}}}`
	ts := startServer(t, nil)
	ts.library.point("beta", 3)
	checkRoutes(t, ts, []routeCase{
		{"rows", "POST", "/v1/models/echo:predict", fourRow, 200, fourBack},
		{"rows of a version", "POST", "/v1/models/echo/versions/3:predict", fourRow, 200, fourBack},
		{"rows of a label", "POST", "/v1/models/echo/labels/beta:predict", fourRow, 200, fourBack},
		{
			"rows with names and words", "POST", "/v1/models/echo:predict", `{"instances":[{"x":[NaN,-Infinity,0.5,1e30]}]}`, 200,
			`{"predictions":[[NaN,-Infinity,0.5,1e+30]]}`,
		},
		{
			"a column", "POST", "/v1/models/echo:predict", `{"inputs":[[1,2,3,4],[5,6,7,8]]}`, 200,
			`{"outputs":[[1.0,2.0,3.0,4.0],[5.0,6.0,7.0,8.0]]}`,
		},
		{
			"a classification", "POST", "/v1/models/echo:classify", `{"examples":[{"x":[0.25,0.5,0,1]}]}`, 200,
			`{"results":[[["0",0.25],["1",0.5],["2",0.0],["3",1.0]]]}`,
		},
		{
			"a regression", "POST", "/v1/models/echo:regress", `{"examples":[{"x":[1,2,3,4]}]}`, 400,
			`{"error":"output 'y' has 4 numbers for 1 examples: a regression has one for each","code":"invalid","model":"echo","version":3}`,
		},
		{"a status", "GET", "/v1/models/echo", "", 200, echoStatus},
		{"a status of a version", "GET", "/v1/models/echo/versions/3", "", 200, echoStatus},
		{"a status of a label", "GET", "/v1/models/echo/labels/beta", "", 200, echoStatus},
		{
			"a status of one that is not loaded", "GET", "/v1/models/cold", "", 200,
			`{"model_version_status":[{"version":"1","state":"END","status":{"error_code":"OK","error_message":""}}],"name":"cold","ready":false}`,
		},
		{"a status of one without versions", "GET", "/v1/models/never", "", 200, `{"model_version_status":[],"name":"never","ready":false}`},
		{"a status of none", "GET", "/v1/models/none", "", 404, `{"error":"Could not find any versions of model none","code":"not_found"}`},
		{
			"a status of no version", "GET", "/v1/models/echo/versions/2", "", 404,
			`{"error":"Could not find version 2 of model echo","code":"not_found"}`,
		},
		{"metadata", "GET", "/v1/models/echo/metadata", "", 200, metadata},
		{"metadata of a version", "GET", "/v1/models/echo/versions/3/metadata", "", 200, metadata},
		{"metadata of none", "GET", "/v1/models/none/metadata", "", 404, noServable},
		{"all models", "GET", "/v1/models", "", 200, `{"object":"list","data":[],"models":["cold","echo","never"]}`},
		{"no model", "POST", "/v1/models/none:predict", fourRow, 404, noServable},
		{"no label", "POST", "/v1/models/none/labels/beta:predict", fourRow, 404, noServable},
		{
			"no version", "POST", "/v1/models/echo/versions/2:predict", fourRow, 404,
			`{"error":"Servable not found for request: Specific(echo, 2)","code":"not_found"}`,
		},
		{"a model that is not ready", "POST", "/v1/models/cold:predict", fourRow, 503, notReady},
		{"another method", "GET", "/v1/models/echo/versions/3/x", "", 404, notFound},
		{"a verb by GET", "PUT", "/v1/models/echo:predict", "", 405, notAllowed},
		{"nothing", "GET", "/v1/nothing", "", 404, notFound},
	})
	if infers, released := ts.engine.infers.Load(), ts.engine.released.Load(); infers != released || infers != 7 {
		t.Errorf("%d inferences, %d released", infers, released)
	}
}

func TestCompatibleRequestsAreCountedOnce(t *testing.T) {
	ts := startServer(t, nil)
	ts.do(t, "POST", "/v1/models/echo:predict", fourRow)
	ts.do(t, "POST", "/v1/models/echo:predict", `{`)
	ts.do(t, "POST", "/v1/models/none:predict", fourRow)
	ts.do(t, "POST", "/predictions/echo/1", `[1,2,3,4]`)
	ts.do(t, "POST", "/predictions/echo/1", `[1,2,3,`)
	ts.engine.mu.Lock()
	defer ts.engine.mu.Unlock()
	want := []string{"echo 0 success", "echo 0 invalid", "none 0 not_found", "echo 1 success", "echo 1 invalid"}
	if !slices.Equal(ts.engine.counted, want) {
		t.Errorf("counted %q, want %q", ts.engine.counted, want)
	}
}

func TestACompatibleRequestFollowsALabelThatMoves(t *testing.T) {
	ts := startServer(t, nil)
	ts.library.point("beta", 1)
	ts.engine.failOn = func(req *edgewise.Request) error {
		if req.Model.Version == 3 {
			return nil
		}
		ts.library.point("beta", 3)
		return edgewise.Errorf("fake", edgewise.Unavailable, "unloaded")
	}
	if resp, body := ts.do(t, "POST", "/v1/models/echo/labels/beta:predict", fourRow); resp.StatusCode != 200 || body != fourBack {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestCompatibleBodiesMayBeCompressed(t *testing.T) {
	ts := startServer(t, nil)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(fourRow)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	resp, body := ts.do(t, "POST", "/v1/models/echo:predict", packed.String(), "Content-Encoding", "gzip", "Accept-Encoding", "gzip")
	unpacked, err := gzip.NewReader(strings.NewReader(body))
	if err != nil || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal(err, resp.Header)
	}
	var plain bytes.Buffer
	if _, err := plain.ReadFrom(unpacked); err != nil || plain.String() != fourBack {
		t.Errorf("%q %v", plain.String(), err)
	}
}

func TestTorchServeRoutes(t *testing.T) {
	var numbers []byte
	for i := range 4 {
		numbers = binary.LittleEndian.AppendUint32(numbers, math.Float32bits(float32(i)))
	}
	array := func(shape ...int64) string {
		var file bytes.Buffer
		if err := npy.Write(&file, edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: shape, Data: numbers}); err != nil {
			t.Fatal(err)
		}
		return file.String()
	}
	form := func(name, content string) (body, kind string) {
		var text bytes.Buffer
		w := multipart.NewWriter(&text)
		part, err := w.CreateFormFile(name, "file")
		if err == nil {
			_, err = part.Write([]byte(content))
		}
		if err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		return text.String(), w.FormDataContentType()
	}
	raw := string(numbers)
	formBody, formType := form("data", raw)
	otherBody, otherType := form("other", raw)
	const back = `[0.0,1.0,2.0,3.0]`
	ts := startServer(t, nil)
	for _, test := range []struct {
		name, method, path, kind, body string
		status                         int
		want                           string
	}{
		{"bytes", "POST", "/predictions/echo", "application/octet-stream", raw, 200, back},
		{"bytes by PUT", "PUT", "/predictions/echo/3.0", "", raw, 200, back},
		{"an array", "POST", "/predictions/echo", "", array(1, 4), 200, `[` + back + `]`},
		{"an array of one row", "POST", "/predictions/echo", "", array(4), 200, back},
		{"a form", "POST", "/predictions/echo", formType, formBody, 200, back},
		{"JSON of one row", "POST", "/predictions/echo", "application/json", `[0,1,2,3]`, 200, back},
		{"JSON of rows", "POST", "/predictions/echo", "application/json", `[[0,1,2,3]]`, 200, `[` + back + `]`},
		{"JSON with the name", "POST", "/predictions/echo", "application/json; charset=utf-8", `{"x":[0,1,2,3]}`, 200, back},
		{"JSON with TorchServe's name", "POST", "/predictions/echo", "application/json", `{"data":[0,1,2,3]}`, 200, back},
		{"JSON without a type", "POST", "/predictions/echo", "application/x-www-form-urlencoded", ` [0,1,2,3]`, 200, back},
		{
			"a picture", "POST", "/predictions/echo", "image/jpeg", "\xff\xd8\xff\xe0", 400, `{"code":400,"type":"BadRequestException",` +
				`"message":"input 'x' is FP32[4], which takes 16 bytes, and the body has 4: send JSON, a NumPy array or those bytes; ` +
				`for a picture or a sound as a file, put a step in front of the model that reads it (an ensemble)"}`,
		},
		{
			"another part", "POST", "/predictions/echo", otherType, otherBody, 400,
			`{"code":400,"type":"BadRequestException","message":"the form has a part 'other', and the model the inputs x"}`,
		},
		{
			"another member", "POST", "/predictions/echo", "application/json", `{"z":1}`, 400,
			`{"code":400,"type":"BadRequestException","message":"the body has 'z', and the model the inputs x"}`,
		},
		{
			"no model", "POST", "/predictions/none", "", raw, 404,
			`{"code":404,"type":"ModelNotFoundException","message":"Model not found: none"}`,
		},
		{
			"no version", "POST", "/predictions/echo/2.0", "", raw, 404,
			`{"code":404,"type":"ModelNotFoundException","message":"Model version: 2.0 does not exist for model: echo"}`,
		},
		{
			"not ready", "POST", "/predictions/cold", "", raw, 503, `{"code":503,"type":"ServiceUnavailableException",` +
				`"message":"Request for unknown model: 'cold' version 1 is not at ready state"}`,
		},
		{"health", "GET", "/ping", "", "", 200, `{"status":"Healthy"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp, body := ts.do(t, test.method, test.path, test.body, "Content-Type", test.kind)
			if resp.StatusCode != test.status || body != test.want {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
	ts.engine.notLive.Store(true)
	if resp, body := ts.do(t, "GET", "/ping", ""); resp.StatusCode != 500 || body != `{"status":"Unhealthy"}` {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestATorchServeClassifierAnswersItsBestLabels(t *testing.T) {
	ts := startServer(t, nil)
	ts.labels = true
	for body, want := range map[string]string{
		`[0.5,2,1,9]`:             `{"y-b":2.0,"y-c":1.0,"y-a":0.5}`,
		`[[0.5,2,1,9],[3,2,1,0]]`: `[{"y-b":2.0,"y-c":1.0,"y-a":0.5},{"y-a":3.0,"y-b":2.0,"y-c":1.0}]`,
		`[NaN,Infinity,1,9]`:      `{"y-b":Infinity,"y-c":1.0}`,
	} {
		resp, got := ts.do(t, "POST", "/predictions/echo", body, "Content-Type", "application/json")
		if resp.StatusCode != 200 || got != want {
			t.Errorf("%s: %d %s", body, resp.StatusCode, got)
		}
	}
	_, got := ts.do(t, "POST", "/v1/models/echo:classify", `{"examples":[{"x":[0.5,2,1,9]}]}`)
	if want := `{"results":[[["y-a",0.5],["y-b",2.0],["y-c",1.0],["3",9.0]]]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAnErrorBeforeTheHandlerHasTheFormOfItsInterface(t *testing.T) {
	restrict := func(c *httpapi.Config) {
		c.Restricted = []frontend.Restriction{{APIs: []string{"inference"}, Key: "Key", Value: "secret"}}
	}
	ts := startServer(t, restrict)
	_, torch := ts.do(t, "POST", "/predictions/echo", "1")
	if want := `{"code":403,"type":"InvalidKeyException","message":"This API is restricted, expecting header 'Key'"}`; torch != want {
		t.Errorf("%s, want %s", torch, want)
	}
	resp, google := ts.do(t, "POST", "/v1/models/echo:predict", fourRow)
	if want := `{"error":"This API is restricted, expecting header 'Key'","code":"denied"}`; google != want || resp.StatusCode != 403 {
		t.Errorf("%s, want %s", google, want)
	}
	if resp, _ := ts.do(t, "POST", "/v1/models/echo:predict", fourRow, "Key", "secret"); resp.StatusCode != 200 {
		t.Error(resp.StatusCode)
	}
}

func TestACompatibleRequestEndsWithItsClientAndItsTime(t *testing.T) {
	ts := startServer(t, nil)
	var deadline bool
	ts.engine.hook = func(ctx context.Context, _ *edgewise.Request) { _, deadline = ctx.Deadline() }
	if resp, _ := ts.do(t, "POST", "/v1/models/echo:predict", fourRow); resp.StatusCode != http.StatusOK || !deadline {
		t.Errorf("%d, deadline %v", resp.StatusCode, deadline)
	}
}
