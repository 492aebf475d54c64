package sched

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
)

// ofShape is a job with an input x of ones in a shape, whose first dimension is the batch.
func ofShape(shape ...int64) *job {
	s := edgewise.Shape(shape)
	n, _ := s.Elements()
	return &job{
		batch:  int(shape[0]),
		inputs: []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: s, Data: make([]byte, 4*n)}},
	}
}

func TestBatchInputs(t *testing.T) {
	jobs := []*job{ofShape(1, 2, 3), ofShape(2, 1, 4), ofShape(1, 0, 5)}
	tests := []struct {
		kind  string
		shape edgewise.Shape
		want  []int32
	}{
		{batchCount, edgewise.Shape{3}, []int32{6, 8, 0}},
		{batchSums, edgewise.Shape{3}, []int32{6, 14, 14}},
		{batchSumsZero, edgewise.Shape{4}, []int32{0, 6, 14, 14}},
		{batchLargest, edgewise.Shape{8}, make([]int32, 8)},
		{batchShapes, edgewise.Shape{4, 2}, []int32{2, 3, 1, 4, 1, 4, 0, 5}},
		{batchShapesFlat, edgewise.Shape{8}, []int32{2, 3, 1, 4, 1, 4, 0, 5}},
	}
	for _, test := range tests {
		t.Run(test.kind, func(t *testing.T) {
			for _, kind := range []edgewise.DataType{edgewise.Int32, edgewise.FP32} {
				r := &ragged{
					flat: map[string]bool{"x": true},
					made: []edgewise.BatchInput{
						{Kind: test.kind, TargetName: []string{"a", "b"}, DataType: kind, SourceInput: []string{"x"}},
					},
				}
				var want []byte
				for _, n := range test.want {
					bits := uint32(n)
					if kind == edgewise.FP32 {
						bits = math.Float32bits(float32(n))
					}
					want = binary.LittleEndian.AppendUint32(want, bits)
				}
				all, err := r.inputs(
					[]edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{4, 2, 3}}}, jobs,
				)
				if err != nil || len(all) != 3 || !all[0].Shape.Equal(edgewise.Shape{14}) {
					t.Fatalf("%v, %v", all, err)
				}
				for i, name := range []string{"a", "b"} {
					got := all[i+1]
					if got.Name != name || got.Type != kind || !got.Shape.Equal(test.shape) || !slices.Equal(got.Data, want) {
						t.Errorf("got %+v, want %v %v", got, test.shape, want)
					}
				}
			}
		})
	}
	many := &job{batch: 1, inputs: []edgewise.Tensor{{Name: "x", Shape: edgewise.Shape{1, math.MaxInt32 + 1}}}}
	b := edgewise.BatchInput{Kind: batchCount, DataType: edgewise.Int32, SourceInput: []string{"x"}}
	if _, _, err := fromBatch(&b, []*job{many}); err == nil || edgewise.KindOf(err) != edgewise.TooLarge {
		t.Errorf("a count beyond INT32: %v", err)
	}
}

// gluer is an instance that returns x, which has one dimension, as y, and the ends as e.
type gluer struct {
	mu   sync.Mutex
	runs [][]int64 // the ends, of each run
	cut  bool      // y lacks its last element
}

