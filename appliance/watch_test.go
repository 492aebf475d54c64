package appliance

import (
	"context"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/observe"
)

// instant answers at once.
type instant struct{ resp *edgewise.Response }

func (i instant) Infer(context.Context, *edgewise.Request) (*edgewise.Response, error) {
	return i.resp, nil
}

func BenchmarkWatchedRequest(b *testing.B) {
	w := newWatch(observe.NewLatencies(observe.LatencyConfig{}))
	id := edgewise.ModelID{Name: "cat", Version: 1}
	req := &edgewise.Request{Model: id, Inputs: []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 4}, Data: make([]byte, 16)}}}
	inner := instant{&edgewise.Response{Model: id, Outputs: []edgewise.Tensor{{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{1, 4}, Data: make([]byte, 16)}}}}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := w.infer(context.Background(), req, inner); err != nil {
				b.Fatal(err)
			}
		}
	})
}
