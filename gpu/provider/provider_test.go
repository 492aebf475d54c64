package provider_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/provider"
)

// entry is code for one generation in a container.
type entry struct {
	kind       uint16
	generation uint32
	size       int
}

func container(entries ...entry) []byte {
	var body []byte
	for _, e := range entries {
		h := make([]byte, 64)
		binary.LittleEndian.PutUint16(h, e.kind)
		binary.LittleEndian.PutUint32(h[4:], 64)
		binary.LittleEndian.PutUint64(h[8:], uint64(e.size))
		binary.LittleEndian.PutUint32(h[28:], e.generation)
		body = append(append(body, h...), make([]byte, e.size)...)
	}
	h := make([]byte, 16)
	binary.LittleEndian.PutUint32(h, 0xBA55ED50)
	binary.LittleEndian.PutUint16(h[4:], 1)
	binary.LittleEndian.PutUint16(h[6:], 16)
	binary.LittleEndian.PutUint64(h[8:], uint64(len(body)))
	return append(h, body...)
}

// library compiles a library that needs others and carries containers.
func library(t *testing.T, dir, name string, needs []string, code []byte) string {
	t.Helper()
	work := t.TempDir()
	run := func(arguments ...string) {
		t.Helper()
		cmd := exec.Command("cc", arguments...)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cc %v: %v\n%s", arguments, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "code.bin"), code, 0o600); err != nil {
		t.Fatal(err)
	}
	source := "int edgewise_test_symbol;\n"
	if len(code) > 0 {
		source += "__asm__(\".section .nv_fatbin,\\\"a\\\"\\n.balign 8\\n.incbin \\\"code.bin\\\"\\n.previous\\n\");\n"
	}
	if err := os.WriteFile(filepath.Join(work, "lib.c"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{
		"-shared", "-fPIC", "-Wl,-soname," + name, "-Wl,--no-as-needed", "-o", filepath.Join(dir, name),
		"lib.c",
	}
	for _, need := range needs {
		run("-shared", "-fPIC", "-x", "c", "-Wl,-soname,"+need, "-o", need, "/dev/null")
		arguments = append(arguments, "./"+need)
	}
	run(arguments...)
	return filepath.Join(dir, name)
}

func TestProviderSaysWhatItNeedsAndBrings(t *testing.T) {
	dir := t.TempDir()
	code := append(container(entry{2, 90, 40}, entry{2, 75, 8}), make([]byte, 3<<20+24)...) // more than is looked at a time
	code = append(code, container(entry{1, 100, 16}, entry{2, 75, 8})...)
	library(t, dir, provider.CUDA, []string{"libcublas.so.13", "libcublasLt.so.13", "libcudart.so.13", "libcuda.so.1"},
		code)
	f, err := provider.Read(dir, provider.CUDA)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(f.Needed, " "); got != "libcudart.so.13 libcublasLt.so.13 libcublas.so.13" ||
		f.Toolkit() != 13 {
		t.Errorf("needs %s of CUDA %d", got, f.Toolkit())
	}
	if f.Code.String() != "7.5, 9.0, 10.0 and later" || f.Code.None() {
		t.Errorf("code for %v", f.Code)
	}
	if _, err := provider.Read(dir, provider.TensorRT); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("a provider that is not there: %v", err)
	}
}

func TestWhichGPUsRunTheCode(t *testing.T) {
	c := provider.Code{Binaries: []int{75, 80, 86, 90}}
	for _, test := range []struct {
		name         string
		major, minor int
		integrated   bool
		code         provider.Code
		want         bool
	}{
		{"the same", 8, 6, false, c, true},
		{"a later one of the generation", 8, 9, false, c, true},
		{"an earlier generation", 7, 0, false, c, false},
		{"a later generation", 10, 0, false, c, false},
		{"a Jetson without code of its own", 8, 7, true, c, false},
		{"a Jetson with code of its own", 8, 7, true, provider.Code{Binaries: []int{87}}, true},
		{"PTX for an earlier one", 10, 0, false, provider.Code{PTX: []int{90}}, true},
		{"PTX for a later one", 8, 0, false, provider.Code{PTX: []int{90}}, false},
	} {
		if got := test.code.Runs(test.major, test.minor, test.integrated); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestLibrariesAreOpenedFromTrustedFolders(t *testing.T) {
	dir, open := t.TempDir(), t.TempDir()
	library(t, dir, "libcudart.so.13", nil, nil)
	library(t, open, "libcublas.so.13", nil, nil)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	f := &provider.File{Needed: []string{"libcudart.so.13"}}
	list, err := f.OpenAll([]string{t.TempDir(), dir})
	if err != nil || list[0].Path != filepath.Join(dir, "libcudart.so.13") || !list[1].Optional || list[1].Problem == "" {
		t.Errorf("%+v, %v", list, err)
	}
	f.Needed = []string{"libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13"}
	list, err = f.OpenAll([]string{dir, open})
	if err == nil || !strings.Contains(err.Error(), "everybody may change") ||
		list[2].Problem != "libcublasLt.so.13 was not found" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAStickyLibraryIsNoMoreTrustedThanAnother(t *testing.T) {
	dir := t.TempDir()
	library(t, dir, "libcudart.so.13", nil, nil)
	if err := os.Chmod(filepath.Join(dir, "libcudart.so.13"), 0o666|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if l := provider.Search("libcudart.so.13", []string{dir}); !strings.Contains(l.Problem, "everybody may change") {
		t.Errorf("%+v", l)
	}
}

func TestFoldersAreSearchedInOrder(t *testing.T) {
	list := provider.Folders([]string{"/opt/mine"}, "/usr/lib/edgewise")
	if list[0] != "/opt/mine" || list[1] != "/usr/lib/edgewise/cuda" || list[2] != "/usr/local/cuda/lib64" {
		t.Errorf("%v", list)
	}
}

// A container whose header and content have no length would be read for ever.
func TestAContainerWithoutLengthIsRefused(t *testing.T) {
	dir := t.TempDir()
	code := container(entry{2, 90, 40})
	clear(code[6:16])
	library(t, dir, provider.CUDA, nil, code)
	if _, err := provider.Read(dir, provider.CUDA); edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("%v", err)
	}
}

// TestDamagedContainersAreRefused damages the headers of a good library and looks that reading it ends.
func TestDamagedContainersAreRefused(t *testing.T) {
	dir := t.TempDir()
	path := library(t, dir, provider.CUDA, nil, container(entry{2, 90, 40}, entry{2, 75, 8}))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	s := f.Section(".nv_fatbin")
	refused := 0
	rapid.Check(t, func(r *rapid.T) {
		bad := bytes.Clone(good)
		for range 3 {
			bad[int(s.Offset)+rapid.IntRange(0, int(s.Size)-1).Draw(r, "at")] = rapid.Byte().Draw(r, "byte")
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := provider.Read(dir, provider.CUDA); err != nil {
			refused++
		}
	})
	if refused == 0 {
		t.Error("no damage was noticed")
	}
}
