package registry_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/test/models"
)

// TestWideEnsemblesAreFollowedOnce has ensembles in each other of which every version runs every version of the next one: there are few
// versions, and very many ways through them.
func TestWideEnsemblesAreFollowedOnce(t *testing.T) {
	const wide = 8
	h := newFixture(t)
	for i := range wide {
		_, err := h.PushFile("level0", fmt.Sprint(i), 0, false)
		h.Must(err)
	}
	for level := 1; level < ensemble.MaxNesting; level++ {
		var config strings.Builder
		config.WriteString("platform: \"ensemble\"\ninput { name: \"in\" data_type: TYPE_STRING dims: 1 }\n")
		for i := range wide {
			fmt.Fprintf(&config, "output { name: \"out%d\" data_type: TYPE_STRING dims: 1 }\n", i)
		}
		config.WriteString("ensemble_scheduling {\n")
		for i := range wide {
			from := "out0"
			if level == 1 {
				from = "out"
			}
			fmt.Fprintf(&config, "step { model_name: \"level%d\" model_version: %d input_map { key: \"in\" value: \"in\" } "+
				"output_map { key: \"%s\" value: \"out%d\" } }\n", level-1, i+1, from, i)
		}
		config.WriteString("}\n")
		for range wide {
			_, err := h.Push(t.Context(), models.Upload(fmt.Sprint("level", level), models.File{"config.pbtxt", config.String()}), false)
			h.Must(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		found := h.Dependants(edgewise.ModelID{Name: "level0", Version: 1})
		if want := wide * (ensemble.MaxNesting - 1); len(found) != want || found[0].Name != fmt.Sprint("level",
			ensemble.MaxNesting-1) || found[want-1].Name != "level1" {
			t.Errorf("%d versions run it, want %d, those that nothing runs first: %v", len(found), want, found)
		}
		top := h.Lookup(fmt.Sprint("level", ensemble.MaxNesting-1)).Version(1)
		if !h.Runs(top, "level0") || h.Runs(top, "nobody") {
			t.Error("the first ensemble runs the model, and nobody else")
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("they are followed for too long")
	}
}
