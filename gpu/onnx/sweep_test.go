package onnx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

// quiet are the functions of the driver that no error comes of: their answers are words for messages.
var quiet = map[string]bool{"cuDriverGetVersion": true, "cuGetErrorName": true, "cuGetErrorString": true}

// releases are the functions that give something back. One that fails leaves at most what it was to give back; the
// function that makes a context current stands before each of them.
var releases = map[string]bool{
	"cuDevicePrimaryCtxRelease_v2": true, "cuMemFree_v2": true, "cuMemFreeHost": true, "cuMemHostUnregister": true, "cuStreamDestroy_v2": true,
	"cuEventDestroy_v2": true, "cuModuleUnload": true, "cuCtxSetCurrent": true,
}

// functions lists the functions of the driver that the binding calls, out of its source, and the running of a kernel.
func functions(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("../cuda/cuda.c")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range regexp.MustCompile(`F\((cu\w+)\)`).FindAllStringSubmatch(string(source), -1) {
		list = append(list, m[1])
	}
	if len(list) < 35 {
		t.Fatalf("only %d functions found", len(list))
	}
	return append(list, running)
}

// running is the fault of a kernel while it runs.
const running = "kernel"

// mostPlaces bounds at how many of its calls a function is made to fail; of one that is called more often, they are
// spread evenly.
const mostPlaces = 60

// TestEveryFaultAtEveryCall makes each function of the driver fail at each of its calls in the whole life of an
// instance, for once and for good. A fault that passes fails the load or one batch and nothing else; one that stays
// fails everything after it and says so. Nothing hangs, nothing is left, and no answer is torn: a batch is right, or
// has an error and nobody writes to its memory any more.
func TestEveryFaultAtEveryCall(t *testing.T) {
	path := fakegpu.Build(t, "libcuda")
	for _, symbol := range functions(t) {
		control.Reset()
		control.Watch(symbol)
		clean := live(t, path)
		if clean.load != nil || len(clean.batches)+len(clean.rest) > 0 {
			t.Fatalf("without a fault: %+v", clean)
		}
		calls := int(control.Get(fakegpu.Matched))
		if calls == 0 && !quiet[symbol] && !unused[symbol] {
			t.Errorf("%s is never called in this life", symbol)
		}
		places := min(calls, mostPlaces)
		for i := range places {
			at := i*calls/places + 1
			for _, code := range []cuda.Result{cuda.LaunchOutOfResources, cuda.OutOfMemory} {
				if symbol != running { // a kernel that ends badly takes its device with it
					passing(t, path, symbol, at, code)
				}
			}
			staying(t, path, symbol, at)
		}
	}
	control.Reset()
}

// unused are the functions that stand outside the life of an instance, and those that are called after another has
// failed only. TestEveryCallReportsItsFault of package cuda knows them.
var unused = map[string]bool{
	"cuDeviceGetCount": true, "cuDeviceGetName": true, "cuDeviceGetUuid_v2": true, "cuDeviceTotalMem_v2": true, "cuDeviceGetPCIBusId": true,
	"cuMemHostGetDevicePointer_v2": true, "cuMemcpyHtoD_v2": true, "cuMemcpyDtoH_v2": true,
	"cuCtxSynchronize": true, "cuStreamSynchronize": true,
}

