package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
func residentFigures(dir string, _ int) (r result, err error) {
	b, err := pushed(dir, "small", onnxgen.AddSub())
	if err != nil {
		return r, err
	}
	defer func() { _ = b.stop() }()
	children, err := processes.Children(b.cmd.Process.Pid)
	if err != nil || len(children) != 1 {
		return r, fmt.Errorf("children %v: %w", children, err)
	}
	own, library, err := processes.PrivateBytes(children[0])
	if err != nil {
		return r, err
	}
	detail := fmt.Sprintf("private pages, anonymous ones and those of files; %.1f MiB more of ONNX Runtime's file, "+
		"shared with other children", float64(library)/(1<<20))
	r.Figures = []figure{atMost("resident memory of an idle child, the runtime's file left out", float64(own)/(1<<20), 30, "MiB", detail)}
	return r, nil
}

// pushed starts a box and pushes one model.
func pushed(dir, name string, m *onnxgen.Model) (*box, error) {
	b, err := startBox(filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	if err := push(b, name, m.Bytes(), ""); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

// cycleFigures load and unload a big model over and over.
func cycleFigures(dir string, _ int) (r result, err error) {
	b, err := pushed(dir, "big", onnxgen.Weights(bigModel, 1))
	if err != nil {
		return r, err
	}
	defer func() { _ = b.stop() }()
	ctx := context.Background()
	cycle := func() error { return errors.Join(b.client.Unload(ctx, "big"), b.client.Load(ctx, "big")) }
	for range warmCycles {
		if err := cycle(); err != nil {
			return r, err
		}
	}
	before, err := b.resident()
	if err != nil {
		return r, err
	}
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
	if err != nil {
		return r, err
	}
	begin := time.Now()
	for range loadCycles {
		if err := cycle(); err != nil {
			return r, err
		}
	}
	took := time.Since(begin)
	after, err := b.resident()
	if err != nil {
		return r, err
	}
	later, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
	if err != nil {
		return r, err
	}
	children, err := processes.Children(b.cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	name := fmt.Sprintf("box's resident memory after %d loads and unloads of 100 MB", loadCycles)
	r.Figures = []figure{
		atMost(name+", change", after-before, 5, "MiB",
			fmt.Sprintf("%.1f MiB before, after %d cycles, and %.1f MiB after; %.0f ms a cycle", before, warmCycles, after,
				took.Seconds()*1000/loadCycles)),
		atMost(name+", descriptors left", float64(len(later)-len(descriptors)), 0, "",
			fmt.Sprintf("%d before, %d after", len(descriptors), len(later))),
		atMost(name+", processes left", float64(len(children)-1), 0, "", "beside the one that is loaded"),
	}
	return r, nil
}
