package real

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/sched/sequence"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// controlled makes a model whose outputs say what its control inputs were: start, end and ready of one type, id of
// another.
func controlled(flag, id edgewise.DataType, batches bool) *onnxgen.Model {
	m := &onnxgen.Model{}
	dims := onnxgen.Dims(1)
	if batches {
		dims = onnxgen.Batch(1)
	}
	for name, kind := range map[string]edgewise.DataType{"x": edgewise.FP32, "START": flag, "END": flag, "READY": flag, "ID": id} {
		out := "is_" + strings.ToLower(name)
		m.Graph.Nodes = append(m.Graph.Nodes, onnxgen.Node{Op: "Identity", In: []string{name}, Out: []string{out}})
		m.Graph.Inputs = append(m.Graph.Inputs, onnxgen.Value{Name: name, Type: onnxgen.TypeOf(kind), Dims: dims})
		m.Graph.Outputs = append(m.Graph.Outputs, onnxgen.Value{Name: out, Type: onnxgen.TypeOf(kind), Dims: dims})
	}
	return m
}

func controlledConfig(pair string, id edgewise.DataType, batch int, strategy string) string {
	name, _ := id.MarshalText()
	return fmt.Sprintf(`max_batch_size: %d
sequence_batching {
  %s
  control_input [
    { name: "START" control { kind: CONTROL_SEQUENCE_START %s } }, { name: "END" control { kind: CONTROL_SEQUENCE_END %s } },
    { name: "READY" control { kind: CONTROL_SEQUENCE_READY %s } }, { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: %s } }
  ]
}`, batch, strategy, pair, pair, pair, name)
}

// TestControlsOfEveryType tells a model on ONNX Runtime about sequences in every type that is allowed, as the box loads
// it: inputs and outputs of clients are completed from the file.
func TestControlsOfEveryType(t *testing.T) {
	flags := map[edgewise.DataType]struct {
		pair    string
		no, yes float64
	}{
		edgewise.Bool: {"bool_false_true: [false, true]", 0, 1}, edgewise.Int32: {"int32_false_true: [-7, 7]", -7, 7},
		edgewise.FP32: {"fp32_false_true: [0.5, 2]", 0.5, 2},
	}
	for _, id := range []edgewise.DataType{edgewise.Uint64, edgewise.Int64, edgewise.Uint32, edgewise.Int32, edgewise.Bytes} {
		for flag, f := range flags {
			for _, batch := range []int{0, 4} {
				for _, strategy := range []string{"direct {}", "oldest {}"} {
					t.Run(fmt.Sprintf("%v/%v/%d/%.6s", id, flag, batch, strategy), func(t *testing.T) {
						s := loadSequences(t, controlled(flag, id, batch > 0), controlledConfig(f.pair, id, batch, strategy))
						of := map[bool]float64{false: f.no, true: f.yes}
						for i := range 3 {
							said := tell(t, s, sequenceID(id, i == 0, i == 2), batch > 0)
							if said["is_start"] != of[i == 0] || said["is_end"] != of[i == 2] || said["is_ready"] != f.yes || said["is_id"] != 77 {
								t.Errorf("request %d: the model was told %v", i, said)
							}
						}
						if err := s.Close(); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
	}
}

func sequenceID(id edgewise.DataType, start, end bool) edgewise.Sequence {
	if id == edgewise.Bytes {
		return edgewise.Sequence{Name: "77", Start: start, End: end}
	}
	return edgewise.Sequence{ID: 77, Start: start, End: end}
}

func loadSequences(t *testing.T, m *onnxgen.Model, config string) *sequence.Batcher {
	t.Helper()
	v, instance := instanceOf(t, "m", m, config)
	s := sequence.New(v, instance, sched.Config{Instances: 1, MaxQueue: 10, Logger: slog.New(slog.DiscardHandler)}, sequence.Config{})
	if err := s.Warm(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// tell sends one request and returns what the outputs say, as numbers.
func tell(t *testing.T, s *sequence.Batcher, id edgewise.Sequence, batches bool) map[string]float64 {
	t.Helper()
	shape := edgewise.Shape{1}
	if batches {
		shape = edgewise.Shape{1, 1}
	}
	r, err := s.Infer(t.Context(), &edgewise.Request{
		Sequence: id,
		Inputs:   []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: shape, Data: make([]byte, 4)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	said := map[string]float64{}
	for _, out := range r.Outputs {
		said[out.Name] = number(out)
	}
	return said
}

// number reads the one element of a tensor.
func number(t edgewise.Tensor) float64 {
	switch t.Type {
	case edgewise.Bool:
		return float64(t.Data[0])
	case edgewise.Int32:
		return float64(int32(binary.LittleEndian.Uint32(t.Data)))
	case edgewise.Uint32:
		return float64(binary.LittleEndian.Uint32(t.Data))
	case edgewise.FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data)))
	case edgewise.Bytes:
		var n float64
		if _, err := fmt.Sscan(string(t.Data[4:]), &n); err != nil {
			return math.NaN()
		}
		return n
	}
	return float64(binary.LittleEndian.Uint64(t.Data))
}
