package inference

import (
	"bytes"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

func TestAnAnswerOfTextFitsItsEstimate(t *testing.T) {
	for _, test := range []struct {
		name string
		out  edgewise.Tensor
	}{
		{"long floats", edgewise.Tensor{
			Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{50_000},
			Data: bytes.Repeat([]byte{0xff, 0xff, 0x7f, 0xff}, 50_000),
		}},
		{"bytes", edgewise.Tensor{
			Name: "y", Type: edgewise.Uint8, Shape: edgewise.Shape{50_000},
			Data: bytes.Repeat([]byte{255}, 50_000),
		}},
		{"one", edgewise.Tensor{Name: "y", Type: edgewise.Bool, Shape: edgewise.Shape{1}, Data: []byte{1}}},
	} {
		body := []byte(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]}`)
		req, err := kserve.NewDecoder(kserve.Limits{}).Infer(edgewise.ModelID{Name: "m"}, body, -1)
		if err != nil {
			t.Fatal(err)
		}
		resp := &edgewise.Response{Outputs: []edgewise.Tensor{test.out}}
		size := answerSize(req, resp)
		room := make([]byte, 0, size)
		body, _, err = kserve.AppendInferResponse(room, req, resp)
		if err != nil || cap(body) != cap(room) {
			t.Errorf("%s: estimated %d bytes, the answer took %d: %v", test.name, size, len(body), err)
		}
		req.Release()
	}
}
