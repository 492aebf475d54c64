package e2e

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// wire is one exchange as a client of the protocol makes it.
type wire struct {
	name, method, path, body string
	headers                  []string
	status                   int
	want                     string // part of the answer, or all of it when it begins with "="
}

func (b *box) exchange(t *testing.T, w wire) {
	t.Helper()
	status, got := b.send(w.method, w.path, []byte(w.body), w.headers...)
	whole, exact := strings.CutPrefix(w.want, "=")
	if status != w.status || exact && got != whole || !exact && !strings.Contains(got, w.want) {
		t.Errorf("%s %s: %d %.600s\nwant %d %s", w.method, w.path, status, got, w.status, w.want)
	}
}

// triton serves "sum" (y = x + 1, FP32[-1,4]), "text" (BYTES [-1,1]) and "half" (FP16 [-1,2]); "late" is loaded, then
// unloaded.
func triton(t *testing.T) *box {
	b := serveReady(t, t.TempDir())
	b.upload("sum", "", biased(1))
	b.upload("text", "", onnxgen.Identity(edgewise.Bytes, onnxgen.Batch(1)...))
	b.upload("half", "", onnxgen.Identity(edgewise.FP16, onnxgen.Batch(2)...))
	b.upload("late", "", biased(2))
	b.exchange(t, wire{"unload", "POST", "/v2/repository/models/late/unload", "", nil, 200, "="})
	await(t, "the end of the unload", func() bool { // which is answered before
		_, index := b.send(http.MethodPost, "/v2/repository/index", nil)
		return strings.Contains(index, `"reason":"unloaded"`)
	})
	return b
}

