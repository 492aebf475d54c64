package registry_test

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/registry"
)

func TestAFootprintIsKeptForVersionsThatExist(t *testing.T) {
	h := newFixture(t)
	v, err := h.PushFile("m", "good", 0, true)
	h.Must(err)
	footprints := registry.NewFootprints(h.Documents)
	h.KeepFootprint(v.ID, 4096)
	if got := footprints.Get(v.ID); got != "4096" {
		t.Errorf("%q is kept", got)
	}
	h.KeepFootprint(edgewise.ModelID{Name: "m", Version: 77}, 4096)
	if list, err := footprints.Versions("m"); err != nil || len(list) != 1 {
		t.Errorf("kept for %v, %v", list, err)
	}
	h.Must(h.Documents.Update(func(tx edgewise.DocumentsTx) error { return registry.RenameNotes(tx, "m", "n") }))
	renamed := edgewise.ModelID{Name: "n", Version: v.ID.Version}
	if footprints.Get(v.ID) != "" || footprints.Get(renamed) != "4096" {
		t.Errorf("after a rename: %q and %q", footprints.Get(v.ID), footprints.Get(renamed))
	}
	for text, good := range map[string]bool{"4096": true, "0": false, "-1": false, "much": false, "": false} {
		if err := registry.CheckFootprint([]byte(text)); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
