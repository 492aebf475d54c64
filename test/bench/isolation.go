package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/processes"
)

const (
	loadCycles = 100
	warmCycles = 20        // before them, in which the Go heap of the box gets its size
	bigModel   = 100 << 20 // bytes of weights
)

// residentFigures measure an idle child of a small model.
func residentFigures(r *run) {
	b := r.startBox()
	r.push(b, "small", onnxgen.AddSub(), "")
	children, err := processes.Children(b.cmd.Process.Pid)
	if err != nil || len(children) != 1 {
		r.check(fmt.Errorf("children %v: %w", children, err))
	}
	own, library, err := processes.PrivateBytes(children[0])
	r.check(err)
	detail := fmt.Sprintf("private pages, anonymous ones and those of files; %.1f MiB more of ONNX Runtime's file, "+
		"shared with other children", float64(library)/(1<<20))
	r.report(atMost("resident memory of an idle child, the runtime's file left out", float64(own)/(1<<20), 30, "MiB", detail))
}

// cycleFigures load and unload a big model over and over.
func cycleFigures(r *run) {
	b := r.startBox()
	r.push(b, "big", onnxgen.Weights(bigModel, 1), "")
	ctx := context.Background()
	cycles := func(n int) {
		for range n {
			r.check(errors.Join(b.client.Unload(ctx, "big"), b.client.Load(ctx, "big")))
		}
	}
	look := func() (resident float64, descriptors int) {
		resident, err := b.resident()
		r.check(err)
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
		r.check(err)
		return resident, len(open)
	}
	cycles(warmCycles)
	before, descriptors := look()
	begin := time.Now()
	cycles(loadCycles)
	took := time.Since(begin)
	after, later := look()
	children, err := processes.Children(b.cmd.Process.Pid)
	r.check(err)
	name := fmt.Sprintf("box's resident memory after %d loads and unloads of 100 MB", loadCycles)
	r.report(
		atMost(name+", change", after-before, 5, "MiB",
			fmt.Sprintf("%.1f MiB before, after %d cycles, and %.1f MiB after; %.0f ms a cycle", before, warmCycles, after,
				took.Seconds()*1000/loadCycles)),
		atMost(name+", descriptors left", float64(later-descriptors), 0, "",
			fmt.Sprintf("%d before, %d after", descriptors, later)),
		atMost(name+", processes left", float64(len(children)-1), 0, "", "beside the one that is loaded"),
	)
}