// TestEveryRouteOfTheProtocol drives each row of the protocol's routes, with a good request and a bad one.
func TestEveryRouteOfTheProtocol(t *testing.T) {
	t.Parallel()
	b := triton(t)
	const unknown = "Request for unknown model: 'none' is not found"
	const noVersion = "Request for unknown model: 'sum' version 9 is not found"
	const answer = `"outputs":[{"name":"y","datatype":"FP32","shape":[1,4],"data":[1,1,1,1]}]}`
	for _, w := range []wire{
		{"live", "GET", "/v2/health/live", "", nil, 200, "="},
		{"live, wrong method", "POST", "/v2/health/live", "", nil, 405, `={"error":"Method Not Allowed"}`},
		{"ready", "GET", "/v2/health/ready?verbose=1", "", nil, 200, "="},
		{"server", "GET", "/v2", "", nil, 200, `"extensions":["classification",`},
		{"server with a slash", "GET", "/v2/", "", nil, 404, `={"error":"Not Found"}`},
		{"model ready", "GET", "/v2/models/sum/ready", "", nil, 200, "="},
		{"version ready", "GET", "/v2/models/sum/versions/1/ready", "", nil, 200, "="},
		{"not ready", "GET", "/v2/models/late/ready", "", nil, 400, "Model version not ready"},
		{"unknown ready", "GET", "/v2/models/none/ready", "", nil, 400, "Model version not ready"},
		{
			"metadata", "GET", "/v2/models/sum", "", nil, 200,
			`={"name":"sum","versions":["1"],"platform":"onnxruntime_onnx","inputs":[{"name":"x","datatype":"FP32",` +
				`"shape":[-1,4]}],"outputs":[{"name":"y","datatype":"FP32","shape":[-1,4]}]}`,
		},
		{"metadata of a version", "GET", "/v2/models/text/versions/1", "", nil, 200, `"datatype":"BYTES","shape":[-1,1]`},
		{"unknown model", "GET", "/v2/models/none", "", nil, 404, unknown},
		{"unknown version", "GET", "/v2/models/sum/versions/9", "", nil, 404, noVersion},
		{
			"version that is none", "GET", "/v2/models/sum/versions/x", "", nil, 404,
			"'sum' version 'x' is not found: want its number, or a label of this model",
		},
		{"configuration", "GET", "/v2/models/sum/config", "", nil, 200, `"dims":[4]`},
		{"configuration of an unknown version", "GET", "/v2/models/sum/versions/9/config", "", nil, 404, noVersion},
		{"infer", "POST", "/v2/models/sum/infer", zeros, nil, 200, answer},
		{"infer of a version", "POST", "/v2/models/sum/versions/1/infer", zeros, nil, 200, answer},
		{
			"infer echoes the id", "POST", "/v2/models/sum/infer", `{"id":"a7",` + zeros[1:], nil, 200,
			`={"id":"a7","model_name":"sum","model_version":"1",` + answer,
		},
		{"infer of an unknown version", "POST", "/v2/models/sum/versions/9/infer", zeros, nil, 404, noVersion},
		{"infer with bad JSON", "POST", "/v2/models/sum/infer", "{", nil, 400, "failed to parse the request JSON buffer"},
		{"infer by GET", "GET", "/v2/models/sum/infer", "", nil, 405, "Method Not Allowed"},
		{"statistics", "GET", "/v2/models/sum/stats", "", nil, 200, `"inference_count":3,"execution_count":3`},
		{"statistics of a version", "GET", "/v2/models/sum/versions/1/stats", "", nil, 200, `"name":"sum","version":"1"`},
		{"statistics of all", "GET", "/v2/models/stats", "", nil, 200, `"name":"text"`},
		{
			"statistics of an unknown version", "GET", "/v2/models/sum/versions/9/stats", "", nil,
			400, "requested model version is not available for model 'sum'",
		},
		{"statistics of an unknown model", "GET", "/v2/models/none/stats", "", nil, 400, "requested model 'none' is not available"},
		{
			"generate", "POST", "/v2/models/text/generate", `{"id":"1","x":"hello"}`, nil, 200,
			`={"model_name":"text","model_version":"1","id":"1","y":"hello"}`,
		},
		{"generate of a version", "POST", "/v2/models/sum/versions/1/generate", `{"x":[0,1,2,3]}`, nil, 200, `"y":[1,2,3,4]}`},
		{"generate without its input", "POST", "/v2/models/text/generate", `{"z":"hello"}`, nil, 400, "missing required input(s) ['x']"},
		{
			"generate_stream", "POST", "/v2/models/text/generate_stream", `{"x":"hello"}`, nil, 200,
			"=data: {\"model_name\":\"text\",\"model_version\":\"1\",\"y\":\"hello\"}\n\n",
		},
		{"generate_stream of an unknown model", "POST", "/v2/models/none/generate_stream", `{}`, nil, 404, unknown},
		{"trace", "GET", "/v2/trace/setting", "", nil, 200, `"trace_level":["OFF"]`},
		{"trace of a model", "POST", "/v2/models/sum/trace/setting", `{"trace_level":["OFF"]}`, nil, 200, `"trace_rate":"1000"`},
		{"trace, a bad level", "POST", "/v2/trace/setting", `{"trace_level":["X"]}`, nil, 400, "no trace level"},
		{"trace of a version", "GET", "/v2/models/sum/versions/1/trace/setting", "", nil, 404, "Not Found"},
		{"logging", "GET", "/v2/logging", "", nil, 200, `"log_verbose_level":0`},
		{"logging, a bad type", "POST", "/v2/logging", `{"log_info":1}`, nil, 400, "log_info"},
		{"index", "POST", "/v2/repository/index", "", nil, 200, `{"name":"late","version":"1","state":"UNAVAILABLE","reason":"unloaded"}`},
		{"index, a bad type", "POST", "/v2/repository/index", `{"ready":1}`, nil, 400, "ready"},
		{"load", "POST", "/v2/repository/models/late/load", "{}", nil, 200, "="},
		{
			"load of an unknown model", "POST", "/v2/repository/models/none/load", "", nil, 400,
			"failed to load 'none', failed to poll from model repository",
		},
		{"unload", "POST", "/v2/repository/models/late/unload", `{"parameters":{"unload_dependents":false}}`, nil, 200, "="},
		{
			"unload, a bad type", "POST", "/v2/repository/models/late/unload", `{"parameters":{"unload_dependents":1}}`, nil,
			400, "unload_dependents",
		},
		{"a named repository", "POST", "/v2/repository/r/models/sum/load", "", nil, 501, "'repository_name' specification is not supported"},
		{"index of a named repository", "POST", "/v2/repository/r/index", "", nil, 200, `"name":"sum"`},
		{"system shared memory", "GET", "/v2/systemsharedmemory/status", "", nil, 200, "=[]"},
		{"CUDA shared memory", "GET", "/v2/cudasharedmemory/status", "", nil, 200, "=[]"},
		{"no such region", "GET", "/v2/systemsharedmemory/region/r/status", "", nil, 404, "Unable to find system shared memory region: 'r'"},
		{"register while off", "POST", "/v2/systemsharedmemory/region/r/register", `{"key":"/k","byte_size":4}`, nil, 501, ""},
	} {
		t.Run(w.name, func(t *testing.T) { b.exchange(t, w) })
	}
}

func le32(values ...uint32) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return string(b)
}