// passing lets one call fail.
func passing(t *testing.T, path, symbol string, at int, code cuda.Result) {
	t.Helper()
	control.Reset()
	control.Set(fakegpu.KernelNS, int64(200*time.Microsecond))
	control.Fail(symbol, at, int32(code), false)
	l := live(t, path)
	what := fmt.Sprintf("%s, call %d, %v", symbol, at, code)
	for _, err := range append(append([]error{l.load}, l.batches...), l.rest...) {
		var result cuda.Result
		if err != nil && (!errors.As(err, &result) || result != code || edgewise.DeviceLost(err)) {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil && code == cuda.OutOfMemory && symbol != "cuInit" && edgewise.KindOf(err) != edgewise.Exhausted {
			t.Errorf("%s: kind %v: %v", what, edgewise.KindOf(err), err)
		}
	}
	if len(l.batches) > 1 {
		t.Errorf("%s: %d batches failed of one fault: %v", what, len(l.batches), l.batches)
	}
	left := control.Left()
	if len(left) > 0 && (!releases[symbol] || len(left) > 2) { // device memory counts twice, as a piece and as its bytes
		t.Errorf("%s: left: %v", what, left)
	}
	if len(left) > 0 {
		control.Revive()
	}
}

// staying loses the device at one call.
func staying(t *testing.T, path, symbol string, at int) {
	t.Helper()
	control.Reset()
	control.Fail(symbol, at, int32(cuda.IllegalAddress), true)
	l := live(t, path)
	for _, err := range append(append([]error{l.load}, l.batches...), l.rest...) {
		if err != nil && (!edgewise.DeviceLost(err) || edgewise.KindOf(err) != edgewise.Unavailable) {
			t.Errorf("%s, lost at call %d: %v", symbol, at, err)
		}
	}
	control.Revive()
}

// lived is what went wrong in a life.
type lived struct {
	load    error
	batches []error // of runs
	rest    []error // of taking and giving back memory, and of the end
}

// longestLife is after how long a life hangs. It takes some milliseconds; a stopped machine may take minutes.
const longestLife = 3 * time.Minute

// live leads one life and fails when it does not end.
func live(t *testing.T, path string) lived {
	t.Helper()
	done := make(chan lived, 1)
	go func() { done <- life(t, path) }()
	select {
	case l := <-done:
		return l
	case <-time.After(longestLife):
		panic("a life does not end") // with every goroutine's stack
	}
}

// lifeRow is the numbers of a row, and lifeBatches the rows of the batches of a life, which come from two sides at a
// time.
const lifeRow = 16

var lifeBatches = []int{1, 2, 3, 4, 3}

// life loads an instance, pins memory, runs batches, and closes it.
func life(t *testing.T, path string) (l lived) {
	ctx, err := open(path)
	if err != nil {
		return lived{load: err}
	}
	a, err := doubling(ctx, lifeRow, []int{2, 4}, 2)
	if err != nil {
		return lived{load: err}
	}
	block, err := unix.Mmap(-1, 0, 2*len(lifeBatches)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return lived{load: err}
	}
	unpin, err := a.Pin(block)
	if err != nil { // the memory can be used all the same
		l.rest, unpin = append(l.rest, err), func() {}
	}
	var mu sync.Mutex
	var sides sync.WaitGroup
	var failed [][]byte
	for side := range 2 {
		sides.Go(func() {
			for i, rows := range lifeBatches {
				at := (side*len(lifeBatches) + i) * os.Getpagesize()
				into := block[at : at+4*lifeRow*rows]
				err := lifeRun(t, a, rows, float32(10*side+i+1), into)
				mu.Lock()
				if err != nil {
					l.batches, failed = append(l.batches, err), append(failed, into)
				}
				mu.Unlock()
			}
		})
	}
	sides.Wait()
	for _, into := range failed {
		if slices.ContainsFunc(into, func(b byte) bool { return b != 0xEE }) {
			t.Error("the memory of a batch was written to after it had failed")
		}
	}
	unpin()
	if err := a.Close(); err != nil {
		l.rest = append(l.rest, err)
	}
	if err := unix.Munmap(block); err != nil {
		t.Error(err)
	}
	return l
}

// lifeRun runs a batch whose output is wanted in into. When it fails, into becomes 0xEE.
func lifeRun(t *testing.T, a *accelerated, rows int, v float32, into []byte) error {
	in, free := numbers(a, rows, lifeRow, v)
	defer free()
	r, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{"y"}, edgewise.RunOptions{
		Place: func([]int64) [][]byte { return [][]byte{into} },
	})
	if err != nil {
		for i := range into {
			into[i] = 0xEE
		}
		return err
	}
	defer r.Free()
	doubled(t, r.Outputs[0].Data, v)
	return nil
}
