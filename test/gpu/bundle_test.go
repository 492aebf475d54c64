//go:build gpustub

package gpu

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise/gpu/provider"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
	"github.com/edgewise-ai/edgewise/test/real"
)

var bundle = flag.String("bundle", "", "the folder that bundle.sh has made")

// swiftShader is where Debian's chromium has a software Vulkan device.
const swiftShader = "/usr/lib/chromium"

// TestTheBundleRunsOverStandIns runs the script of the bundle as on a machine with a GPU, over libraries that stand in
// for NVIDIA's, the driver among them, and over SwiftShader. What it wrote stays in a folder named like the bundle with -fake.
func TestTheBundleRunsOverStandIns(t *testing.T) {
	if *bundle == "" {
		t.Skip("no -bundle is given: make gpu-test makes one and runs it")
	}
	dir := *bundle + "-fake"
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(*bundle)); err != nil {
		t.Fatal(err)
	}
	fake := filepath.Join(dir, "fake")
	if err := os.Mkdir(fake, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := makeStubs(filepath.Join(real.Root(t), ".cache", "gpu", provider.CUDA), fake); err != nil {
		t.Fatal(err)
	}
	place(t, fakegpu.Build(t, "libcuda"), filepath.Join(fake, "libcuda.so.1"))
	for _, name := range []string{"libvulkan.so.1", "libvk_swiftshader.so", "vk_swiftshader_icd.json"} {
		place(t, filepath.Join(swiftShader, name), filepath.Join(fake, name))
	}
	t.Setenv("FAKEGPU_CONTROL", "") // of this process
	t.Setenv("GPUTEST_FAKE", "1")
	run := exec.CommandContext(t.Context(), filepath.Join(dir, "run.sh"))
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		t.Fatal(err)
	}
}
