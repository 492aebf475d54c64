package provider

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

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
