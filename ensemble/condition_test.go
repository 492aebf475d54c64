package ensemble

import (
	"math"
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
	"pgregory.net/rapid"
)

func TestConditionHolds(t *testing.T) {
	nan := float32(math.NaN())
	text := func(elements ...string) edgewise.Tensor {
		out := edgewise.Tensor{Name: "x", Type: edgewise.Bytes, Shape: edgewise.Shape{int64(len(elements))}}
		for _, e := range elements {
			out.Data = edgewise.AppendElement(out.Data, e)
		}
		return out
	}
	for _, test := range []struct {
		name      string
		condition condition
		tensor    edgewise.Tensor
		want      bool
	}{
		{"any greater", condition{operator: greater, value: 1}, floats("x", []float32{0, 2}), true},
		{"none greater", condition{operator: greater, value: 2}, floats("x", []float32{0, 2}), false},
		{"any greater or equal", condition{operator: greaterEqual, value: 2}, floats("x", []float32{0, 2}), true},
		{"all less", condition{operator: less, value: 3, all: true}, floats("x", []float32{0, 2}), true},
		{"not all less", condition{operator: less, value: 2, all: true}, floats("x", []float32{0, 2}), false},
		{"all less or equal", condition{operator: lessEqual, value: 2, all: true}, floats("x", []float32{0, 2}), true},
		{"any equal", condition{operator: equal, value: 2}, floats("x", []float32{0, 2}), true},
		{"all not equal", condition{operator: notEqual, value: 2, all: true}, floats("x", []float32{0, 2}), false},
		{"any of nothing", condition{operator: notEqual, value: 2}, floats("x", nil), false},
		{"all of nothing", condition{operator: equal, value: 2, all: true}, floats("x", nil), true},
		{"nan is not less", condition{operator: less, value: 2}, floats("x", []float32{nan}), false},
		{"nan is not greater", condition{operator: greaterEqual, value: 2}, floats("x", []float32{nan}), false},
		{"nan is not equal", condition{operator: notEqual, value: 2}, floats("x", []float32{nan}), true},
		{"text equal", condition{operator: equal, text: "cat"}, text("dog", "cat"), true},
		{"text not equal to any", condition{operator: equal, text: "cow"}, text("dog", "cat"), false},
		{"all text not equal", condition{operator: notEqual, text: "cow", all: true}, text("dog", "cat"), true},
		{"any text not equal", condition{operator: notEqual, text: "dog"}, text("dog", "dog"), false},
		{"any text of nothing", condition{operator: equal}, text(), false},
		{
			"true is 1",
			condition{operator: equal, value: 1},
			edgewise.Tensor{Type: edgewise.Bool, Shape: edgewise.Shape{2}, Data: []byte{0, 1}},
			true,
		},
		{
			"signed",
			condition{operator: less, value: 0},
			edgewise.Tensor{Type: edgewise.Int16, Shape: edgewise.Shape{1}, Data: []byte{0xff, 0xff}},
			true,
		},
		{
			"unsigned",
			condition{operator: less, value: 0},
			edgewise.Tensor{Type: edgewise.Uint16, Shape: edgewise.Shape{1}, Data: []byte{0xff, 0xff}},
			false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.condition.holds(&test.tensor); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestElementsHoldWhatTheySay writes numbers in every type and reads them back.
func TestElementsHoldWhatTheySay(t *testing.T) {
	types := []edgewise.DataType{
		edgewise.Bool, edgewise.Uint8, edgewise.Uint16, edgewise.Uint32, edgewise.Uint64, edgewise.Int8, edgewise.Int16, edgewise.Int32,
		edgewise.Int64, edgewise.FP16, edgewise.FP32, edgewise.FP64, edgewise.BF16,
	}
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom(types).Draw(rt, "type")
		x := rapid.OneOf(rapid.Float64(), rapid.Custom(func(rt *rapid.T) float64 {
			return float64(rapid.IntRange(-70000,
				70000).Draw(rt, "n"))
		})).Draw(rt, "x")
		data, ok := element(kind, x)
		if !ok {
			return
		}
		want := x
		if kind == edgewise.FP32 {
			want = float64(float32(x))
		}
		if got := scalar.Float(kind, data); int64(len(data)) != kind.Size() || got != want {
			rt.Errorf("%v of %v: % x, read as %v", x, kind, data, got)
		}
	})
}

func TestElementsAtTheBoundsOfTheirType(t *testing.T) {
	for _, test := range []struct {
		kind edgewise.DataType
		x    float64
		ok   bool
	}{
		{edgewise.Bool, 1, true},
		{edgewise.Bool, 2, false},
		{edgewise.Uint8, 255, true},
		{edgewise.Uint8, 256, false},
		{edgewise.Uint8, -1, false},
		{edgewise.Int8, -128, true},
		{edgewise.Int8, -129, false},
		{edgewise.Int8, 127, true},
		{edgewise.Int8, 128, false},
		{edgewise.Int32, math.MaxInt32, true},
		{edgewise.Int32, math.MaxInt32 + 1, false},
		{edgewise.Int64, -1 << 63, true},
		{edgewise.Int64, 1 << 63, false},
		{edgewise.Uint64, 1 << 63, true},
		{edgewise.Uint64, 1 << 64, false},
		{edgewise.FP16, 65504, true},
		{edgewise.FP16, 65505, false},
		{edgewise.FP16, math.Ldexp(1, -24), true},
		{edgewise.FP16, -0.5, true},
		{edgewise.FP16, 0.1, false},
		{edgewise.BF16, 1 << 100, true},
		{edgewise.BF16, 257, false},
		{edgewise.BF16, math.Inf(1), true},
		{edgewise.FP32, 0.1, true},
		{edgewise.FP32, 1e39, false},
		{edgewise.FP64, 1e300, true},
		{edgewise.Int32, math.NaN(), false},
	} {
		if _, ok := element(test.kind, test.x); ok != test.ok {
			t.Errorf("%v as %v: %v", test.x, test.kind, ok)
		}
	}
}

// cascade runs a small model, and a large one only when the small one says a number below 5.
func cascade(t testing.TB, c *edgewise.EnsembleCondition) (*zoo, *Ensemble) {
	z := newZoo(t)
	z.add("small", 0, one, y, plus(1))
	z.add("large", 0, one, y, plus(100))
	large := stepOf("large", names{"x": "x"}, names{"y": "y"})
	large.Condition = c
	behind := stepOf("small", names{"x": "y"}, names{"y": "z"})
	return z, z.ensemble(pipeline(0, one, []string{"y:FP32[-1]", "z:FP32[-1]", "s:FP32[-1]"},
		stepOf("small", names{"x": "x"}, names{"y": "s"}), large, behind))
}

func TestAStepThatIsSkippedHasItsDefault(t *testing.T) {
	for _, test := range []struct {
		name    string
		instead edgewise.EnsembleDefault
		want    float32
	}{
		{"another tensor", edgewise.EnsembleDefault{Tensor: "s"}, 7},
		{"a constant", edgewise.EnsembleDefault{Dims: edgewise.Shape{1}, Value: -3}, -3},
		{"the request's own input", edgewise.EnsembleDefault{Tensor: "x"}, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			z, e := cascade(t, &edgewise.EnsembleCondition{
				Tensor: "s", Operator: less, Value: 5, Over: overAny, Otherwise: skip,
				DefaultOutput: map[string]edgewise.EnsembleDefault{"y": test.instead},
			})
			if got := answerOf(t, ask(t, e, request(2)), "y"); got[0] != 102 {
				t.Errorf("when it runs: %v", got)
			}
			req := request(6)
			r := ask(t, e, req)
			clear(req.Inputs[0].Data) // the caller may do what it likes once Infer has returned
			if got := answerOf(t, r, "y"); got[0] != test.want || answerOf(t, r, "z")[0] != test.want+1 || answerOf(t, r, "s")[0] != 7 {
				t.Errorf("when it is skipped: %v", r.Outputs)
			}
			if z.requests("large") != 1 || e.Statistics().Steps[1].Skipped != 1 || r.Parameters["stopped_at"] != nil {
				t.Errorf("the model ran %d times; %+v", z.requests("large"), e.Statistics().Steps)
			}
		})
	}
}

