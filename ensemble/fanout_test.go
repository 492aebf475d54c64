package ensemble

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func matrix(name string, rows, columns int) edgewise.Tensor {
	values := make([]float32, rows*columns)
	for i := range values {
		values[i] = float32(i)
	}
	return floats(name, values, int64(rows), int64(columns))
}

// fanned is an ensemble of one step that cuts its input x.
func fanned(z *zoo, model string, f edgewise.EnsembleFanOut, in, out []string, from names) *Ensemble {
	s := stepOf(model, from, names{"y": "y"})
	f.Input = []string{"x"}
	s.FanOut = &f
	return z.ensemble(pipeline(0, in, out, s))
}

func TestFanOutAsksAboutEachRow(t *testing.T) {
	for _, test := range []struct {
		name     string
		batch    int32
		fan      edgewise.EnsembleFanOut
		rows     int
		requests int
		shape    string // of the first request's tensor
	}{
		{"a model without batches", 0, edgewise.EnsembleFanOut{}, 5, 5, "[3]"},
		{"one request for all", 8, edgewise.EnsembleFanOut{}, 5, 1, "[5,3]"},
		{"as many as the model takes", 2, edgewise.EnsembleFanOut{}, 5, 3, "[2,3]"},
		{"as many as it is told", 8, edgewise.EnsembleFanOut{RowsPerRequest: 3}, 5, 2, "[3,3]"},
		{"more rows than the window", 1, edgewise.EnsembleFanOut{}, 100, 100, "[1,3]"},
		{"one row", 8, edgewise.EnsembleFanOut{}, 1, 1, "[1,3]"},
		{"no row", 8, edgewise.EnsembleFanOut{}, 0, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			z := newZoo(t)
			z.add("m", test.batch, []string{"x:FP32[3]"}, []string{"y:FP32[3]"}, plus(0.5))
			e := fanned(z, "m", test.fan, []string{"x:FP32[-1,3]"}, []string{"y:FP32[-1,3]"}, names{"x": "x"})
			in := matrix("x", test.rows, 3)
			r := ask(t, e, &edgewise.Request{Inputs: []edgewise.Tensor{in}})
			want := values(in)
			for i := range want {
				want[i] += 0.5
			}
			if got := answerOf(t, r, "y"); !slices.Equal(got, want) || !r.Outputs[0].Shape.Equal(in.Shape) {
				t.Errorf("%v%v, want %v", got, r.Outputs[0].Shape, want)
			}
			if got := z.requests("m"); got != test.requests {
				t.Errorf("%d requests, want %d", got, test.requests)
			}
			if test.rows > 0 && test.requests < 50 &&
				!slices.ContainsFunc(z.asked["m"], func(r *edgewise.Request) bool { return r.Inputs[0].Shape.String() == test.shape }) {
				t.Errorf("no request of shape %s", test.shape)
			}
			if z.most("m") > fanOutWindow {
				t.Errorf("%d requests at a time", z.most("m"))
			}
			if s := e.Statistics().Steps[0]; s.Rows != uint64(test.rows) || s.Success.Count != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestFanOutOverSeveralLeadingDimensions(t *testing.T) {
	z := newZoo(t)
	z.add("m", 4, []string{"x:FP32[2]"}, []string{"y:FP32[2]"}, plus(1))
	e := fanned(z, "m", edgewise.EnsembleFanOut{LeadingDims: 2}, []string{"x:FP32[1,-1,2]"}, []string{"y:FP32[1,-1,2]"}, names{"x": "x"})
	in := matrix("x", 3, 2)
	in.Shape = edgewise.Shape{1, 3, 2}
	r := ask(t, e, &edgewise.Request{Inputs: []edgewise.Tensor{in}})
	if got := answerOf(t, r, "y"); !slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) || r.Outputs[0].Shape.String() != "[1,3,2]" {
		t.Errorf("%v%v", got, r.Outputs[0].Shape)
	}
}

func TestOtherInputsGoWholeToEachRow(t *testing.T) {
	for _, batch := range []int32{0, 8} {
		z := newZoo(t)
		z.add("m", batch, []string{"x:FP32[2]", "z:FP32[2]"}, []string{"y:FP32[2]"}, plus(0))
		shape := "z:FP32[2]"
		bias := floats("z", []float32{10, 20})
		if batch > 0 {
			shape = "z:FP32[1,2]"
			bias.Shape = edgewise.Shape{1, 2}
		}
		e := fanned(z, "m", edgewise.EnsembleFanOut{}, []string{"x:FP32[-1,2]", shape}, []string{"y:FP32[-1,2]"}, names{"x": "x", "z": "z"})
		r := ask(t, e, &edgewise.Request{Inputs: []edgewise.Tensor{matrix("x", 3, 2), bias}})
		if got := answerOf(t, r, "y"); !slices.Equal(got, []float32{10, 21, 12, 23, 14, 25}) || z.requests("m") != 3 {
			t.Errorf("max_batch_size %d: %v in %d requests", batch, got, z.requests("m"))
		}
	}
}

func TestRowsOfText(t *testing.T) {
	z := newZoo(t)
	z.add("m", 2, []string{"x:BYTES[1]"}, []string{"y:BYTES[1]"}, func(_ context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		out := edgewise.Tensor{Name: "y", Type: edgewise.Bytes, Shape: req.Inputs[0].Shape}
		for e := range edgewise.Elements(req.Inputs[0].Data) {
			out.Data = edgewise.AppendElement(out.Data, strings.ToUpper(string(e)))
		}
		return []edgewise.Tensor{out}, nil
	})
	e := fanned(z, "m", edgewise.EnsembleFanOut{}, []string{"x:BYTES[-1,1]"}, []string{"y:BYTES[-1,1]"}, names{"x": "x"})
	in := edgewise.Tensor{Name: "x", Type: edgewise.Bytes, Shape: edgewise.Shape{3, 1}}
	for _, word := range []string{"cat", "", "elephant"} {
		in.Data = edgewise.AppendElement(in.Data, word)
	}
	r := ask(t, e, &edgewise.Request{Inputs: []edgewise.Tensor{in}})
	var got []string
	for element := range edgewise.Elements(r.Outputs[0].Data) {
		got = append(got, string(element))
	}
	if fmt.Sprintf("%q", got) != `["CAT" "" "ELEPHANT"]` || r.Outputs[0].Check() != nil {
		t.Errorf("%q", got)
	}
	in.Data = in.Data[:len(in.Data)-1]
	if _, err := e.Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{in}}); err == nil {
		t.Error("broken frames were cut")
	}
}

