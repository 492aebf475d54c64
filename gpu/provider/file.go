package provider

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/pattern"
)

// The names of the providers' files, beside ONNX Runtime's own.
const (
	Shared   = "libonnxruntime_providers_shared.so"
	CUDA     = "libonnxruntime_providers_cuda.so"
	TensorRT = "libonnxruntime_providers_tensorrt.so"
)

// File is what a provider's library says of itself.
type File struct {
	Path   string
	Needed []string // libraries of NVIDIA that it needs, by name, in the order in which they are to be opened
	Code   Code
}

// Read reads the provider's library in the folder of ONNX Runtime. Errors: NotFound, Invalid (it is no library).
func Read(dir, name string) (*File, error) {
	path := filepath.Join(dir, name)
	f, err := elf.Open(path)
	if err != nil {
		return nil, edgewise.Errorf("provider.Read", edgewise.NotFound, "ONNX Runtime's %s is not beside it: %w", name, err)
	}
	defer f.Close()
	imported, err := f.ImportedLibraries()
	if err != nil {
		return nil, edgewise.Errorf("provider.Read", edgewise.Invalid, "%s: %w", path, err)
	}
	// NVIDIA's libraries but the driver, which is opened before everything else
	imported = slices.DeleteFunc(imported, func(name string) bool { return rank(name) < 0 })
	slices.SortStableFunc(imported, func(a, b string) int { return rank(a) - rank(b) })
	file := &File{Path: path, Needed: imported}
	file.Code, err = readCode(f)
	if err != nil {
		return nil, edgewise.Errorf("provider.Read", edgewise.Invalid, "%s: %w", path, err)
	}
	return file, nil
}

// order is that in which NVIDIA's libraries are opened: those that others need come first.
var order = []string{
	"libcudart.", "libcublasLt.", "libcublas.", "libcurand.", "libcufft.", "libnvrtc.", "libcudnn.",
	"libnvinfer.", "libnvonnxparser.",
}

func rank(name string) int {
	return slices.IndexFunc(order, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

var cudart = pattern.New(`^libcudart\.so\.(\d+)`)

// Toolkit returns the major version of CUDA that the provider was built with, 0 when it does not say.
func (f *File) Toolkit() int {
	for _, name := range f.Needed {
		if m := cudart.FindStringSubmatch(name); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
	}
	return 0
}

// Optional are the libraries that a provider opens by itself when a model needs them, for a major version of CUDA.
func Optional(toolkit int) []string {
	fft := map[int]string{11: "libcufft.so.10", 12: "libcufft.so.11", 13: "libcufft.so.12"}[toolkit]
	list := []string{"libcudnn.so.9"}
	if fft != "" {
		list = append(list, fft)
	}
	return list
}

// CuDNN is the library for convolutions and the like.
const CuDNN = "libcudnn.so.9"

// Library is one that a provider needs, and where it was found.
type Library struct {
	Name     string `json:"name"`
	Path     string `json:"path,omitempty"`
	Problem  string `json:"problem,omitempty"`  // why it is not used; empty when it is
	Optional bool   `json:"optional,omitempty"` // only some models need it
}

// Folders returns the folders in which NVIDIA's libraries are looked for, in order: those of the configuration, the
// folder "cuda" beside ONNX Runtime, then where the toolkit, the system's packages and Python's packages put them.
func Folders(configured []string, runtimeDir string) []string {
	system := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	list := append([]string{}, configured...)
	list = append(list, filepath.Join(runtimeDir, "cuda"), "/usr/local/cuda/lib64", filepath.Join("/usr/lib", system),
		filepath.Join("/usr/lib", system, "nvidia"))
	for _, pattern := range []string{
		"/usr/local/lib/python3*/*-packages/nvidia/*/lib",
		"/usr/lib/python3*/*-packages/nvidia/*/lib",
	} {
		found, _ := filepath.Glob(pattern) // the pattern is a good one
		list = append(list, found...)
	}
	return list
}

// Search finds a library in the first folder that has it. A file that others than root and the box's own user could
// have written is not taken, because it becomes part of the process.
func Search(name string, folders []string) Library {
	for _, folder := range folders {
		path := filepath.Join(folder, name)
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if problem := untrusted(path, info); problem != "" {
			return Library{Name: name, Path: path, Problem: problem}
		}
		return Library{Name: name, Path: path}
	}
	return Library{Name: name, Problem: fmt.Sprintf("%s was not found", name)}
}

func untrusted(path string, file os.FileInfo) string {
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err.Error()
	}
	for _, info := range []os.FileInfo{folder, file} {
		if info.Mode().Perm()&0o002 != 0 && (info == file || info.Mode()&os.ModeSticky == 0) {
			return fmt.Sprintf("%s is not used: everybody may change %s", path, info.Name())
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
			return fmt.Sprintf("%s is not used: %s belongs to neither root nor the box's user", path, info.Name())
		}
	}
	return ""
}
