package e2e

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

var (
	armProgram   = flag.String("e2e.arm64", "", "the program for arm64, which is run under an emulator")
	armRuntime   = flag.String("e2e.arm64-runtime", "", "ONNX Runtime for it")
	armEmulator  = flag.String("e2e.arm64-emulator", "qemu-aarch64-static", "the emulator")
	armLibraries = flag.String("e2e.arm64-libraries", "/usr/aarch64-linux-gnu/lib", "the folder of libc for arm64")
)

// cpuinfo is what Linux says of two cores for arm64. ONNX Runtime reads it, and does not stand that of another
// processor.
const cpuinfo = `processor	: 0
BogoMIPS	: 50.00
Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x1
CPU part	: 0xd0c
CPU revision	: 1

`

// emulatedRoot makes a folder that the emulator looks into before it looks at this machine.
func emulatedRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(*armLibraries, filepath.Join(root, "lib")); err != nil {
		t.Fatal(err)
	}
	both := cpuinfo + strings.Replace(cpuinfo, ": 0\n", ": 1\n", 1)
	if err := os.WriteFile(filepath.Join(root, "proc", "cpuinfo"), []byte(both), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestTheProgramForARM64Answers loads a small model on the CPU with the program for arm64 under an emulator, and asks
// it for the sums and differences of 16 pairs of numbers.
func TestTheProgramForARM64Answers(t *testing.T) {
	if *armProgram == "" {
		t.Skip("no -e2e.arm64 is given: make arm64-test makes the program for arm64 and runs it")
	}
	b := newBox(t)
	// In the box's own process: a user-mode emulator does not start the program again for a process of a model.
	b.cmd = exec.Command(*armEmulator, append([]string{*armProgram, "serve"}, append(ownArguments(t.TempDir()),
		"--set", "engine.isolation=none", "--set", "onnx.library="+*armRuntime, "--set", "gpu.driver=/nonexistent/libcuda.so.1")...)...)
	b.start([]string{"QEMU_LD_PREFIX=" + emulatedRoot(t)})
	b.awaitReady()
	b.upload("addsub", "", onnxgen.AddSub())
	var x, y [16]float32
	for i := range x {
		x[i], y[i] = float32(i)+0.5, float32(2*i)
	}
	tensor := func(name string, data any) map[string]any {
		return map[string]any{"name": name, "datatype": "FP32", "shape": []int{1, 16}, "data": data}
	}
	body, err := json.Marshal(map[string]any{"inputs": []any{tensor("a", x), tensor("b", y)}})
	if err != nil {
		t.Fatal(err)
	}
	outputs := b.infer("addsub", string(body))
	for i := range x {
		for name, want := range map[string]float32{"sum": x[i] + y[i], "diff": x[i] - y[i]} {
			if got := outputs[name]; len(got) != 16 || got[i] != want {
				t.Fatalf("%s is %v: want %v at %d of 16", name, got, want, i)
			}
		}
	}
	b.stop()
}
