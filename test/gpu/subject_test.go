package gpu

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// subject is a model that is measured. Its weights are random and always the same ones: what is measured is speed, and
// that GPU and CPU agree.
type subject struct {
	name      string
	make      func() *onnxgen.Model
	row       edgewise.Shape // of the input
	kind      edgewise.DataType
	result    edgewise.DataType // of the output
	most      int               // rows of a batch
	cudnn     bool              // it has convolutions
	tolerance float64           // between GPU and CPU, relative in the two-norm
	gain      float64           // of batches of 32 over those of 1, at least; 0: it is not judged
}

// The tolerances: TF32, which is on by default, keeps ten bits of each factor, as FP16 does of everything.
const (
	tolerance     = 3e-3
	toleranceHalf = 1e-2
)

// main is the one that is also served: ResNet-50 in FP16 with pictures as bytes, whose preprocessing is part of the
// model.
const mainSubject = "resnet50 fp16 u8"

// subjects are the models. Over stand-ins, which have no convolutions, a model without any takes the place of
// ResNet-50, under its name.
func subjects(fake bool) []subject {
	resnet := subject{
		name: mainSubject, make: func() *onnxgen.Model { return onnxgen.ResNet50(1).Half().FromPixels() },
		row: edgewise.Shape{224, 224, 3}, kind: edgewise.Uint8, result: edgewise.FP16,
		most: 128, cudnn: true, tolerance: toleranceHalf, gain: 8,
	}
	if fake {
		resnet.make, resnet.row, resnet.cudnn = func() *onnxgen.Model { return onnxgen.Dot(8, 1).Half().FromPixels() },
			edgewise.Shape{8, 8, 3}, false
	}
	return []subject{
		{
			name: "mlp", make: func() *onnxgen.Model { return onnxgen.MLP(1) }, row: edgewise.Shape{64}, kind: edgewise.FP32,
			result: edgewise.FP32, most: 128, tolerance: tolerance,
		},
		{
			name: "copies", make: func() *onnxgen.Model { return onnxgen.Twice(3 * 224 * 224) },
			row: edgewise.Shape{3 * 224 * 224}, kind: edgewise.FP32, result: edgewise.FP32, most: 32, tolerance: tolerance,
		},
		{
			name: "mobilenetv2", make: func() *onnxgen.Model { return onnxgen.MobileNetV2(1) }, row: edgewise.Shape{3, 224, 224},
			kind: edgewise.FP32, result: edgewise.FP32,
			most: 64, cudnn: true, tolerance: tolerance,
		},
		resnet,
	}
}

func (m *subject) names() (input, output string) {
	if m.kind == edgewise.Uint8 {
		return "pixels", "output"
	}
	return "input", "output"
}

// bytes are those of a row of the input.
func (m *subject) bytes() int64 {
	n, _ := m.row.Elements()
	return n * m.kind.Size()
}

func (m *subject) input(rows int, seed float64) edgewise.Tensor {
	name, _ := m.names()
	t := edgewise.Tensor{Name: name, Type: m.kind, Shape: append(edgewise.Shape{int64(rows)}, m.row...)}
	n, _ := t.Shape.Elements()
	for i := range n {
		v := math.Sin(float64(i)*0.37 + seed)
		if m.kind == edgewise.Uint8 {
			t.Data = append(t.Data, byte(127.5+127*v))
			continue
		}
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(v)))
	}
	return t
}

// distance is the relative difference of two outputs in the two-norm.
func (m *subject) distance(a, b []byte) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	size := int(m.result.Size())
	var difference, norm float64
	for i := 0; i < len(a); i += size {
		x, y := scalar.Float(m.result, a[i:]), scalar.Float(m.result, b[i:])
		difference += (x - y) * (x - y)
		norm += y * y
	}
	return math.Sqrt(difference / max(norm, 1e-30))
}
