package load_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
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

// known are requests that are known.
func known(goldens, recorded, warmups []*edgewise.Request) load.Known {
	return load.Known{
		Goldens:  func(string) ([]*edgewise.Request, []admin.CompareRule, error) { return goldens, nil, nil },
		Recorded: func(_ string, most int) []*edgewise.Request { return recorded[:min(most, len(recorded))] },
		Warmups:  func(*edgewise.Model, edgewise.ModelID) ([]*edgewise.Request, error) { return warmups, nil },
	}
}

func TestAModelIsMeasuredWithRequestsThatItAnswers(t *testing.T) {
	type requests = []*edgewise.Request
	id := edgewise.ModelID{Name: "m", Version: 3}
	refused := errors.New("refused")
	for _, test := range []struct {
		name   string
		known  load.Known
		most   int64 // of the numbers of a request that is answered
		want   []int64
		origin string
	}{
		{
			"goldens", known(requests{request(3), request(5), request(4)}, requests{request(2)}, nil), 4,
			[]int64{3, 4}, admin.FromGoldens,
		},
		{
			"at most 8", known(slices.Repeat(requests{request(2)}, 9), nil, nil), 4,
			[]int64{2, 2, 2, 2, 2, 2, 2, 2}, admin.FromGoldens,
		},
		{
			"at most 16 MiB", known(requests{request(3 << 20), request(1 << 20), request(1)}, nil, nil), 1 << 30,
			[]int64{3 << 20, 1 << 20}, admin.FromGoldens,
		},
		{
			"recorded ones", known(nil, requests{request(5), request(2)}, requests{request(1)}), 4,
			[]int64{2}, admin.FromRecorded,
		},
		{"one that is made up", known(requests{request(50)}, nil, nil), 40, []int64{32}, admin.FromSignature},
		{"a smaller one", known(nil, nil, requests{request(1)}), 10, []int64{8}, admin.FromSignature},
		{"those of the warm-up", known(nil, nil, requests{request(3), request(0)}), 0, []int64{0}, admin.FromWarmup},
		{"none", known(requests{request(50)}, nil, requests{request(1)}), 0, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := test.known.Choose(t.Context(), model(), id, func(_ context.Context, r *edgewise.Request) error {
				if r.Model != id || r.Inputs[0].Shape[0] > test.most {
					return refused
				}
				return nil
			})
			var got []int64
			for _, r := range s.Requests {
				got = append(got, r.Inputs[0].Shape[0])
			}
			if !slices.Equal(got, test.want) || s.Origin != test.origin || errors.Is(err, refused) != (test.want == nil) {
				t.Errorf("%v, %s, %v: want %v", got, s.Origin, err, test.want)
			}
			if err != nil && edgewise.KindOf(err) != edgewise.Unsupported {
				t.Error(err)
			}
		})
	}
}

func TestWhatCannotBeReadIsSaid(t *testing.T) {
	broken := edgewise.Errorf("test", edgewise.Corrupt, "a broken disk")
	goldens, warmups := known(nil, nil, nil), known(nil, nil, nil)
	goldens.Goldens = func(string) ([]*edgewise.Request, []admin.CompareRule, error) { return nil, nil, broken }
	warmups.Warmups = func(*edgewise.Model, edgewise.ModelID) ([]*edgewise.Request, error) { return nil, broken }
	for _, k := range []load.Known{goldens, warmups} {
		_, err := k.Choose(t.Context(), model(), edgewise.ModelID{}, func(context.Context, *edgewise.Request) error {
			return errors.New("refused")
		})
		if edgewise.KindOf(err) != edgewise.Corrupt {
			t.Error(err)
		}
	}
}

func TestOneThatNobodyWaitsForIsNotMeasured(t *testing.T) {
	for _, given := range [][]*edgewise.Request{nil, {request(1)}} {
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		ask := func(ctx context.Context, _ *edgewise.Request) error {
			asked++
			cancel()
			return ctx.Err()
		}
		_, err := known(given, nil, given).Choose(ctx, model(), edgewise.ModelID{}, ask)
		if !errors.Is(err, context.Canceled) || asked != 1 {
			t.Error(asked, err)
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
