package repository

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/config"
)

// TestASweepLeavesWhatIsBeingBrought loads a folder of two versions that change, while servables of earlier ones are closed: what is stored
// and not shown yet is not what an earlier load has left.
func TestASweepLeavesWhatIsBeingBrought(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	ctx, stop := context.WithCancel(t.Context())
	var closing sync.WaitGroup
	closing.Go(func() {
		for ctx.Err() == nil {
			f.Sweep(context.Background(), "m")
		}
	})
	f.write("m/config.pbtxt", "version_policy: { all {} }")
	for i := range 20 {
		text := fmt.Sprint("state ", i)
		f.write("m/1/model.onnx", text)
		f.write("m/2/model.onnx", text+" of two")
		if err := f.load("m"); err != nil {
			t.Errorf("load %d: %v", i, err)
			break
		}
		f.WantAnswer("m", text+" of two")
	}
	stop()
	closing.Wait()
	f.Sweep(t.Context(), "m")
	f.eventually("two versions", func() bool {
		r, err := f.Store.Record("m")
		return err == nil && len(r.Versions) == 2
	})
}
