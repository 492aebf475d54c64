package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// centred makes y = x - mean(x) over the first dimension, FP32 [name,2], with x among its outputs.
func centred(name string) *onnxgen.Model {
	dims := []onnxgen.Dim{{Name: name}, {Size: 2}}
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes: []onnxgen.Node{
			{Op: "ReduceMean", In: []string{"x"}, Out: []string{"mean"}, Attributes: []onnxgen.Attribute{onnxgen.IntsAttribute("axes", 0)}},
			{Op: "Sub", In: []string{"x", "mean"}, Out: []string{"y"}},
		},
		Inputs:  []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: dims}},
		Outputs: []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: dims}, {Name: "y", Type: onnxgen.Float, Dims: dims}},
	}}
}

// TestRequestsAreMergedOnlyWhereThatIsRight asks models of each kind with eight clients, over REST and the default
// isolation, and looks at what the administration API and the command line say of them.
func TestRequestsAreMergedOnlyWhereThatIsRight(t *testing.T) {
	b := serve(t, t.TempDir())
	for _, test := range []struct {
		name   string
		model  *onnxgen.Model
		merged bool
		reason string
	}{
		{"series", centred("time"), false, "rows depend on each other"},
		{"batch", centred("batch"), false, "rows depend on each other"},
		{"plain", biased(1), true, ""}, // where batches pay
	} {
		b.upload(test.name, "?promote=true", test.model)
		_, text := b.send(http.MethodGet, "/api/v1/models/"+test.name+"/versions/1", nil)
		var seen struct {
			Batching edgewise.Batching `json:"batching"`
		}
		if err := json.Unmarshal([]byte(text), &seen); err != nil || seen.Batching.Independent != test.merged ||
			!strings.Contains(seen.Batching.Reason, test.reason) {
			t.Errorf("%s: %v, %+v", test.name, err, seen.Batching)
		}
		if shown := b.must("model", "show", test.name); !strings.Contains(shown, seen.Batching.Reason) {
			t.Errorf("model show says nothing of %q:\n%s", seen.Batching.Reason, shown)
		}
	}
	var all sync.WaitGroup
	for client := range 8 {
		all.Go(func() {
			for n := range 40 {
				v := client*1000 + n*2
				body := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"FP32","shape":[2,2],"data":[%d,%d,%d,%d]}]}`, v, v, v+2, v+4)
				_, text := b.send(http.MethodPost, "/v2/models/series/infer", []byte(body), "Content-Type", mimeJSON)
				var a answer
				want := fmt.Sprint([]float32{float32(v), float32(v), float32(v + 2), float32(v + 4)}, []float32{-1, -2, 1, 2})
				if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Outputs) != 2 ||
					fmt.Sprint(a.Outputs[0].Data, a.Outputs[1].Data) != want {
					t.Errorf("%s is answered with %s", body, text)
					return
				}
			}
		})
	}
	all.Wait()
}
