package sched

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
)

// wide is a model of x [N,H,W] INT16 and m [N,W] UINT8, to y like x and z like m, and its file.
func wide(parameters map[string]string) (*edgewise.Model, *edgewise.Inspection) {
	m := &edgewise.Model{
		Name: "wide", MaxBatchSize: 8, DynamicBatching: &edgewise.DynamicBatching{}, Parameters: map[string]edgewise.ModelParam{},
		Input: []edgewise.ModelInput{
			{Name: "x", DataType: edgewise.Int16, Dims: edgewise.Shape{-1, -1}},
			{Name: "m", DataType: edgewise.Uint8, Dims: edgewise.Shape{-1}},
		},
		Output: []edgewise.ModelOutput{
			{Name: "y", DataType: edgewise.Int16, Dims: edgewise.Shape{-1, -1}},
			{Name: "z", DataType: edgewise.Uint8, Dims: edgewise.Shape{-1}},
		},
	}
	for key, value := range parameters {
		m.Parameters[key] = edgewise.ModelParam{StringValue: value}
	}
	return m, &edgewise.Inspection{
		Inputs: []edgewise.TensorInfo{
			{Name: "x", Dims: []string{"n", "h", "w"}}, {Name: "m", Dims: []string{"n", "w"}},
		},
		Outputs: []edgewise.TensorInfo{
			{Name: "y", Dims: []string{"n", "h", "w"}}, {Name: "z", Dims: []string{"n", "w"}},
		},
	}
}

// twin returns its inputs, x as y and m as z, and notes the shapes of x and whether the padding is as it should be.
type twin struct {
	takes  time.Duration
	widest int64 // wider inputs fail; 0: none does
	mu     sync.Mutex
	shapes []string
	fill   [2]int // numbers of -7 in x and of 9 in m
}

func (w *twin) Run(_ context.Context, in []edgewise.Tensor, want []string, _ edgewise.RunOptions) (*edgewise.Result,
	error,
) {
	time.Sleep(w.takes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shapes = append(w.shapes, in[0].Shape.String()+in[1].Shape.String())
	if w.widest > 0 && in[1].Shape[1] > w.widest {
		return nil, errors.New("too wide")
	}
	for at := 0; at < len(in[0].Data); at += 2 {
		if int16(binary.LittleEndian.Uint16(in[0].Data[at:])) == -7 {
			w.fill[0]++
		}
	}
	for _, b := range in[1].Data {
		if b == 9 {
			w.fill[1]++
		}
	}
	var outputs []edgewise.Tensor
	for _, name := range want {
		from := in[map[string]int{"y": 0, "z": 1}[name]]
		outputs = append(
			outputs,
			edgewise.Tensor{
				Name: name, Type: from.Type, Shape: slices.Clone(from.Shape), Data: slices.Clone(from.Data),
			},
		)
	}
	return &edgewise.Result{Outputs: outputs, Free: func() {}}, nil
}

func (*twin) Close() error { return nil }

// sheet is a request of n times h times w, whose values tell where they stand.
func sheet(n, h, w int64, mark byte) *edgewise.Request {
	x, m := make([]byte, 0, 2*n*h*w), make([]byte, n*w)
	for i := range n * h * w {
		x = binary.LittleEndian.AppendUint16(x, uint16(mark)<<8|uint16(i&0x7f))
	}
	for i := range m {
		m[i] = mark
	}
	return &edgewise.Request{Inputs: []edgewise.Tensor{
		{Name: "x", Type: edgewise.Int16, Shape: edgewise.Shape{n, h, w}, Data: x},
		{Name: "m", Type: edgewise.Uint8, Shape: edgewise.Shape{n, w}, Data: m},
	}}
}

func returned(r *edgewise.Response, req *edgewise.Request) error {
	for i, name := range []string{"y", "z"} {
		out, in := r.Outputs[i], req.Inputs[i]
		if out.Name != name || !out.Shape.Equal(in.Shape) || string(out.Data) != string(in.Data) {
			return fmt.Errorf("output %s is %v %v, want %v %v", name, out.Shape, out.Data, in.Shape, in.Data)
		}
	}
	return nil
}

func paddedScheduler(t testing.TB, parameters map[string]string) (*twin, *Scheduler) {
	m, file := wide(parameters)
	p, err := NewPadding(m, file)
	if err != nil {
		t.Fatal(err)
	}
	w := &twin{takes: 10 * time.Millisecond}
	return w, schedulerOf(w, m, Config{Instances: 1, MaxQueue: 100, Padding: p})
}

func TestRulesOfPadding(t *testing.T) {
	type sizes struct{ n, h, w int64 }
	value := map[string]string{"padding_value": "-7", "padding_value.m": "9"}
	with := func(key, text string) map[string]string {
		return map[string]string{
			"padding_value": value["padding_value"], "padding_value.m": value["padding_value.m"], key: text,
		}
	}
	first := sizes{8, 1, 1} // keeps the instance loop busy while the others queue
	tests := []struct {
		name       string
		parameters map[string]string
		requests   []sizes
		shapes     string
		fill       [2]int
	}{
		{"the same size needs none", value, []sizes{
			first, {1, 2, 3}, {1, 2, 3},
		}, "[[8,1,1][8,1] [2,2,3][2,3]]", [2]int{}},
		{"up to the largest of the batch", value, []sizes{
			first, {1, 2, 3}, {2, 1, 4},
		}, "[[8,1,1][8,1] [3,2,4][3,4]]", [2]int{2 + 2*4, 1}},
		{"more than twice the size begins a batch", value, []sizes{
			first, {1, 2, 3}, {1, 2, 7},
		}, "[[8,1,1][8,1] [1,2,3][1,3] [1,2,7][1,7]]", [2]int{}},
		{"a single request too, up to the next size", with(
			"padding_sizes", "4, 8",
		), []sizes{{1, 1, 3}}, "[[1,4,4][1,4]]", [2]int{16 - 3, 1}},
		{"requests with the same next size run together", with("padding_sizes", "4,8"), []sizes{
			first, {1, 1, 4}, {1, 3, 1}, {1, 3, 5},
		}, "[[8,4,4][8,4] [2,4,4][2,4] [1,4,8][1,8]]", [2]int{8*15 + 12 + 13 + 32 - 15, 8*3 + 3 + 3}},
		{"beyond the largest size there is none", with(
			"padding_sizes", "2",
		), []sizes{{1, 3, 2}}, "[[1,3,2][1,2]]", [2]int{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := paddedScheduler(t, test.parameters)
				var clients sync.WaitGroup
				for i, z := range test.requests {
					clients.Go(func() {
						time.Sleep(time.Duration(i) * time.Millisecond)
						req := sheet(z.n, z.h, z.w, byte(i+1))
						r, err := s.Infer(t.Context(), req)
						if err == nil {
							err = returned(r, req)
						}
						if err != nil {
							t.Error(err)
						}
						r.Release()
					})
				}
				clients.Wait()
				_ = s.Close()
				if got := fmt.Sprint(w.shapes); got != test.shapes || w.fill != test.fill {
					t.Errorf("runs of %s with %v filled up, want %s with %v", got, w.fill, test.shapes, test.fill)
				}
			})
		})
	}
}

