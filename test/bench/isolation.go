package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	loadCycles    = 100
	warmCycles    = 20        // before them, in which the Go heap of the box gets its size
	bigModel      = 100 << 20 // bytes of weights
	crossingTime  = "4s"      // of each model's benchmark
	shippedFolder = "bin/lib"
)

// isolationFigures hold what child processes cost, and what they keep from others.
func isolationFigures(dir string, rounds int) ([]figure, error) {
	var figures []figure
	for _, part := range []func() ([]figure, error){
		crossingFigures,
		func() ([]figure, error) { return residentFigures(filepath.Join(dir, "resident")) },
		func() ([]figure, error) { return cycleFigures(filepath.Join(dir, "cycles")) },
		func() ([]figure, error) { return crashFigures(filepath.Join(dir, "crash"), rounds) },
	} {
		measured, err := part()
		if err != nil {
			return nil, err
		}
		figures = append(figures, measured...)
	}
	return figures, nil
}

// crossingFigures runs the benchmark of the crossing, which measures both sides in turn.
func crossingFigures() ([]figure, error) {
	out, err := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkCrossing$", "-benchtime", crossingTime, "./test/isolation").Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var figures []figure
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name, ok := strings.CutPrefix(line, "BenchmarkCrossing/")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, "-")
		values := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			if values[fields[i+1]], err = strconv.ParseFloat(fields[i], 64); err != nil {
				return nil, err
			}
		}
		detail := fmt.Sprintf("beside the runtime's own time: %.1f µs in process, %.1f µs in a child; whole: %.0f and %.0f µs; %s blocks of 8 runs",
			values["inside-beside-µs"], values["child-beside-µs"], values["inside-µs"], values["child-µs"], fields[1])
		figures = append(figures, atMost(name+" in a child, added p50 per batch", values["added-µs"], 40, "µs", detail))
	}
	if len(figures) != 2 {
		return nil, fmt.Errorf("the benchmark printed no figures: %s", out)
	}
	return figures, nil
}

// residentFigures measure an idle child of a small model.
func residentFigures(dir string) ([]figure, error) {
	b, err := pushed(dir, "small", onnxgen.AddSub())
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.stop() }()
	children, err := childrenOf(b.cmd.Process.Pid)
	if err != nil || len(children) != 1 {
		return nil, fmt.Errorf("children %v: %w", children, err)
	}
	own, library, err := privateMemory(children[0])
	if err != nil {
		return nil, err
	}
	detail := fmt.Sprintf("private pages, anonymous ones and those of files; %.1f MiB more of ONNX Runtime's file, shared with other children", library)
	return []figure{atMost("resident memory of an idle child, the runtime's file left out", own, 30, "MiB", detail)}, nil
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
	if err := pushFile(b, name, path); err != nil {
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
func cycleFigures(dir string) ([]figure, error) {
	b, err := pushed(dir, "big", onnxgen.Weights(bigModel, 1))
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.stop() }()
	ctx := context.Background()
	cycle := func() error { return errors.Join(b.client.Unload(ctx, "big"), b.client.Load(ctx, "big")) }
	for range warmCycles {
		if err := cycle(); err != nil {
			return nil, err
		}
	}
	before, err := b.resident()
	if err != nil {
		return nil, err
	}
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	for range loadCycles {
		if err := cycle(); err != nil {
			return nil, err
		}
	}
	took := time.Since(begin)
	after, err := b.resident()
	if err != nil {
		return nil, err
	}
	later, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	children, err := childrenOf(b.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("box's resident memory after %d loads and unloads of 100 MB", loadCycles)
	return []figure{
		atMost(name+", change", after-before, 5, "MiB", fmt.Sprintf("%.1f MiB before, after %d cycles, and %.1f MiB after; %.0f ms a cycle", before, warmCycles, after, took.Seconds()*1000/loadCycles)),
		atMost(name+", descriptors left", float64(len(later)-len(descriptors)), 0, "", fmt.Sprintf("%d before, %d after", len(descriptors), len(later))),
		atMost(name+", processes left", float64(len(children)-1), 0, "", "beside the one that is loaded"),
	}, nil
}

// startFaulty builds and starts a box whose models may be faulty.
func startFaulty(dir string) (*box, error) {
	program := filepath.Join(dir, "box")
	if out, err := exec.Command("go", "build", "-o", program, "./test/isolation/box").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	library, err := filepath.Abs(filepath.Join(shippedFolder, "libonnxruntime.so.1"))
	if err != nil {
		return nil, err
	}
	b := &box{cmd: exec.Command(program, filepath.Join(dir, "data"), library)}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), " listens on "); ok {
			b.address = strings.TrimPrefix(url, "http://")
		}
		if lines.Text() == "ready" {
			b.client, err = client.New("http://" + b.address)
			return b, err
		}
	}
	return nil, errors.New("the faulty box did not get ready")
}