func TestFanOutFailures(t *testing.T) {
	odd := func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		if v := values(req.Inputs[0])[0]; v > 0 {
			return []edgewise.Tensor{floats("y", []float32{1, 2, 3}, 1, 3)}, nil
		}
		return plus(0)(ctx, req)
	}
	failing := func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		if v := values(req.Inputs[0])[0]; v > 6 {
			return nil, edgewise.Errorf("x", edgewise.Guest, "row %v is bad", v)
		}
		return plus(0)(ctx, req)
	}
	for _, test := range []struct {
		name   string
		behave behaviour
		rows   int
		kind   edgewise.Kind
		want   string
	}{
		{
			"more rows than allowed", plus(0), 17, edgewise.TooLarge,
			"in ensemble 'E', step 0 (model 'm'): [17] is more than max_rows, which is 16",
		},
		{"a row that fails", failing, 5, edgewise.Guest, "in ensemble 'E', row 8 is bad"},
		{
			"answers of different shapes", odd, 5, edgewise.Internal,
			"in ensemble 'E', step 0 (model 'm'): output 'y' of a fan-out cannot be joined: the rows from 1 on are " +
				"FP32[1,3], the first ones have FP32[2]",
		},
		{
			"a panic", func(context.Context, *edgewise.Request) ([]edgewise.Tensor, error) { panic("broken") }, 3,
			edgewise.Internal, "in ensemble 'E', step 0 (model 'm') panicked: broken",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			z := newZoo(t)
			z.add("m", 1, []string{"x:FP32[2]"}, []string{"y:FP32[-1]"}, test.behave)
			e := fanned(z, "m", edgewise.EnsembleFanOut{MaxRows: 16}, []string{"x:FP32[-1,2]"}, []string{"y:FP32[-1,-1]"}, names{"x": "x"})
			_, err := e.Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{matrix("x", test.rows, 2)}})
			if err == nil || err.Error() != test.want || edgewise.KindOf(err) != test.kind {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestInputsOfAFanOutWithOtherNumbersOfRows(t *testing.T) {
	z := newZoo(t)
	z.add("m", 0, []string{"x:FP32[2]", "z:FP32[2]"}, []string{"y:FP32[2]"}, plus(0))
	s := stepOf("m", names{"x": "x", "z": "z"}, names{"y": "y"})
	s.FanOut = &edgewise.EnsembleFanOut{Input: []string{"x", "z"}}
	e := z.ensemble(pipeline(0, []string{"x:FP32[-1,2]", "z:FP32[-1,2]"}, []string{"y:FP32[-1,2]"}, s))
	_, err := e.Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{matrix("x", 3, 2), matrix("z", 2, 2)}})
	if err == nil || err.Error() != "in ensemble 'E', step 0 (model 'm'): inputs 'x' and 'z' have other numbers of "+
		"rows: [3] and [2]" || edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("got %v", err)
	}
	if got := answerOf(t, ask(t, e, &edgewise.Request{Inputs: []edgewise.Tensor{matrix("x", 2, 2), matrix("z", 2, 2)}}),
		"y"); !slices.Equal(got, []float32{0, 2, 4, 6}) {
		t.Errorf("%v", got)
	}
}

func TestRowsRunAtTheSameTimeWithinTheBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			inflight uint32
			want     time.Duration // of 64 rows that take a second each
		}{{0, 2 * time.Second}, {4, 16 * time.Second}, {100, 2 * time.Second}} {
			z := newZoo(t)
			z.add("m", 0, []string{"x:FP32[1]"}, []string{"y:FP32[1]"}, after(time.Second, plus(0)))
			s := stepOf("m", names{"x": "x"}, names{"y": "y"})
			s.FanOut = &edgewise.EnsembleFanOut{Input: []string{"x"}}
			m := pipeline(0, []string{"x:FP32[-1,1]"}, []string{"y:FP32[-1,1]"}, s)
			m.EnsembleScheduling.MaxInflightRequests = test.inflight
			start := time.Now()
			ask(t, z.ensemble(m), &edgewise.Request{Inputs: []edgewise.Tensor{matrix("x", 64, 1)}})
			if took := time.Since(start); took != test.want {
				t.Errorf("max_inflight_requests %d: took %v, want %v", test.inflight, took, test.want)
			}
		}
	})
}
