package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/host"
)

// CheckVerb is the program's first argument when it is to open ONNX Runtime and the driver of GPUs and write what it
// found; see CheckRuntime.
const CheckVerb = "runtime-check"

const (
	// runtimeCheckTimeout bounds how long that may take: the first reading of the libraries from a slow disk.
	runtimeCheckTimeout = 30 * time.Second
	// maxRuntimeReport bounds what is read of its answer.
	maxRuntimeReport = 1 << 20
)

// checkOptions are handed to the process that looks.
type checkOptions struct {
	Library string     `json:"library"`
	GPU     gpu.Config `json:"gpu"`
}

// Report is what that process found.
type Report struct {
	Runtime string      `json:"runtime,omitempty"` // what was loaded
	Missing string      `json:"missing,omitempty"` // why nothing was
	GPU     *gpu.Report `json:"gpu"`
}

// CheckRuntime is the life of a process that opens ONNX Runtime, CUDA's driver and the libraries between them.
// options is what the box that starts it hands over. It writes what it found and returns the exit code.
func CheckRuntime(options string, out io.Writer) int {
	_ = host.EndEarly(0, host.ScoreOfChecks)
	var o checkOptions
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		_, _ = fmt.Fprintln(out, "edgewise: a process that looks for libraries, which only edgewise itself starts:", err)
		return 1
	}
	if json.NewEncoder(out).Encode(check(o)) != nil {
		return 1
	}
	return 0
}

// check looks in this process.
func check(o checkOptions) Report {
	var c Report
	lib, err := onnx.New(onnx.Config{Library: o.Library, Logger: slog.New(slog.DiscardHandler)}).Library()
	if err != nil {
		c.Missing = err.Error()
	} else {
		c.Runtime, o.GPU.Runtime = lib.String(), lib.Path
	}
	c.GPU = gpu.Find(o.GPU)
	return c
}

// Probe looks for the runtime and for GPUs in a process of its own, so that the libraries' memory, and their faults,
// stay out of this one. It takes at most 30 s. Errors: ctx's, and those of starting the process.
func Probe(ctx context.Context, c config.Config) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, runtimeCheckTimeout)
	defer cancel()
	options, err := json.Marshal(checkOptions{Library: c.ONNX.Library, GPU: gpuConfig(c)})
	if err != nil {
		return Report{}, err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", CheckVerb, string(options))
	cmd.Env = append(cmd.Environ(), gpuEnvironment(c)...)
	answer := &limited{left: maxRuntimeReport}
	cmd.Stdout = answer
	if err := cmd.Run(); err != nil {
		return Report{}, errors.Join(ctx.Err(), err)
	}
	var found Report
	return found, json.Unmarshal(answer.Bytes(), &found)
}

// limited keeps the first bytes of what is written to it.
type limited struct {
	bytes.Buffer
	left int
}

// Write keeps what there is room for and drops the rest.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	_, _ = l.Buffer.Write(p[:n])
	return len(p), nil
}

// gpuConfig is what looking for GPUs takes of the configuration.
func gpuConfig(c config.Config) gpu.Config {
	return gpu.Config{
		Off: c.GPU.Mode == config.GPUOff, Driver: c.GPU.Driver, Folders: c.GPU.Libraries,
		Budget: int64(c.GPU.MaxMemoryBytes),
	}
}

// gpuEnvironment is what the driver of GPUs reads, the same for every process, so that all of them count the GPUs
// alike.
func gpuEnvironment(c config.Config) []string {
	environment := []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_MODULE_LOADING=LAZY"}
	if len(c.GPU.Devices) > 0 {
		environment = append(environment, "CUDA_VISIBLE_DEVICES="+strings.Join(c.GPU.Devices, ","))
	}
	return environment
}
