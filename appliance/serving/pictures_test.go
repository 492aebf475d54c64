package serving

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
)

// gallery is an instance on a GPU that notes what it is given and answers with the first byte of each row.
type gallery struct {
	mu      sync.Mutex
	runs    [][]edgewise.Tensor
	refuses bool
	closed  int
}

func (g *gallery) Run(_ context.Context, in []edgewise.Tensor, _ []string, _ edgewise.RunOptions) (*edgewise.Result,
	error,
) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuses && in[0].Type == edgewise.Uint8 {
		return nil, edgewise.Errorf("gallery", edgewise.Unsupported, "no pictures here")
	}
	g.runs = append(g.runs, slices.Clone(in)) // the scheduler uses its own again
	n := in[0].Shape[0]
	return &edgewise.Result{Outputs: []edgewise.Tensor{{
		Name: "y", Type: edgewise.Uint8, Shape: edgewise.Shape{n, 1},
		Data: make([]byte, n),
	}}, Free: func() {}}, nil
}

func (g *gallery) Close() error {
	g.closed++
	return nil
}

var netModel = &edgewise.Model{
	Name: "net", MaxBatchSize: 4, Input: []edgewise.ModelInput{{
		Name: "x", DataType: edgewise.FP32,
		Dims: edgewise.Shape{3, 1, 2},
	}},
	Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.Uint8, Dims: edgewise.Shape{1}}},
}

// twoQueues puts both queues in front of g.
func twoQueues(t *testing.T, g *gallery) (*pictured, *pictureInputs) {
	t.Helper()
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "net", Version: 1}, Model: netModel}
	as := *v
	as.Model = pictureModel(netModel, "x")
	c := sched.Config{Instances: 1, MaxQueue: 8, Logger: slog.New(slog.DiscardHandler)}
	loaded, inputs := &manager.Loaded{Servable: sched.New(v, g, c)}, newPictureInputs()
	c.Shared = true
	inputs.addTo(loaded, v.ID, "x", sched.New(&as, g, c))
	return loaded.Servable.(*pictured), inputs
}

// tensorOf makes the tensor of pictures with these widths, of one line each.
func tensorOf(widths ...int) edgewise.Tensor {
	p := &edgewise.Pictures{Width: 2, Height: 1}
	for i, w := range widths {
		p.List = append(p.List, edgewise.Picture{
			Pixels: []byte{byte(i), 1, 2, 3, 4, 5, 6, 7, 8}[:3*w], Stride: 3 * w,
			Width: w, Height: 1, Mean: [3]float32{float32(i)}, Scale: [3]float32{1, 1, 1},
		})
	}
	return edgewise.Tensor{
		Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{int64(len(widths)), 3, 1, 2},
		Data: make([]byte, 24*len(widths)), Pictures: p,
	}
}

func TestPicturesGoToTheGPUAsBytes(t *testing.T) {
	g := &gallery{}
	p, inputs := twoQueues(t, g)
	if !inputs.accepts(p.id, "x") || inputs.accepts(p.id, "y") {
		t.Error("it is not known to take pictures for x alone")
	}
	r, err := p.Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{tensorOf(3, 3)}})
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
	in := g.runs[0]
	if len(in) != 2 || in[0].Type != edgewise.Uint8 || !in[0].Shape.Equal(edgewise.Shape{2, 1, 3, 3}) ||
		in[0].Data[9] != 1 || in[1].Name != onnx.NormalInput("x") || len(in[1].Data) != 4*2*onnx.NormalSize {
		t.Errorf("the instance was given %v", in)
	}
	if mean := math.Float32frombits(binary.LittleEndian.Uint32(in[1].Data[4*onnx.NormalSize:])); mean != 1 {
		t.Errorf("the second mean is %v", mean)
	}
	if st := p.Statistics(); st.Pictures != 2 || st.InferenceCount != 2 || st.Success.Count != 1 || len(st.Batches) != 1 {
		t.Errorf("%+v", st)
	}
	if err := p.Close(); err != nil || g.closed != 1 || inputs.accepts(p.id, "x") {
		t.Errorf("closed %d times: %v", g.closed, err)
	}
}

func TestOtherRequestsGoAsTensors(t *testing.T) {
	g := &gallery{}
	p, inputs := twoQueues(t, g)
	plain := tensorOf(2)
	plain.Pictures = nil
	for _, in := range []edgewise.Tensor{plain, tensorOf(1, 2)} {
		r, err := p.Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{in}})
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
	g.refuses = true
	r, err := p.Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{tensorOf(2)}})
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
	if inputs.accepts(p.id, "x") {
		t.Error("a GPU that has refused is asked again")
	}
	for i, in := range g.runs {
		if in[0].Type != edgewise.FP32 || len(in) != 1 {
			t.Errorf("run %d: %v", i, in)
		}
	}
	// The picture is 1 pixel wide and the tensor 2: both of its pixels are that one. It was made on the CPU.
	if got := math.Float32frombits(binary.LittleEndian.Uint32(g.runs[1][0].Data[12:])); got != 1 {
		t.Errorf("the pictures were not made into the tensor: %v", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestAVersionThatWasLoadedAnewGoesOnTakingPictures(t *testing.T) {
	inputs := newPictureInputs()
	id := edgewise.ModelID{Name: "net", Version: 1}
	old, now := &pictured{id: id, input: "x"}, &pictured{id: id, input: "x"}
	inputs.add(old)
	inputs.add(now)
	if inputs.remove(old); !inputs.accepts(id, "x") {
		t.Error("the end of the old one ended the new one's")
	}
	if inputs.remove(now); inputs.accepts(id, "x") {
		t.Error("it goes on for ever")
	}
}
