// Command arm64 starts the program for arm64 under an emulator, loads a small model on the CPU, asks it, and looks at
// the answer. "make arm64-test" runs it.
//
//	arm64 PROGRAM RUNTIME EMULATOR LIBRARIES   e.g. ... qemu-aarch64-static /usr/aarch64-linux-gnu/lib
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/edgewise-ai/edgewise/test/gpubox"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "want: arm64 PROGRAM RUNTIME EMULATOR LIBRARIES")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "arm64:", err)
		os.Exit(1)
	}
}

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

// root makes a folder that the emulator looks into before it looks at this machine.
func root(dir, libraries string) (string, error) {
	at := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(at, "proc"), 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(libraries, filepath.Join(at, "lib")); err != nil {
		return "", err
	}
	both := cpuinfo + strings.Replace(cpuinfo, ": 0\n", ": 1\n", 1)
	return at, os.WriteFile(filepath.Join(at, "proc", "cpuinfo"), []byte(both), 0o600)
}

func run(program, library, emulator, libraries string) (err error) {
	dir, err := os.MkdirTemp("", "edgewise-arm64-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	model := filepath.Join(dir, "models", "addsub", "1")
	if err := os.MkdirAll(model, 0o755); err != nil {
		return err
	}
	if err := onnxgen.AddSub().Save(model); err != nil {
		return err
	}
	prefix, err := root(dir, libraries)
	if err != nil {
		return err
	}
	if err := os.Setenv("QEMU_LD_PREFIX", prefix); err != nil {
		return err
	}
	// In the box's own process: a user-mode emulator does not start the program again for a process of a model.
	b, err := gpubox.Start(context.Background(), gpubox.Config{
		Emulator: []string{emulator}, Program: program, Library: library, Driver: "/nonexistent/libcuda.so.1",
		Models: filepath.Join(dir, "models"), Data: filepath.Join(dir, "data"),
		Ready: []string{"addsub"}, More: []string{"engine.isolation=none"}, Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer b.Kill()
	if err := ask(b); err != nil {
		return err
	}
	fmt.Printf("the program for arm64 was ready after %v and answered rightly\n", b.Took)
	_, err = b.Stop(syscall.SIGTERM)
	return err
}

// ask sends 16 pairs of numbers and checks their sums and differences.
func ask(b *gpubox.Box) error {
	var x, y [16]float32
	for i := range x {
		x[i], y[i] = float32(i)+0.5, float32(2*i)
	}
	tensor := func(name string, data any) map[string]any {
		return map[string]any{"name": name, "datatype": "FP32", "shape": []int{1, 16}, "data": data}
	}
	body, err := json.Marshal(map[string]any{"inputs": []any{tensor("a", x), tensor("b", y)}})
	if err != nil {
		return err
	}
	text, err := b.Send("/v2/models/addsub/infer", body)
	if err != nil {
		return err
	}
	var answer struct {
		Outputs []struct {
			Name string
			Data []float32
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	if len(answer.Outputs) != 2 {
		return fmt.Errorf("%d outputs: %s", len(answer.Outputs), text)
	}
	for _, out := range answer.Outputs {
		for i, got := range out.Data {
			want := map[string]float32{"sum": x[i] + y[i], "diff": x[i] - y[i]}[out.Name]
			if got != want || len(out.Data) != 16 {
				return fmt.Errorf("element %d of %s is %v, want %v", i, out.Name, got, want)
			}
		}
	}
	return nil
}
