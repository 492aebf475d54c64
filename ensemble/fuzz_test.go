package ensemble

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// refuser fails every request, so that a graph is begun and not followed.
type refuser struct{}

func (refuser) Infer(context.Context, *edgewise.Request) (*edgewise.Response, error) {
	return nil, errors.New("refused")
}

// FuzzValidate reads a declaration as JSON. Whatever it holds, Validate reports or accepts it, and what it accepts can
// be run.
func FuzzValidate(f *testing.F) {
	add := func(m *edgewise.Model) {
		text, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	add(chain())
	fan := pipeline(0, []string{"x:FP32[-1,-1]"}, []string{"y:FP32[-1,-1]"}, stepOf("batch8", names{"x": "x"}, names{"y": "y"}))
	fan.EnsembleScheduling.Step[0].FanOut = &edgewise.EnsembleFanOut{Input: []string{"x"}, RowsPerRequest: 2}
	add(fan)
	skips := chain()
	skips.EnsembleScheduling.Step[1].Condition = &edgewise.EnsembleCondition{
		Tensor: "x", Operator: greater, Over: overAny, Otherwise: skip,
		DefaultOutput: map[string]edgewise.EnsembleDefault{"y": {Dims: edgewise.Shape{2}, Value: 1}},
	}
	add(skips)
	add(pipeline(0, []string{"x:FP32[-1]"}, []string{"y:FP32[-1]"}, stepOf("two", names{"x": "x", "z": "w"}, names{"y": "y", "w": "w"})))
	f.Fuzz(func(t *testing.T, text []byte) {
		m := &edgewise.Model{}
		if json.Unmarshal(text, m) != nil {
			return
		}
		models := modelsOf(m)
		if err := Validate(m, models); err != nil {
			if edgewise.KindOf(err) != edgewise.Invalid || err.Error() == "" {
				t.Errorf("got %v", err)
			}
			return
		}
		parts := make([]*edgewise.Version, len(models))
		for i, part := range models {
			if part == nil {
				return
			}
			parts[i] = &edgewise.Version{Model: part}
		}
		e, err := New(&edgewise.Version{ID: edgewise.ModelID{Name: m.Name, Version: 1}, Model: m}, parts, Config{
			Infer: refuser{}, Check: func(*edgewise.Request) error { return nil }, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatalf("accepted, and refused by New: %v", err)
		}
		req := &edgewise.Request{}
		for _, in := range m.Inputs() {
			in.Shape = append(edgewise.Shape{}, in.Shape...)
			for i := range in.Shape {
				in.Shape[i] = 1
			}
			data, _ := element(edgewise.FP64, 1)
			if in.Type == edgewise.Bytes {
				data = edgewise.AppendElement(nil, "")
			} else {
				data = data[:in.Type.Size()]
			}
			req.Inputs = append(req.Inputs, edgewise.Tensor{Name: in.Name, Type: in.Type, Shape: in.Shape, Data: data})
		}
		if r, err := e.Infer(t.Context(), req); err == nil {
			r.Release() // every step was skipped or stopped
		} else if edgewise.KindOf(err) == edgewise.Internal && err.Error() != "in ensemble '"+m.Name+"', refused" {
			t.Errorf("got %v", err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
