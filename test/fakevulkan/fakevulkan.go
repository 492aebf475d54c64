// Package fakevulkan makes Vulkan loaders for tests: one that stands before a real loader and makes its device fail on
// demand, and one with devices that the test describes.
package fakevulkan

import (
	"embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

//go:embed native
var native embed.FS

// Fault is a way in which a device fails.
type Fault uint32

// The faults.
const (
	Lost    Fault = 1 // it answers every submission with VK_ERROR_DEVICE_LOST
	Memory  Fault = 2 // it has no memory left
	Hanging Fault = 3 // a submission does not return
	Idle    Fault = 4 // it copies and computes nothing, and so is fast: all that it computes stays 0
)

// Shim is a loader that stands before a real one.
type Shim struct {
	Path string
	page []byte
}

// NewShim compiles a loader that stands before real.
func NewShim(t testing.TB, real string) *Shim {
	t.Helper()
	dir := t.TempDir()
	s := &Shim{Path: filepath.Join(dir, "libvulkan.so.1")}
	control := filepath.Join(dir, "control")
	if err := os.WriteFile(control, make([]byte, os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s.page, err = unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(s.page) })
	compile(t, s.Path, "shim.c", fmt.Sprintf("-DREAL=%q", real), fmt.Sprintf("-DCONTROL=%q", control))
	return s
}

// Fail makes the device fail in every process that has opened it by now, from the call after skip others on. A process
// that opens it later finds it sound.
func (s *Shim) Fail(f Fault, skip int) {
	binary.NativeEndian.PutUint32(s.page[4:], uint32(f))
	binary.NativeEndian.PutUint32(s.page[8:], uint32(skip))
	atomic.AddUint32((*uint32)(unsafe.Pointer(&s.page[0])), 1)
}

// Always makes the device fail in every process that records or submits something from now on.
func (s *Shim) Always(f Fault) { atomic.StoreUint32((*uint32)(unsafe.Pointer(&s.page[12])), uint32(f)) }

// Device describes one of a fake loader.
type Device struct {
	Name    string
	Vendor  uint32
	Type    int // Vulkan's number
	API     int // minor version of Vulkan 1
	Missing int // number of the feature that it lacks; -1: none
	Memory  int // MiB
}

// Loader compiles a loader with devices, which answers listing them with result when that is not 0.
func Loader(t testing.TB, result int, devices ...Device) string {
	t.Helper()
	var table strings.Builder
	for _, d := range devices {
		fmt.Fprintf(&table, "{%q, %#x, %d, %d, %d, %d},", d.Name, d.Vendor, d.Type, d.API, d.Missing, d.Memory)
	}
	path := filepath.Join(t.TempDir(), "libvulkan.so.1")
	compile(t, path, "loader.c", "-DDEVICES="+table.String(), fmt.Sprintf("-DCOUNT=%d", len(devices)), fmt.Sprintf("-DRESULT=%d", result))
	return path
}

func compile(t testing.TB, path, source string, defines ...string) {
	t.Helper()
	content, err := native.ReadFile("native/" + source)
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{"-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname,libvulkan.so.1", "-o", path}
	cc := exec.Command("cc", append(append(arguments, defines...), "-x", "c", "-", "-ldl")...)
	cc.Stdin = strings.NewReader(string(content))
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
}