// TestATooLargeNeighbourFailsAlone runs the others of its batch again at their own size.
func TestATooLargeNeighbourFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := paddedScheduler(t, map[string]string{"padding_value": "0"})
		w.widest = 5
		var clients sync.WaitGroup
		for i, width := range []int64{1, 4, 6, 5} {
			clients.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				req := sheet(1, 1, width, byte(i+1))
				r, err := s.Infer(t.Context(), req)
				if err == nil {
					err = returned(r, req)
				}
				if (err != nil) != (width == 6) {
					t.Errorf("width %d: %v", width, err)
				}
				r.Release()
			})
		}
		clients.Wait()
		_ = s.Close()
		if got, want := fmt.Sprint(w.shapes), "[[1,1,1][1,1] [3,1,6][3,6] [1,1,4][1,4] [1,1,6][1,6] [1,1,5][1,5]]"; got != want {
			t.Errorf("runs of %s, want %s", got, want)
		}
	})
}

func TestPaddedRequestsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parameters := map[string]string{"padding_value": "0"}
		if rapid.Bool().Draw(rt, "sizes") {
			parameters["padding_sizes"] = "2,3,5"
		}
		var requests []*edgewise.Request
		for i := range rapid.IntRange(1, 12).Draw(rt, "requests") {
			size := func(name string, most int64) int64 { return rapid.Int64Range(1, most).Draw(rt, name) }
			requests = append(requests, sheet(size("n", 4), size("h", 6), size("w", 6), byte(i+1)))
		}
		synctest.Test(t, func(t *testing.T) {
			_, s := paddedScheduler(t, parameters)
			var clients sync.WaitGroup
			for _, req := range requests {
				clients.Go(func() {
					r, err := s.Infer(t.Context(), req)
					if err == nil {
						err = returned(r, req)
					}
					if err != nil {
						t.Error(err)
					}
					r.Release()
				})
			}
			clients.Wait()
			_ = s.Close()
		})
	})
}

