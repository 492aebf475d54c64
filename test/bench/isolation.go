package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
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
	children, err := childrenOf(b.cmd.Process.Pid)
	if err != nil || len(children) != 1 {
		return r, fmt.Errorf("children %v: %w", children, err)
	}
	own, library, err := privateMemory(children[0])
	if err != nil {
		return r, err
	}
	detail := fmt.Sprintf("private pages, anonymous ones and those of files; %.1f MiB more of ONNX Runtime's file, "+
		"shared with other children", library)
	r.Figures = []figure{atMost("resident memory of an idle child, the runtime's file left out", own, 30, "MiB", detail)}
	return r, nil
}

// pushed starts a box and pushes one model.
func pushed(dir, name string, m *onnxgen.Model) (*box, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "model.onnx")
	if err := os.WriteFile(path, m.Bytes(), 0o644); err != nil {
		return nil, err
	}
	b, err := startBox(filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	if err := pushFile(b, name, path, ""); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

// childrenOf returns the process ids of a process's children.
func childrenOf(pid int) ([]int, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, path := range threads {
		list, _ := os.ReadFile(path) // the thread may have ended
		for _, field := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			all = append(all, child)
		}
	}
	return all, nil
}

// privateMemory returns the MiB of a process's private pages, those of ONNX Runtime's file apart.
func privateMemory(pid int) (own, library float64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }()
	into := &own
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"):
			into = &own
			if strings.Contains(lines.Text(), "libonnxruntime") {
				into = &library
			}
		case len(fields) == 3 && strings.HasPrefix(fields[0], "Private_"):
			kb, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				return 0, 0, err
			}
			*into += kb / 1024
		}
	}
	return own, library, lines.Err()
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
	children, err := childrenOf(b.cmd.Process.Pid)
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