// TestWhatThePythonClientSends has the bodies and headers of tritonclient.http: its member order and spaces, its
// spelling of the headers, and requests with a query string.
func TestWhatThePythonClientSends(t *testing.T) {
	t.Parallel()
	b := triton(t)
	four := string(floatBytes([]float32{1, 2, 3, 4}))
	five := string(floatBytes([]float32{2, 3, 4, 5}))
	head := `{"id":"1","inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","parameters":{"binary_data_size":16}}],` +
		`"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`
	unnamed := `{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","parameters":{"binary_data_size":16}}],` +
		`"parameters":{"binary_data_output":true}}`
	length := func(head string) []string {
		return []string{"Inference-Header-Content-Length", strconv.Itoa(len(head)), "Content-Type", "application/octet-stream"}
	}
	text := `{"inputs":[{"name":"x","shape":[1,1],"datatype":"BYTES","parameters":{"binary_data_size":9}}],` +
		`"parameters":{"binary_data_output":true}}`
	for _, w := range []wire{
		{"binary in and out", "POST", "/v2/models/sum/infer", head + four, length(head), 200, five},
		{"binary, all outputs", "POST", "/v2/models/sum/versions/1/infer?a=b", unnamed + four, length(unnamed), 200, five},
		{
			"a lower-case header", "POST", "/v2/models/sum/infer", head + four,
			[]string{"inference-header-content-length", strconv.Itoa(len(head))},
			200, five,
		},
		{"text", "POST", "/v2/models/text/infer", text + le32(5) + "hello", length(text), 200, le32(5) + "hello"},
		{"JSON as octets", "POST", "/v2/models/sum/infer", zeros, []string{"Content-Type", "application/octet-stream"}, 200, `"data":[1,1,1,1]`},
		{"raw", "POST", "/v2/models/sum/infer", four, []string{"Inference-Header-Content-Length", "0"}, 200, five},
		{"raw text", "POST", "/v2/models/text/infer", "hello", []string{"Inference-Header-Content-Length", "0"}, 200, le32(5) + "hello"},
		{
			"classes", "POST", "/v2/models/sum/infer",
			`{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[0,9,1,2]}],` +
				`"outputs":[{"name":"y","parameters":{"classification":2,` +
				`"binary_data":false}}]}`, nil, 200, `"datatype":"BYTES","shape":[1,2],"data":["10.000000:1","3.000000:3"]`,
		},
		{
			"parameters", "POST", "/v2/models/sum/infer",
			`{"parameters":{"priority":1,"timeout":1000000,"mine":"a","n":1,"f":0.5,"b":true},` + zeros[1:], nil, 200, `[1,1,1,1]`,
		},
		{
			"FP16 in JSON", "POST", "/v2/models/half/infer",
			`{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP16","data":[0.5,-2]}]}`, nil, 200,
			`"datatype":"FP16","shape":[1,2],"data":[0.5,-2]`,
		},
		{"a picture", "POST", "/v2/models/text/infer", "\x89PNG", []string{"Content-Type", "image/png"}, 400, "not valid UTF-8"},
		{
			"octets", "POST", "/v2/models/text/infer", "plain octets",
			[]string{"Content-Type", "application/octet-stream"},
			200,
			`"data":["plain octets"]`,
		},
		{
			"base64", "POST", "/v2/models/text/infer",
			`{"inputs":[{"name":"x","shape":[1,1],"datatype":"BYTES","data":["aGVsbG8="],` +
				`"parameters":{"content_type":"base64"}}]}`, nil, 200, `"data":["hello"]`,
		},
		{
			"too few bytes", "POST", "/v2/models/sum/infer", head + four[1:], length(head), 400,
			"unexpected size for input 'x', expecting 1 additional bytes for model 'sum'",
		},
		{
			"too many bytes", "POST", "/v2/models/sum/infer", head + four + "1", length(head), 400,
			"unexpected additional input data for model 'sum'",
		},
		{"no header", "POST", "/v2/models/sum/infer", unnamed, nil, 400, "must specify valid 'Infer-Header-Content-Length' in request header"},
		{
			"a header that is no number", "POST", "/v2/models/sum/infer", head,
			[]string{"Inference-Header-Content-Length", "x"},
			400, "Unable to parse Inference-Header-Content-Length, got: x",
		},
		{
			"a header over the body", "POST", "/v2/models/sum/infer", zeros,
			[]string{"Inference-Header-Content-Length", "999"},
			400, "inference header size should be in range",
		},
		{"a missing input", "POST", "/v2/models/sum/infer", `{"inputs":[]}`, nil, 400, "expected 1 inputs but got 0 inputs for model 'sum'"},
		{
			"an unknown input", "POST", "/v2/models/sum/infer", strings.Replace(zeros, `"x"`, `"z"`, 1), nil, 400,
			"unexpected inference input 'z' for model 'sum'",
		},
		{
			"another datatype", "POST", "/v2/models/sum/infer", strings.Replace(zeros, "FP32", "INT32", 1), nil, 400,
			"inference input 'x' data-type is 'INT32', but model 'sum' expects 'FP32'",
		},
		{
			"another shape", "POST", "/v2/models/sum/infer", strings.Replace(zeros, "[1,4]", "[2,2]", 1), nil, 400,
			"unexpected shape for input 'x' for model 'sum'. Expected [-1,4], got [2,2]",
		},
		{"elements that do not fit", "POST", "/v2/models/sum/infer", strings.Replace(zeros, "[1,4]", "[2,4]", 1), nil, 400, `"input":"x"`},
		{
			"an unknown output", "POST", "/v2/models/sum/infer", zeros[:len(zeros)-1] + `,"outputs":[{"name":"z"}]}`, nil, 400,
			"unexpected inference output 'z' for model 'sum'",
		},
		{
			"a reserved parameter", "POST", "/v2/models/sum/infer", `{"parameters":{"triton_x":1},` + zeros[1:], nil, 400,
			"parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
		},
		{"too deep", "POST", "/v2/models/sum/infer", strings.Repeat("[", 200), nil, 400, ""},
		{"too deep inside", "POST", "/v2/models/sum/infer", `{"x":` + strings.Repeat("[", 200), nil, 400, `"limit":100`},
	} {
		t.Run(w.name, func(t *testing.T) { b.exchange(t, w) })
	}
}

