package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// oddModel is a model that the runtime runs, with a request and what the answer has to hold.
type oddModel struct {
	name    string
	model   *onnxgen.Model
	request string
	status  int
	answer  string // a part of it
}

// TestOddModels serves models that the file says little of, or that have more than tensors.
func TestOddModels(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	two := `{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[1,-2]}]}`
	for _, odd := range []oddModel{
		{"an output without a type", oneNode("Neg", onnxgen.Value{Name: "y"}), two, 200, `"datatype":"FP32","shape":[2],"data":[-1,2]`},
		{
			"an output without a shape", oneNode("Neg", onnxgen.Value{Name: "y", Type: onnxgen.Float, Unranked: true}), two, 200,
			`"shape":[2],"data":[-1,2]`,
		},
		{"an output of any rank", anyRank(), reshapeTo("[3]", "[1,2,1]"), 200, `"shape":[1,2,1],"data":[1,2]`},
		{"a shape that cannot be", anyRank(), reshapeTo("[1]", "[7]"), 400, "cannot be reshaped"},
		{"a sequence beside a tensor", zipMap(), two, 200, `"outputs":[{"name":"label","datatype":"INT64","shape":[1],"data":[1]}]`},
		{"no rows", batched("Neg"), `{"inputs":[{"name":"x","datatype":"FP32","shape":[0,2],"data":[]}]}`, 200, `"shape":[0,2],"data":[]`},
		{
			"a dimension of size 0", onnxgen.Identity(edgewise.FP32, onnxgen.Dims(3, 0)...),
			`{"inputs":[{"name":"x","datatype":"FP32","shape":[3,0],"data":[]}]}`, 200, `"shape":[3,0],"data":[]`,
		},
		{"a number", onnxgen.Scalar(), `{"inputs":[{"name":"x","datatype":"FP32","shape":[],"data":[4]}]}`, 200, `"data":[8]`},
	} {
		t.Run(odd.name, func(t *testing.T) {
			name := strings.ReplaceAll(odd.name, " ", "-")
			if status, answer := b.send(http.MethodPost, "/api/v1/models/"+name+"/versions", odd.model.Bytes(), "Content-Type",
				mimeFile); status != http.StatusCreated {
				t.Fatalf("upload: %d %s", status, answer)
			}
			status, answer := b.send(http.MethodPost, "/v2/models/"+name+"/infer", []byte(odd.request), "Content-Type", mimeJSON)
			if status != odd.status || !strings.Contains(answer, odd.answer) {
				t.Errorf("got %d %s, want %d and %s", status, answer, odd.status, odd.answer)
			}
		})
	}
	t.Run("what is not served is named", func(t *testing.T) {
		const why = `output "probabilities" is a sequence: only dense tensors are served`
		contains(t, "model show", b.must("model", "show", "a-sequence-beside-a-tensor"), "not served", "probabilities", why)
		contains(t, "the log", b.output(), "probabilities")
	})
}

// TestEmptyBinaryAnswersHaveTheirHeader asks for a tensor without elements as bytes.
func TestEmptyBinaryAnswersHaveTheirHeader(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.upload("none", "", onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Size: 3}, onnxgen.Dim{Name: "n"}))
	body := `{"parameters":{"binary_data_output":true},"inputs":[{"name":"x","datatype":"FP32","shape":[3,0],"data":[]}]}`
	res, err := http.Post(b.url+"/v2/models/none/infer", mimeJSON, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("Inference-Header-Content-Length") == "" ||
		res.Header.Get("Content-Type") != mimeFile {
		t.Errorf("got %d with headers %v, want the length of the JSON part and %s", res.StatusCode, res.Header, mimeFile)
	}
}

// vector is FP32 [2].
func vector(name string) onnxgen.Value {
	return onnxgen.Value{Name: name, Type: onnxgen.Float, Dims: onnxgen.Dims(2)}
}

// oneNode makes y of one operator on x.
func oneNode(op string, y onnxgen.Value) *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:  []onnxgen.Node{{Op: op, In: []string{"x"}, Out: []string{"y"}}},
		Inputs: []onnxgen.Value{vector("x")}, Outputs: []onnxgen.Value{y},
	}}
}

// batched makes y of one operator on x, both FP32 [batch,2].
func batched(op string) *onnxgen.Model {
	m := oneNode(op, onnxgen.Value{Name: "y", Type: onnxgen.Float, Dims: onnxgen.Batch(2)})
	m.Graph.Inputs[0].Dims = onnxgen.Batch(2)
	return m
}

// anyRank makes y of x in the shape that another input says.
func anyRank() *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:   []onnxgen.Node{{Op: "Reshape", In: []string{"x", "shape"}, Out: []string{"y"}}},
		Inputs:  []onnxgen.Value{vector("x"), {Name: "shape", Type: onnxgen.Int64, Dims: []onnxgen.Dim{{Name: "rank"}}}},
		Outputs: []onnxgen.Value{{Name: "y"}},
	}}
}

func reshapeTo(rank, shape string) string {
	return `{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[1,2]},{"name":"shape","datatype":"INT64",` +
		`"shape":` + rank + `,"data":` + shape + `}]}`
}

// zipMap is how exporters of classical models end: a label, and a sequence of maps from class to probability.
func zipMap() *onnxgen.Model {
	float := new(onnxgen.Message).Nested(1, new(onnxgen.Message).Int(1, int64(onnxgen.Float)).Nested(2, new(onnxgen.Message)))
	classes := new(onnxgen.Message).Nested(5, new(onnxgen.Message).Int(1, int64(onnxgen.Int64)).Nested(2, float))
	sequence := new(onnxgen.Message).Nested(2, new(onnxgen.Message).Nested(4, new(onnxgen.Message).Nested(1, classes)))
	return &onnxgen.Model{
		Opsets: []onnxgen.Opset{{Version: 13}, {Domain: "ai.onnx.ml", Version: 1}},
		Graph: onnxgen.Graph{
			Nodes: []onnxgen.Node{
				{Op: "ArgMax", In: []string{"x"}, Out: []string{"most"}, Attributes: []onnxgen.Attribute{onnxgen.IntAttribute("axis", 0)}},
				{Op: "Add", In: []string{"most", "one"}, Out: []string{"label"}},
				{
					Op: "ZipMap", Domain: "ai.onnx.ml", In: []string{"x"}, Out: []string{"probabilities"},
					Attributes: []onnxgen.Attribute{onnxgen.IntsAttribute("classlabels_int64s", 1, 2)},
				},
			},
			Initializers: []onnxgen.Tensor{onnxgen.Ints64("one", []int64{1}, 1)},
			Inputs:       []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: onnxgen.Dims(2)}},
			Outputs:      []onnxgen.Value{{Name: "label", Type: onnxgen.Int64, Dims: onnxgen.Dims(1)}, {Name: "probabilities", Extra: sequence}},
		},
	}
}
