package repository

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/config"
)

// TestEnsemblesInACircleDoNotWaitForEachOther loads two ensembles that say that they run each other, at the same time.
func TestEnsemblesInACircleDoNotWaitForEachOther(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	for name, other := range map[string]string{"here": "there", "there": "here"} {
		f.write(name+"/config.pbtxt", `platform: "ensemble"
input { name: "in" data_type: TYPE_STRING dims: 1 }
output { name: "out" data_type: TYPE_STRING dims: 1 }
ensemble_scheduling { step { model_name: "`+other+`" model_version: -1 input_map { key: "in" value: "in" } `+
			`output_map { key: "out" value: "out" } } }`)
		f.write(name+"/1/keep", "")
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for range 50 {
		var loads sync.WaitGroup
		for _, name := range []string{"here", "there"} {
			loads.Go(func() {
				if err := f.sources.load(ctx, name, change{}); err == nil || ctx.Err() != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		loads.Wait()
		if ctx.Err() != nil {
			return
		}
	}
}
