package observe

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestSequencesAreReported(t *testing.T) {
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "cat", Version: 2}, Model: &edgewise.Model{Name: "cat"}}
	st := edgewise.Statistics{Sequences: &edgewise.SequenceStatistics{
		Live: 1, Backlog: 2, StateBytes: 3, Expired: 4,
		Restarted: 5,
	}}
	page, _, err := New(Source{
		Samples: func() []Sample { return []Sample{{v, st}} }, Statuses: func() []edgewise.Status { return nil },
		Disk: func() (int64, int64, error) { return 0, 0, nil }, Ready: func() bool { return true },
		Cache: func() CacheUsage { return CacheUsage{} },
	}).Page()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`edgewise_sequences{model="cat",version="2"} 1`, `edgewise_sequence_backlog{model="cat",version="2"} 2`,
		`edgewise_sequence_state_bytes{model="cat",version="2"} 3`,
		`edgewise_sequences_expired_total{model="cat",version="2"} 4`,
		`edgewise_sequences_restarted_total{model="cat",version="2"} 5`,
	} {
		if !strings.Contains(string(page), "\n"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
}
