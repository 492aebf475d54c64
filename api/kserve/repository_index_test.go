package kserve

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestIndexEntry(t *testing.T) {
	for _, test := range []struct {
		status edgewise.Status
		want   IndexEntry
	}{
		{edgewise.Status{ID: edgewise.ModelID{Name: "m"}}, IndexEntry{Name: "m"}},
		{
			edgewise.Status{ID: edgewise.ModelID{Name: "m"}, Reason: "model appears in two or more repositories"},
			IndexEntry{Name: "m", State: "UNAVAILABLE", Reason: "model appears in two or more repositories"},
		},
		{
			edgewise.Status{ID: edgewise.ModelID{Name: "m", Version: 2}, State: edgewise.StateReady},
			IndexEntry{Name: "m", Version: "2", State: "READY"},
		},
	} {
		if got := NewIndexEntry(test.status); got != test.want {
			t.Errorf("%+v: got %+v, want %+v", test.status, got, test.want)
		}
	}
}
