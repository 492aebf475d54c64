// Package gpu tests what needs a GPU: on one (TestGPU), and on a machine without one over libraries that have the names
// and symbols of NVIDIA's, work in host memory, and compute nothing (tag gpustub). What ONNX Runtime's real provider for
// CUDA does around its kernels is real then: loading, reading options, taking memory, copying, waiting. These tests need
// the providers of "make runtime-gpu", which are large, and run by "make gpu-stub".
package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
)

// settings are the flags.
type settings struct {
	library string
	driver  string
	folders []string
	server  string
	out     string
	fake    bool
	each    time.Duration
	// of Vulkan devices; empty: as the box finds them
	vulkan, vulkanDriver string
}

// line is one result.
type line struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Gate   float64 `json:"gate,omitempty"` // the least that is wanted; 0: none
	Failed string  `json:"failed,omitempty"`
}

// report is what is written.
type report struct {
	Date    time.Time   `json:"date"`
	Go      string      `json:"go"`
	Fake    bool        `json:"fake"` // over libraries that stand in for NVIDIA's: the figures mean nothing
	Machine *gpu.Report `json:"machine"`
	Lines   []line      `json:"lines"`

	copied map[string]float64 // GB/s of large copies from pinned memory, "in" and "out"
	raw    map[string]float64 // rows in a second of a tight loop, by subject
}

// flags are what run.sh gives.
func flags() *settings {
	s := &settings{}
	flag.StringVar(&s.library, "library", "", "ONNX Runtime's library, its providers beside it")
	flag.StringVar(&s.driver, "driver", "", "the CUDA driver; empty: searched")
	flag.Func("folder", "a folder with NVIDIA's libraries; may be repeated", func(v string) error {
		s.folders = append(s.folders, v)
		return nil
	})
	flag.StringVar(&s.vulkan, "vulkan", "", "a Vulkan loader whose software devices are used")
	flag.StringVar(&s.vulkanDriver, "vulkan-driver", "", "the manifest of the driver for them")
	flag.StringVar(&s.server, "server", "", "the program edgewise")
	flag.StringVar(&s.out, "out", "gputest.json", "where the JSON goes")
	flag.BoolVar(&s.fake, "fake", false, "NVIDIA's libraries are stand-ins: run everything and judge no figure")
	flag.DurationVar(&s.each, "each", 3*time.Second, "time of each measurement")
	return s
}

var given = flags()

// TestGPU looks at a GPU: what is found, how fast copies are, whether a model computes there what it computes on the CPU,
// how fast it does so through ONNX Runtime alone and through the box's own path, whether a server comes back from faults,
// which device is chosen by measurement, and a Vulkan device where there is one. It prints a table and writes JSON.
// "make gpu-test" packs it with all it needs; run.sh beside it runs it.
func TestGPU(t *testing.T) {
	if given.library == "" {
		t.Skip("no -library is given: make gpu-test packs this test for a machine with a GPU")
	}
	r := &report{Date: time.Now().UTC(), Go: runtime.Version(), Fake: given.fake, copied: map[string]float64{}, raw: map[string]float64{}}
	failed := r.run(t.Context(), *given)
	content, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(given.out, append(content, '\n'), 0o600)
	}
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
}

// run does everything. Error: something failed or missed its gate, or there is no GPU.
func (r *report) run(ctx context.Context, s settings) error {
	r.Machine = gpu.Find(gpu.Config{Driver: s.driver, Folders: s.folders, Runtime: s.library})
	fmt.Printf("driver    %s\nprovider  %s, code for %s\n", r.Machine.Driver, r.Machine.Provider, r.Machine.Code)
	for _, d := range r.Machine.Devices {
		fmt.Printf("%-9s %s, compute capability %s, used: %v %s\n", d.Name, d.Description, d.Capability, d.Used, d.Reason)
	}
	if r.Machine.Reason != "" {
		return fmt.Errorf("no GPU is used: %s", r.Machine.Reason)
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"copies", func() error { return r.copies(s) }},
		{"kernel for pictures", func() error { return r.pictures(s) }},
		{"models", func() error { return r.models(ctx, s, logger) }},
		{"server", func() error { return r.served(ctx, s) }},
		{"selection", func() error { return r.selected(ctx, s) }},
	} {
		if err := step.do(); err != nil {
			r.add(line{Name: step.name, Failed: err.Error()})
		}
	}
	var errs []error
	for _, l := range r.Lines {
		if l.Failed != "" {
			errs = append(errs, fmt.Errorf("%s: %s", l.Name, l.Failed))
		}
	}
	return errors.Join(errs...)
}

// add notes a result, prints it, and judges it by its gate.
func (r *report) add(l line) {
	if math.IsNaN(l.Value) || math.IsInf(l.Value, 0) {
		l.Value, l.Failed = -1, "it could not be measured" // JSON has no such numbers
	}
	if l.Gate > 0 && l.Value < l.Gate && !r.Fake && l.Failed == "" {
		l.Failed = fmt.Sprintf("%.3g is less than %.3g", l.Value, l.Gate)
	}
	verdict := ""
	if l.Failed != "" {
		verdict = "FAILED: " + l.Failed
	}
	fmt.Printf("%-46s %12.4g %-10s %s\n", l.Name, l.Value, l.Unit, verdict)
	r.Lines = append(r.Lines, l)
}

// open returns the first device's context.
func open(s settings) (*cuda.Ctx, error) {
	driver, err := cuda.Open(cuda.Candidates(s.driver))
	if err != nil {
		return nil, err
	}
	device, err := driver.GetDevice(0)
	if err != nil {
		return nil, err
	}
	return device.Retain()
}