func (g *gluer) Run(_ context.Context, in []edgewise.Tensor, want []string, _ edgewise.RunOptions) (*edgewise.Result,
	error,
) {
	x, ends := in[slices.IndexFunc(in, func(t edgewise.Tensor) bool { return t.Name == "x" })], in[len(in)-1]
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []int64
	for at := 0; at < len(ends.Data); at += 4 {
		list = append(list, int64(binary.LittleEndian.Uint32(ends.Data[at:])))
	}
	g.runs = append(g.runs, list)
	if len(x.Shape) != 1 || len(x.Data) != int(x.Shape[0]) || ends.Name != "ends" || list[len(list)-1] != x.Shape[0] {
		return nil, edgewise.Errorf(
			"gluer", edgewise.Invalid, "x is %v of %d bytes, ends are %v", x.Shape, len(x.Data), list,
		)
	}
	var outputs []edgewise.Tensor
	for _, name := range want {
		out := edgewise.Tensor{
			Name: name, Type: edgewise.Uint8, Shape: slices.Clone(x.Shape), Data: slices.Clone(x.Data),
		}
		if name == "z" { // by rows
			k := in[slices.IndexFunc(in, func(t edgewise.Tensor) bool { return t.Name == "k" })]
			out.Shape, out.Data = slices.Clone(k.Shape), slices.Clone(k.Data)
		} else if g.cut {
			out.Data = out.Data[:len(out.Data)-1]
		}
		outputs = append(outputs, out)
	}
	return &edgewise.Result{Outputs: outputs, Free: func() {}}, nil
}

func (g *gluer) Close() error { return nil }

func glueModel() *edgewise.Model {
	any1, any2 := edgewise.Shape{-1}, edgewise.Shape{-1, -1}
	return &edgewise.Model{
		Name: "glue", MaxBatchSize: 8, DynamicBatching: &edgewise.DynamicBatching{MaxQueueDelay: 1000},
		Input: []edgewise.ModelInput{
			{Name: "x", DataType: edgewise.Uint8, Dims: any2, AllowRaggedBatch: true},
			{Name: "k", DataType: edgewise.Uint8, Dims: edgewise.Shape{1}},
		},
		Output: []edgewise.ModelOutput{
			{Name: "z", DataType: edgewise.Uint8, Dims: edgewise.Shape{1}},
			{Name: "y", DataType: edgewise.Uint8, Dims: any1},
		},
		BatchInput: []edgewise.BatchInput{
			{Kind: batchSums, TargetName: []string{"ends"}, DataType: edgewise.Int32, SourceInput: []string{"x"}},
		},
		BatchOutput: []edgewise.BatchOutput{
			{Kind: batchScatterInput, TargetName: []string{"y"}, SourceInput: []string{"x"}},
		},
	}
}

// TestRaggedRequestsGetTheirOwn sends requests of any shapes at once: each gets back what it sent, in its own shape.
func TestRaggedRequestsGetTheirOwn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		shapes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) edgewise.Shape {
			size := func(name string, least int) int64 { return int64(rapid.IntRange(least, 4).Draw(t, name)) }
			return edgewise.Shape{size("batch", 1), size("rows", 1), size("columns", 1)}
		}), 1, 12).Draw(rt, "shapes")
		outputs := rapid.SampledFrom([][]string{nil, {"y"}, {"y", "z"}}).Draw(rt, "outputs")
		instances := rapid.IntRange(1, 2).Draw(rt, "instances")
		g := &gluer{}
		synctest.Test(t, func(t *testing.T) {
			s := schedulerOf(g, glueModel(), Config{Instances: instances, MaxQueue: 20})
			var clients sync.WaitGroup
			for i, shape := range shapes {
				clients.Go(func() {
					n, _ := shape.Elements()
					x, k := slices.Repeat([]byte{byte(i + 1)}, int(n)), slices.Repeat(
						[]byte{byte(i + 100)}, int(shape[0]),
					)
					r, err := s.Infer(t.Context(), &edgewise.Request{Outputs: outputs, Inputs: []edgewise.Tensor{
						{
							Name: "x", Type: edgewise.Uint8, Shape: shape, Data: x,
						}, {Name: "k", Type: edgewise.Uint8, Shape: edgewise.Shape{shape[0], 1}, Data: k},
					}})
					if err != nil {
						t.Error(err)
						return
					}
					names := outputs
					if names == nil {
						names = []string{"z", "y"}
					}
					for o, out := range r.Outputs {
						want := edgewise.Tensor{Name: "y", Shape: shape, Data: x}
						if names[o] == "z" {
							want = edgewise.Tensor{Name: "z", Shape: edgewise.Shape{shape[0], 1}, Data: k}
						}
						if out.Name != want.Name || !out.Shape.Equal(want.Shape) || !slices.Equal(out.Data, want.Data) {
							t.Errorf("request %d: got %+v, want %+v", i, out, want)
						}
					}
					r.Release()
				})
			}
			clients.Wait()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if st := s.Statistics(); len(shapes) > 8 && st.ExecutionCount >= uint64(len(shapes)) {
				t.Errorf("%d requests ran in %d batches", len(shapes), st.ExecutionCount)
			}
		})
	})
}

