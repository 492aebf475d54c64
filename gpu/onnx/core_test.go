package onnx

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestARunKeepsItsCoreAndItsThreadIsFreeAfterwards(t *testing.T) {
	runtime.LockOSThread() // the thread ends with the test
	allowed := func() (set unix.CPUSet) {
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			t.Fatal(err)
		}
		return set
	}
	before := allowed()
	for core := range 1024 {
		if !before.IsSet(core) {
			continue
		}
		back := keep(core + 1)
		if now := allowed(); now.Count() != 1 || !now.IsSet(core) {
			t.Errorf("on core %d: %d cores are allowed", core, now.Count())
		}
		back()
		if allowed() != before {
			t.Errorf("after core %d others are allowed than before", core)
		}
	}
	for _, core := range []int{0, 1024} { // none, and one that is not there
		back := keep(core)
		if allowed() != before {
			t.Errorf("core %d moved the thread", core)
		}
		back()
	}
}
