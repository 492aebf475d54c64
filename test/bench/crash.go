package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/isolation/faulty"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	crashClients = 16
	crashWindow  = 3 * time.Second
	crashLoad    = 0.2 // of what the box can answer
)

// crashFigures compare the tail of two models' latency with and without a third one that crashes in a run and a fourth
// one that crashes in its load, once each in a window. Requests are sent at fixed times, and their latency counts from
// the time at which they were to be sent.
func crashFigures(dir string, rounds int) ([]figure, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "model.onnx")
	if err := os.WriteFile(path, onnxgen.MLP(1).Bytes(), 0o644); err != nil {
		return nil, err
	}
	b, err := startFaulty(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.stop() }()
	for _, name := range []string{"good0", "good1", faulty.InRun} {
		if err := pushFile(b, name, path); err != nil {
			return nil, err
		}
	}
	n, err := neighboursOf(b)
	if err != nil {
		return nil, err
	}
	var quiet, crashing []float64
	failed := 0
	for range rounds {
		alone, err := n.window()
		if err != nil {
			return nil, err
		}
		done := make(chan error, 1)
		go func() { done <- crashBoth(b, path) }()
		beside, err := n.window()
		if err := errors.Join(err, <-done); err != nil {
			return nil, err
		}
		quiet, crashing, failed = append(quiet, alone.p99), append(crashing, beside.p99), failed+alone.failed+beside.failed
	}
	change := 100 * (median(crashing)/median(quiet) - 1)
	detail := fmt.Sprintf("%.2f ms without, %.2f ms with; %d windows of %v each, %.0f requests/s", median(quiet), median(crashing), rounds, crashWindow, n.rate)
	return []figure{
		atMost("failed requests to other models while two crash", float64(failed), 0, "", fmt.Sprintf("%d clients, %d crashes in runs and %d in loads", crashClients, rounds, rounds)),
		atMost("p99 of other models while two crash, change", change, 10, "%", detail),
	}, nil
}

// crashBoth lets one model crash in a run and another one in its load.
func crashBoth(b *box, path string) error {
	ctx := context.Background()
	in := edgewise.Tensor{Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{1, 64}, Data: make([]byte, 256)}
	in.Data[0] = faulty.Poison
	_, err := b.client.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: faulty.InRun}, Inputs: []edgewise.Tensor{in}})
	if err == nil || !strings.Contains(err.Error(), "segmentation fault") {
		return fmt.Errorf("the run did not crash: %w", err)
	}
	if err := pushFile(b, faulty.InLoad, path); err == nil || !strings.Contains(err.Error(), "segmentation fault") {
		return fmt.Errorf("the load did not crash: %w", err)
	}
	time.Sleep(crashWindow / 2)
	// Loaded anew, so that it is not quarantined.
	return errors.Join(b.client.Unload(ctx, faulty.InRun), b.client.Load(ctx, faulty.InRun))
}

// neighbours are the clients of the models that do not crash.
type neighbours struct {
	box     *box
	headers string
	body    []byte
	rate    float64 // requests a second, all clients together
}

// neighboursOf measures what the box can answer, and so how much is to be asked.
func neighboursOf(b *box) (*neighbours, error) {
	in := edgewise.Tensor{Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{1, 64}, Data: make([]byte, 256)}
	body, size, err := kserve.AppendInferRequest(nil, &edgewise.Request{Inputs: []edgewise.Tensor{in}}, kserve.Binary, kserve.Binary)
	if err != nil {
		return nil, err
	}
	n := &neighbours{box: b, body: body, headers: fmt.Sprintf("Content-Type: application/octet-stream\r\n%s: %d\r\n", kserve.HeaderLength, size)}
	most, err := rate(crashClients, 2*time.Second, func(c int) (func() error, error) {
		caller, err := n.caller(c)
		if err != nil {
			return nil, err
		}
		return caller.call, nil
	})
	n.rate = crashLoad * most
	return n, err
}

func (n *neighbours) caller(client int) (*caller, error) {
	return newCaller(n.box.address, fmt.Sprintf("/v2/models/good%d/infer", client%2), n.headers, n.body)
}

// measured is one window.
type measured struct {
	p99    float64 // milliseconds
	failed int
}

// window sends requests at fixed times.
func (n *neighbours) window() (measured, error) {
	each := time.Duration(float64(time.Second) * crashClients / n.rate)
	latencies, failures := make([][]time.Duration, crashClients), make([]int, crashClients)
	errs := make([]error, crashClients)
	var clients sync.WaitGroup
	begin := time.Now().Add(50 * time.Millisecond)
	for c := range crashClients {
		clients.Go(func() {
			caller, err := n.caller(c)
			if err != nil {
				errs[c] = err
				return
			}
			defer runtime.UnlockOSThread()
			defer func() { _ = caller.conn.Close() }()
			start := begin.Add(each * time.Duration(c) / crashClients)
			for due := start; due.Before(begin.Add(crashWindow)); due = due.Add(each) {
				time.Sleep(time.Until(due))
				if caller.call() != nil {
					failures[c]++
				}
				latencies[c] = append(latencies[c], time.Since(due))
			}
		})
	}
	clients.Wait()
	all := slices.Concat(latencies...)
	if err := errors.Join(errs...); err != nil || len(all) == 0 {
		return measured{}, fmt.Errorf("no requests were sent: %w", err)
	}
	slices.Sort(all)
	m := measured{p99: all[len(all)*99/100].Seconds() * 1000}
	for _, f := range failures {
		m.failed += f
	}
	return m, nil
}