// TestScatterOfTooFewElements answers with less than was sent.
func TestScatterOfTooFewElements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedulerOf(&gluer{cut: true}, glueModel(), Config{Instances: 1, MaxQueue: 20})
		for _, n := range []int64{1, 5} {
			_, err := s.Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{
				{
					Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{1, n, 1}, Data: make([]byte, n),
				}, {Name: "k", Type: edgewise.Uint8, Shape: edgewise.Shape{1, 1}, Data: []byte{1}},
			}})
			want := fmt.Sprintf(
				`output "y" of shape [%d] is to be scattered as input "x", which has %d elements in the batch`, n, n,
			)
			if err == nil || !strings.Contains(err.Error(), want) || edgewise.KindOf(err) != edgewise.Internal {
				t.Errorf("got %v, want %s", err, want)
			}
			time.Sleep(time.Millisecond)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzRagged puts requests of any shapes together and takes the outputs apart again: each gets what it sent. Outputs of
// any other size are refused.
func FuzzRagged(f *testing.F) {
	f.Add([]byte{1, 2, 3, 2, 1, 4, 1, 0, 5}, []byte("abc"), false)
	f.Add([]byte{3, 1, 1}, []byte{1, 0, 0, 0, 'x', 9, 0, 0, 0}, true)
	f.Fuzz(func(t *testing.T, sizes, hostile []byte, text bool) {
		r := &ragged{flat: map[string]bool{"x": true}, scatter: map[string]string{"y": "x"}, made: []edgewise.BatchInput{
			{Kind: batchSumsZero, TargetName: []string{"ends"}, DataType: edgewise.Int32, SourceInput: []string{"x"}},
			{Kind: batchShapes, TargetName: []string{"shapes"}, DataType: edgewise.FP32, SourceInput: []string{"x"}},
		}}
		kind := edgewise.Uint8
		if text {
			kind = edgewise.Bytes
		}
		var jobs []*job
		for ; len(sizes) >= 3 && len(jobs) < 16; sizes = sizes[3:] {
			shape := edgewise.Shape{int64(sizes[0]%4) + 1, int64(sizes[1] % 5), int64(sizes[2] % 5)}
			n, _ := shape.Elements()
			var data []byte
			for i := range n {
				if element := byte(len(jobs)) + byte(i); text {
					data = edgewise.AppendElement(data, string(make([]byte, element%3))+string(rune(element)))
				} else {
					data = append(data, element)
				}
			}
			jobs = append(
				jobs,
				&job{
					batch: int(shape[0]), ragged: r,
					inputs: []edgewise.Tensor{{Name: "x", Type: kind, Shape: shape, Data: data}},
				},
			)
		}
		if len(jobs) == 0 {
			return
		}
		g := gatherer{}
		gathered, err := g.gather(jobs, elements(jobs))
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.inputs(gathered, jobs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if err := all[i].Check(); err != nil {
				t.Fatal(err)
			}
		}
		whole := edgewise.Tensor{Name: "y", Type: kind, Shape: all[0].Shape, Data: all[0].Data}
		if err := r.distribute([]edgewise.Tensor{whole}, jobs, elements(jobs)); err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if out := j.outputs[0]; !out.Shape.Equal(j.inputs[0].Shape) || string(out.Data) != string(j.inputs[0].Data) {
				t.Fatalf("sent %v, got %v", j.inputs[0], out)
			}
		}
		whole.Data = hostile
		if r.distribute([]edgewise.Tensor{whole}, jobs, elements(jobs)) == nil {
			for _, j := range jobs {
				if err := j.outputs[0].Check(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
