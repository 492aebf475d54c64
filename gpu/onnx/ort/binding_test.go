package ort

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

func TestBoundRunReadsAndWritesInPlace(t *testing.T) {
	s := open(t, onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Size: -1}))
	memory, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&memory[0])), 32)
	in, out := words[:16], words[16:]
	bound := func(name string, words []uint32) []Bound {
		return []Bound{{
			Name: name, Type: edgewise.FP32, Shape: edgewise.Shape{int64(len(words))},
			Address: uintptr(unsafe.Pointer(&words[0])), Size: 4 * int64(len(words)),
		}}
	}
	b, err := s.NewBinding(BindingConfig{
		Inputs: bound("x", in), Outputs: bound("y", out), Memory: HostMemory,
		RunEntries: map[string]string{"memory.enable_memory_arena_shrinkage": "cpu:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for run := range 3 {
		for i := range in {
			in[i] = math.Float32bits(float32(run*100 + i))
		}
		if err := b.Run(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(in, out) {
			t.Fatalf("run %d: %v", run, out)
		}
	}
}

func TestBindingsThatDoNotFit(t *testing.T) {
	s := open(t, onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Size: -1}))
	memory := make([]byte, 64)
	at := uintptr(unsafe.Pointer(&memory[0]))
	for name, c := range map[string]BindingConfig{
		"name": {
			Inputs: []Bound{{Name: "z", Type: edgewise.FP32, Shape: edgewise.Shape{4}, Address: at, Size: 16}},
			Memory: HostMemory,
		},
		"type": {
			Inputs: []Bound{{Name: "x", Type: edgewise.Bytes, Shape: edgewise.Shape{4}, Address: at, Size: 16}},
			Memory: HostMemory,
		},
		"size": {
			Inputs: []Bound{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{400}, Address: at, Size: 16}},
			Memory: HostMemory,
		},
		"memory": {
			Inputs: []Bound{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{4}, Address: at, Size: 16}},
			Memory: "Nowhere",
		},
	} {
		if b, err := s.NewBinding(c); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
}

func TestLibraryKnowsItsProviders(t *testing.T) {
	lib, err := Open([]string{real.Library(t)}, Process{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := lib.Providers()
	if err != nil || !slices.Contains(list, "CPUExecutionProvider") {
		t.Errorf("%v, %v", list, err)
	}
}

// TestProviderThatCannotStart asks for the provider of GPUs on a machine without its libraries.
func TestProviderThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	if err := onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Size: -1}).Save(dir); err != nil {
		t.Fatal(err)
	}
	lib, err := Open([]string{real.Library(t)}, Process{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = lib.NewSession(dir+"/model.onnx", []string{"x"}, []string{"y"},
		Options{Providers: []Provider{{Kind: CUDA, Options: map[string]string{"device_id": "0"}}}})
	if err == nil || edgewise.KindOf(err) != edgewise.Unavailable ||
		!strings.Contains(err.Error(), "the provider for CUDA does not start") {
		t.Errorf("got %v", err)
	}
}
