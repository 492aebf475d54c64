package tune

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// used is a machine that uses a constant power, and one that tells nothing with an error.
type used struct {
	watts float64
	began time.Time
	fail  error
}

func (u *used) Measures(edgewise.DeviceKind) error { return u.fail }

func (u *used) Read() (float64, error) { return u.watts * time.Since(u.began).Seconds(), u.fail }

func TestTheEnergyOfRequestsIsThatOfTheMachineMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{bench: &bench{Tuner: tuner(t), energy: &used{watts: 20, began: time.Now()}}, warmed: true}
		s.source.Samples, s.source.Infer = []*edgewise.Request{{}}, answering(time.Millisecond)
		p, err := s.Offer(t.Context(), 100, 5*time.Second, 1)
		want := 20 * 5 / float64(p.Requests)
		if err != nil || math.Abs(p.Energy/want-1) > 0.05 {
			t.Errorf("%+v, %v: want %.3f J per request", p, err, want)
		}
	})
}

func TestPowerIsRefusedWhereNothingTellsOfEnergy(t *testing.T) {
	u := tuner(t)
	u.config.Device = func(edgewise.ModelID) string { return "" }
	u.config.Energy = &used{fail: errors.New("the processors tell nothing of their energy")}
	for _, o := range []admin.TuneObjective{{Power: true}, {Weights: &admin.TuneWeights{Latency: 1, Power: 1}}} {
		_, err := u.Start(context.Background(), "m0", admin.TuneRequest{Objective: &o})
		var refused *edgewise.Error
		if !errors.As(err, &refused) || refused.Kind != edgewise.Unsupported || refused.Field != "objective.power" ||
			!strings.Contains(err.Error(), "the processors tell nothing") {
			t.Error(err)
		}
	}
	u.config.Energy = &used{}
	if got, err := u.Start(t.Context(), "m0", admin.TuneRequest{Objective: &admin.TuneObjective{Power: true, P99: 40}}); err != nil ||
		got.Objective.String() != "p99 below 40 ms, the lowest energy per request" {
		t.Errorf("%+v, %v", got, err)
	}
	both := admin.TuneObjective{Power: true, Weights: &admin.TuneWeights{Latency: 1}}
	if _, err := u.Start(t.Context(), "m1", admin.TuneRequest{Objective: &both}); edgewise.KindOf(err) != edgewise.Invalid {
		t.Error(err)
	}
}