func TestAStepThatStopsLeavesOutWhatDependsOnIt(t *testing.T) {
	z, e := cascade(t, &edgewise.EnsembleCondition{Tensor: "s", Operator: less, Value: 5, Over: overAny, Otherwise: stop})
	r := ask(t, e, request(6))
	var got []string
	for _, out := range r.Outputs {
		got = append(got, out.Name)
	}
	if !slices.Equal(got, []string{"s"}) || r.Parameters["stopped_at"] != "large" {
		t.Errorf("outputs %v, parameters %v", got, r.Parameters)
	}
	if z.requests("large") != 0 || z.requests("small") != 1 {
		t.Errorf("large ran %d times, small %d times", z.requests("large"), z.requests("small"))
	}
	if s := e.Statistics(); s.Steps[1].Stopped != 1 || s.Steps[2].Stopped != 1 || s.Success.Count != 1 {
		t.Errorf("%+v", s.Steps)
	}
	req := request(6)
	req.Outputs = []string{"z"}
	if r := ask(t, e, req); len(r.Outputs) != 0 {
		t.Errorf("outputs %v", r.Outputs)
	}
}

// TestAnEnsembleThatStopsInsideAnother leaves out the outputs that the inner one left out and what depends on them.
func TestAnEnsembleThatStopsInsideAnother(t *testing.T) {
	for _, fan := range []*edgewise.EnsembleFanOut{nil, {Input: []string{"x"}}} {
		z := newZoo(t)
		z.stops = map[string]bool{"inner": true}
		z.add("inner", 0, one, []string{"y:FP32[-1]", "w:FP32[-1]"}, plus(1)) // makes only y
		z.add("behind", 0, []string{"x:FP32[-1]"}, y, plus(1))
		inner := stepOf("inner", names{"x": "x"}, names{"y": "made", "w": "left"})
		in, made := []string{"x:FP32[-1]"}, "made:FP32[-1]"
		req := request(1, 2)
		if fan != nil {
			in, made = []string{"x:FP32[-1,-1]"}, "made:FP32[-1,-1]"
			req.Inputs = []edgewise.Tensor{matrix("x", 3, 2)}
		}
		inner.FanOut = fan
		behind := stepOf("behind", names{"x": "left"}, names{"y": "z"})
		behind.FanOut = fan
		out := "z:FP32[-1]"
		if fan != nil {
			out = "z:FP32[-1,-1]"
		}
		e := z.ensemble(pipeline(0, in, []string{made, out}, inner, behind))
		r := ask(t, e, req)
		if len(r.Outputs) != 1 || r.Outputs[0].Name != "made" || r.Parameters["stopped_at"] != "inner" || z.requests("behind") != 0 {
			t.Errorf("fan-out %v: outputs %v, parameters %v", fan != nil, r.Outputs, r.Parameters)
		}
		r.Release()
		req.Outputs = []string{"z"}
		if r, err := e.Infer(t.Context(), req); err != nil || len(r.Outputs) != 0 || z.held.Load() != 0 {
			t.Errorf("fan-out %v: outputs %v, %v; %d responses are held", fan != nil, r.Outputs, err, z.held.Load())
		}
	}
}
