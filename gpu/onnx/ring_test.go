package onnx

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

// TestRingComputesWhatThePlainWayDoes sends batches of every size, from several sides at a time, out of memory of each
// kind.
func TestRingComputesWhatThePlainWayDoes(t *testing.T) {
	for _, integrated := range []int64{0, 1} {
		t.Run(fmt.Sprintf("integrated %d", integrated), func(t *testing.T) {
			ctx, finish := retain(t, map[fakegpu.Word]int64{fakegpu.IsIntegrated: integrated, fakegpu.Bandwidth: 64 << 20})
			a, s := accelerate(t, ctx, []int{1, 2, 4, 8}, 3)
			var clients sync.WaitGroup
			for client := range 6 {
				clients.Go(func() {
					for n := 1; n <= 8; n++ {
						in := rows(n, float32(client*10+n))
						in.Name = inputName()
						want := expected(t, s, in)
						if client%2 == 0 { // in pinned memory
							data, free, err := pinned(a, len(in.Data))
							if err != nil {
								t.Error(err)
								return
							}
							copy(data, in.Data)
							in.Data = data
							defer free()
						}
						r, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)}, edgewise.RunOptions{})
						if err != nil {
							t.Error(err)
							return
						}
						if r.Outputs[0].Shape[0] != int64(n) {
							t.Errorf("%v for %d rows", r.Outputs[0].Shape, n)
						}
						near(t, r.Outputs[0].Data, want)
						r.Free()
					}
				})
			}
			clients.Wait()
			finish(a)
		})
	}
}

// TestOutputsGoToPinnedMemoryByThemselves gives memory shared with another process, as the appliance does.
func TestOutputsGoToPinnedMemoryByThemselves(t *testing.T) {
	ctx, finish := retain(t, nil)
	a, s := accelerate(t, ctx, []int{4}, 2)
	block, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	unpin, err := a.Pin(block)
	if err != nil {
		t.Fatal(err)
	}
	in := rows(3, 1)
	in.Name = inputName()
	want := expected(t, s, in)
	n := copy(block, in.Data)
	in.Data = block[:n]
	for name, place := range map[string]func([]int64) [][]byte{
		"pinned": func(sizes []int64) [][]byte { return [][]byte{block[4096 : 4096+sizes[0]]} },
		"other":  func(sizes []int64) [][]byte { return [][]byte{make([]byte, sizes[0])} },
		"none":   func([]int64) [][]byte { return nil },
		"nil":    func([]int64) [][]byte { return [][]byte{nil} },
	} {
		r, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)},
			edgewise.RunOptions{Place: place})
		if err != nil {
			t.Fatal(err)
		}
		near(t, r.Outputs[0].Data, want)
		if name == "pinned" && &r.Outputs[0].Data[0] != &block[4096] {
			t.Error("the output is not in the memory that was given for it")
		}
		r.Free()
	}
	unpin()
	if err := unix.Munmap(block); err != nil {
		t.Fatal(err)
	}
	finish(a)
}

func TestNoRowIsAddedBeforeItIsAllowed(t *testing.T) {
	ctx, finish := retain(t, nil)
	a, s := accelerate(t, ctx, []int{1, 2, 4}, 2)
	for _, test := range []struct {
		rows   int
		allow  bool
		ringed bool
	}{{2, false, true}, {3, false, false}, {4, false, true}, {3, true, true}} {
		a.pads.Store(test.allow)
		before := control.Get(fakegpu.Copies)
		in := rows(test.rows, 1)
		in.Name = inputName()
		r, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)}, edgewise.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		near(t, r.Outputs[0].Data, expected(t, s, in))
		r.Free()
		if ringed := control.Get(fakegpu.Copies) > before; ringed != test.ringed {
			t.Errorf("%d rows, padding allowed %v: through a ring: %v", test.rows, test.allow, ringed)
		}
	}
	finish(a)
}

func TestBatchesThatDoNotFitTakeThePlainWay(t *testing.T) {
	ctx, finish := retain(t, nil)
	a, s := accelerate(t, ctx, []int{1, 2}, 2)
	before := control.Get(fakegpu.Copies)
	in := rows(5, 1)
	in.Name = inputName()
	r, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)}, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	near(t, r.Outputs[0].Data, expected(t, s, in))
	r.Free()
	if n := control.Get(fakegpu.Copies) - before; n != 0 {
		t.Errorf("%d copies by the ring", n)
	}
	if _, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{"nothing"},
		edgewise.RunOptions{}); edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("an output that there is not: %v", err)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if _, err := a.Run(stopped, []edgewise.Tensor{rows(1, 1)}, []string{outputName(s)},
		edgewise.RunOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has gone: %v", err)
	}
	finish(a)
}