func TestRequestsThatCannotBePadded(t *testing.T) {
	_, s := paddedScheduler(t, map[string]string{"padding_value": "0", "padding_sizes": "1048576"})
	defer func() { _ = s.Close() }()
	uneven := sheet(1, 2, 3, 1)
	uneven.Inputs[1].Shape, uneven.Inputs[1].Data = edgewise.Shape{1, 4}, make([]byte, 4)
	for _, test := range []struct {
		name    string
		request *edgewise.Request
		kind    edgewise.Kind
		want    string
	}{
		{"one name, two sizes", uneven, edgewise.Invalid, "dimension 'w' has size 4 here and 3 in another input"},
		{"nothing to pad", sheet(1, 0, 3, 1), edgewise.Invalid, "dimension 'h' has size 0"},
		{"too much", sheet(1, 1, 1, 1), edgewise.TooLarge, "takes more than 1073741824 bytes when it is padded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := s.Infer(t.Context(), test.request)
			if err == nil || edgewise.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestPaddingThatIsRefused(t *testing.T) {
	on := map[string]string{"padding_value": "0"}
	tests := []struct {
		name       string
		parameters map[string]string
		change     func(*edgewise.Model, *edgewise.Inspection)
		want       string
	}{
		{"sizes without a value", map[string]string{
			"padding_sizes": "1",
		}, nil, `it is not set, and "padding_sizes" has no effect without it`},
		{"not a number", map[string]string{"padding_value": "x"}, nil, `input "x": "x" is not a INT16 to pad with`},
		{"out of range", map[string]string{
			"padding_value": "40000",
		}, nil, `input "x": "40000" is not a INT16 to pad with`},
		{"no such input", map[string]string{
			"padding_value": "0", "padding_value.q": "1",
		}, nil, `input "q" has no dimension of variable size`},
		{"sizes that fall", map[string]string{
			"padding_value": "0", "padding_sizes": "8,4",
		}, nil, "want up to 64 sizes from 1 to 1048576, ascending"},
		{"a size beyond the bound", map[string]string{
			"padding_value": "0", "padding_sizes": "1048577",
		}, nil, "want up to 64 sizes"},
		{"too many sizes", map[string]string{
			"padding_value": "0", "padding_sizes": ascending(MaxPaddingSizes + 1),
		}, nil, "want up to 64 sizes"},
		{"no batches", on, func(
			m *edgewise.Model, _ *edgewise.Inspection,
		) {
			m.MaxBatchSize = 0
		}, "it needs a max_batch_size above 0"},
		{"fixed sizes", on, func(m *edgewise.Model, _ *edgewise.Inspection) {
			m.Input[0].Dims, m.Input[1].Dims = edgewise.Shape{2, 2}, edgewise.Shape{2}
		}, "no input has a dimension of variable size"},
		{"a dimension without a name", on, func(
			_ *edgewise.Model, f *edgewise.Inspection,
		) {
			f.Inputs[0].Dims[2] = ""
		}, `input "x": dimension 2 has no name in the model file`},
		{
			"an output of another size", on,
			func(_ *edgewise.Model, f *edgewise.Inspection) { f.Outputs[0].Dims[2] = "w/2" },
			`output "y": dimension 2, "w/2", is no dimension of an input, so it could not be cut back`,
		},
		{"strings", on, func(
			m *edgewise.Model, _ *edgewise.Inspection,
		) {
			m.Input[0].DataType = edgewise.Bytes
		}, `input "x": "0" is not a BYTES to pad with`},
		{"strings as output", on, func(
			m *edgewise.Model, _ *edgewise.Inspection,
		) {
			m.Output[1].DataType = edgewise.Bytes
		}, `output "z" of type BYTES cannot be cut back`},
		{"a reshape", on, func(m *edgewise.Model, _ *edgewise.Inspection) {
			m.Input[0].Reshape = &edgewise.Reshape{Shape: edgewise.Shape{-1, -1}}
		}, `input "x" has a reshape`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, file := wide(test.parameters)
			if test.change != nil {
				test.change(m, file)
			}
			_, err := NewPadding(m, file)
			if err == nil || edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	m, file := wide(nil)
	if p, err := NewPadding(m, file); p != nil || err != nil {
		t.Errorf("a model that asks for none has %v, %v", p, err)
	}
}

func ascending(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint(i+1))
	}
	return strings.Join(list, ",")
}

func TestPaddingValuesOfEachType(t *testing.T) {
	tests := []struct {
		kind edgewise.DataType
		text string
		want string
	}{
		{edgewise.Bool, "1", "01"},
		{edgewise.Bool, "2", ""},
		{edgewise.Int8, "-1", "ff"},
		{edgewise.Uint16, "258", "0201"},
		{edgewise.Uint8, "256", ""},
		{edgewise.Int32, "-2", "feffffff"},
		{edgewise.Int64, "1", "0100000000000000"},
		{edgewise.FP32, "-1.5", "0000c0bf"},
		{edgewise.FP64, "1", "000000000000f03f"},
		{edgewise.FP16, "0.0", "0000"},
		{edgewise.BF16, "1", ""},
		{edgewise.Bytes, "", ""},
	}
	for _, test := range tests {
		t.Run(test.kind.String()+" "+test.text, func(t *testing.T) {
			element, ok := encode(test.kind, test.text)
			if ok != (test.want != "") || ok && fmt.Sprintf("%x", element) != test.want {
				t.Errorf("got %x, %v, want %s", element, ok, test.want)
			}
		})
	}
}
