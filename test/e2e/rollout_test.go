package e2e

import (
	"flag"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// rolled is how many requests a good version is rolled out under; "make soak" sends 10,000.
var rolled = flag.Int("e2e.rolled", 750, "requests under which a good version is rolled out")

// TestAGoodVersionIsRolledOutWithoutAFalseAlarm has a single client, and concurrent ones, send requests to a box that
// brings a version live which answers what the live one does but for the last bit: through canary, shadow and watch
// nothing takes it back, and no request fails.
func TestAGoodVersionIsRolledOutWithoutAFalseAlarm(t *testing.T) {
	b := serveReady(t, t.TempDir())
	for name, clients := range map[string]int{"single": 1, "concurrent": callers} {
		t.Run(name, func(t *testing.T) {
			b.upload(name, "?promote=true", biased(1))
			b.upload(name, "?promote=false", biased(math.Nextafter32(1, 2)))
			b.rollsOut(t, name, clients, int64(*rolled))
		})
	}
}

// rollsOut sends at least n requests to a model whose version 2 is as good as the live one. Of these 40 % come in each
// stage and the others in the watch, unless the dice fall otherwise.
func (b *box) rollsOut(t *testing.T, model string, clients int, n int64) {
	plan := admin.RolloutPlan{
		Version: 2, Shadow: &admin.RolloutShadow{Percent: 100},
		Stages: []admin.RolloutStage{{Percent: 10, Requests: n / 25}, {Percent: 50, Requests: n / 5}},
	}
	r, err := b.client.StartRollout(t.Context(), model, plan)
	sent := int64(0)
	for ; err == nil && r.Active() && (r.State != admin.RolloutWatching || sent < n); sent += 100 {
		b.askBiased(t, model, clients, 100)
		r, err = b.client.Rollout(t.Context(), model)
	}
	if err != nil || r.State != admin.RolloutWatching || r.Live.Errors+r.Candidate.Errors > 0 || r.Shadow.Compared == 0 ||
		r.Shadow.Disagreed > 0 {
		t.Errorf("%+v (%v)", r, err)
		return
	}
	t.Logf("%d requests: %d to the live version, %d to the candidate; %d compared, %d dropped; evidence %+v", sent,
		r.Live.Requests, r.Candidate.Requests, r.Shadow.Compared, r.Shadow.Dropped, r.Evidence)
}

// askBiased sends n requests by so many clients at once; each must be answered.
func (b *box) askBiased(t *testing.T, model string, clients int, n int64) {
	t.Helper()
	var left atomic.Int64
	left.Store(n)
	var work sync.WaitGroup
	for range clients {
		work.Go(func() {
			for left.Add(-1) >= 0 {
				res, err := http.Post(b.url+"/v2/models/"+model+"/infer", mimeJSON, strings.NewReader(zeros))
				if err != nil {
					t.Error(err)
					continue
				}
				if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
					t.Errorf("%d %s (%v)", res.StatusCode, text, err)
				}
				_ = res.Body.Close()
			}
		})
	}
	work.Wait()
}
