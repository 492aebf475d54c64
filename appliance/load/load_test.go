package load_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/load"
)

// model has a vector of any length as its input.
func model() *edgewise.Model {
	return &edgewise.Model{Name: "m", Input: []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{-1}}}}
}

// request is one of so many numbers.
func request(n int64) *edgewise.Request {
	return &edgewise.Request{Inputs: []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{n}, Data: make([]byte, 4*n)}}}
}

func TestAModelIsMeasuredWithRequestsThatItAnswers(t *testing.T) {
	id := edgewise.ModelID{Name: "m", Version: 3}
	refused := errors.New("refused")
	for _, test := range []struct {
		name      string
		given     []*edgewise.Request
		most      int64 // of the numbers of a request that is answered
		want      []int64
		generated bool
	}{
		{"those that were given", []*edgewise.Request{request(3), request(5), request(4)}, 4, []int64{3, 4}, false},
		{"at most 8", slices.Repeat([]*edgewise.Request{request(2)}, 9), 4, []int64{2, 2, 2, 2, 2, 2, 2, 2}, false},
		{"at most 16 MiB", []*edgewise.Request{request(3 << 20), request(1 << 20), request(1)}, 1 << 30, []int64{3 << 20, 1 << 20}, false},
		{"one that is made up", []*edgewise.Request{request(50)}, 40, []int64{32}, true},
		{"a smaller one", nil, 10, []int64{8}, true},
		{"none", []*edgewise.Request{request(50)}, 0, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			samples, generated, err := load.Choose(t.Context(), model(), id, test.given, func(_ context.Context, r *edgewise.Request) error {
				if r.Model != id || r.Inputs[0].Shape[0] > test.most {
					return refused
				}
				return nil
			})
			var got []int64
			for _, r := range samples {
				got = append(got, r.Inputs[0].Shape[0])
			}
			if !slices.Equal(got, test.want) || generated != test.generated || errors.Is(err, refused) != (test.want == nil) {
				t.Errorf("%v, generated %v, %v: want %v", got, generated, err, test.want)
			}
		})
	}
}

func TestOneThatNobodyWaitsForIsNotMeasured(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, given := range [][]*edgewise.Request{nil, {request(1)}} {
		_, _, err := load.Choose(ctx, model(), edgewise.ModelID{}, given, func(ctx context.Context, _ *edgewise.Request) error {
			cancel()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func TestRequestsInProgressAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := load.Source{Samples: []*edgewise.Request{{}}, Infer: func(ctx context.Context, _ *edgewise.Request) (*edgewise.Response, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := map[edgewise.Kind]int{}
		s.Offer(ctx, 200, 10*time.Second, 1, func(a load.Answer) { ended[edgewise.KindOf(a.Err)]++ })
		if n := ended[edgewise.Deadline]; n != 1024 || ended[edgewise.Busy] < 500 || len(ended) != 2 {
			t.Errorf("%v", ended)
		}
	})
}