func TestCompressionBothWays(t *testing.T) {
	t.Parallel()
	b := triton(t)
	var zipped, deflated bytes.Buffer
	for _, w := range []io.WriteCloser{gzip.NewWriter(&zipped), zlib.NewWriter(&deflated)} {
		if _, err := io.WriteString(w, zeros); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
	}
	for encoding, body := range map[string]*bytes.Buffer{"gzip": &zipped, "deflate": &deflated} {
		req, err := http.NewRequest("POST", b.url+"/v2/models/sum/infer", bytes.NewReader(body.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Encoding", encoding)
		req.Header.Set("Accept-Encoding", encoding)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		var plain io.Reader
		if encoding == "gzip" {
			plain, err = gzip.NewReader(resp.Body)
		} else {
			plain, err = zlib.NewReader(resp.Body)
		}
		if err != nil {
			t.Fatalf("%s: %d, encoding %q: %v", encoding, resp.StatusCode, resp.Header.Get("Content-Encoding"), err)
		}
		if text, err := io.ReadAll(plain); err != nil || !strings.Contains(string(text), `"data":[1,1,1,1]`) {
			t.Errorf("%s: %s: %v", encoding, text, err)
		}
	}
}

// TestTheLogFollowsItsSettings changes what is logged while the box runs.
func TestTheLogFollowsItsSettings(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.exchange(t, wire{"off", "POST", "/v2/logging", `{"log_info":false}`, nil, 200, `"log_info":false`})
	b.upload("quiet", "", biased(1))
	b.exchange(t, wire{"on", "POST", "/v2/logging", `{"log_info":true}`, nil, 200, `"log_info":true`})
	b.upload("loud", "", biased(1))
	if text := b.output(); strings.Contains(text, "model=quiet") || !strings.Contains(text, "model=loud") {
		t.Errorf("the box logged\n%s", text)
	}
}

// TestAClientThatLeavesEndsItsRunningRequest goes away from a computation of minutes: the next request must not wait
// for it.
func TestAClientThatLeavesEndsItsRunningRequest(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"none", "process"} {
		t.Run(isolation, func(t *testing.T) {
			b := serveReady(t, t.TempDir(), "--set", "engine.isolation="+isolation)
			b.upload("slow", "", onnxgen.SlowOnZeros(20_000))
			body := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,16],"data":[%s0]}]}`, strings.Repeat("0,", 15))
			conn := b.raw(t, fmt.Sprintf("POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			await(t, "the run", func() bool { return b.started("slow") == 1 })
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
				var stats struct {
					Models []struct {
						Inference struct {
							Fail struct{ Count int }
						} `json:"inference_stats"`
					} `json:"model_stats"`
				}
				_, text := b.send("GET", "/v2/models/slow/stats", nil)
				if err := json.Unmarshal([]byte(text), &stats); err != nil || len(stats.Models) != 1 {
					t.Fatalf("%s: %v", text, err)
				}
				if stats.Models[0].Inference.Fail.Count == 1 {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("it still runs: %s", text)
				}
			}
		})
	}
}
