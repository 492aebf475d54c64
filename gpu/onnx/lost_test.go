package onnx

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
)

// TestLostDeviceIsSaid runs in a process of its own: the fake device is lost for its process.
func TestLostDeviceIsSaid(t *testing.T) {
	if os.Getenv("EDGEWISE_LOSE_DEVICE") == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestLostDeviceIsSaid$")
		cmd.Env = append(os.Environ(), "EDGEWISE_LOSE_DEVICE=1", "FAKEGPU_CONTROL="+t.TempDir()+"/control")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	ctx, _ := retain(t, nil)
	a, s := accelerate(t, ctx, []int{4}, 2)
	control.Fail("cuEventSynchronize", 1, int32(cuda.IllegalAddress), true)
	in := rows(2, 1)
	in.Name = inputName()
	for range 2 {
		_, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)}, edgewise.RunOptions{})
		if !edgewise.DeviceLost(err) || edgewise.KindOf(err) != edgewise.Unavailable ||
			!strings.Contains(err.Error(), "gpu:0 has stopped working") {
			t.Errorf("got %v", err)
		}
	}
}
