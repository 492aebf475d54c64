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
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/gpu/vulkan"
	"github.com/edgewise-ai/edgewise/host"
)

// CheckVerb is the program's first argument when it is to open ONNX Runtime and the driver of GPUs and write what it
// found; see CheckRuntime.
const CheckVerb = "runtime-check"

const (
	// runtimeCheckTimeout bounds how long that may take: the first reading of the libraries from a slow disk, on a machine
	// that is starting.
	runtimeCheckTimeout = time.Minute
	// maxRuntimeReport bounds what is read of its answer.
	maxRuntimeReport = 1 << 20
	// maxFirstLine bounds what is read of its error output.
	maxFirstLine = 256
	// vulkanCheckTimeout bounds how long a Vulkan driver may take to list its devices.
	vulkanCheckTimeout = 30 * time.Second
)

// checkOptions are handed to the process that looks.
type checkOptions struct {
	Library string     `json:"library"`
	GPU     gpu.Config `json:"gpu"`
	Vulkan  string     `json:"vulkan,omitempty"` // the manifest of the one driver that is asked; empty: none is
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
	var found any
	if o.Vulkan != "" {
		found = gpu.AskVulkan(o.GPU, o.Vulkan)
	} else {
		found = check(o)
	}
	if json.NewEncoder(out).Encode(found) != nil {
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
		c.Runtime, o.GPU.Runtime, o.GPU.WebGPU = lib.String(), lib.Path, lib.HasWebGPU()
	}
	c.GPU = gpu.Find(o.GPU)
	return c
}

// Probe looks for the runtime and for GPUs in processes of their own, so that the libraries' memory, and their faults,
// stay out of this one. A driver of CUDA that ends its process, or does not answer within a minute, costs nothing but its
// GPUs: the runtime is looked for again without it, for as long. Report.GPU is never nil. Errors: ctx's, and those of the
// process.
func Probe(ctx context.Context, c config.Config) (Report, error) {
	var drivers []gpu.VulkanDriver
	var asking sync.WaitGroup
	asking.Go(func() { drivers = askVulkan(ctx, c) })
	found, err := askRuntime(ctx, c, gpuConfig(c))
	if err != nil && c.GPU.Mode != config.GPUOff {
		without, failed := askRuntime(ctx, c, gpu.Config{Off: true})
		if failed == nil {
			without.GPU.Reason = fmt.Sprintf("the process that asked the driver of CUDA ended: %v", err)
		}
		found, err = without, failed
	}
	asking.Wait()
	if found.GPU == nil {
		found.GPU = &gpu.Report{Reason: "looking for GPUs told nothing"}
	}
	found.GPU.AddVulkan(gpuConfig(c), drivers)
	return found, err
}

// askRuntime looks for the runtime, and for GPUs of CUDA as g says.
func askRuntime(ctx context.Context, c config.Config, g gpu.Config) (found Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, runtimeCheckTimeout)
	defer cancel()
	err = askProcess(ctx, checkOptions{Library: c.ONNX.Library, GPU: g}, gpuEnvironment(c), &found)
	return found, err
}

// askVulkan asks every Vulkan driver for its devices, each in a process of its own: one that ends its process, or does
// not answer within 30 s, costs the others nothing. On a machine without GPUs it does nothing.
func askVulkan(ctx context.Context, c config.Config) []gpu.VulkanDriver {
	ctx, cancel := context.WithTimeout(ctx, vulkanCheckTimeout)
	defer cancel()
	manifests := gpu.VulkanDrivers(gpuConfig(c))
	drivers := make([]gpu.VulkanDriver, len(manifests))
	var asking sync.WaitGroup
	for i, manifest := range manifests {
		asking.Go(func() {
			environment := append(vulkan.Environment(manifest), "MESA_SHADER_CACHE_DISABLE=true")
			err := askProcess(ctx, checkOptions{GPU: gpuConfig(c), Vulkan: manifest}, environment, &drivers[i])
			switch {
			case ctx.Err() != nil:
				drivers[i].Problem = fmt.Sprintf("the driver did not answer within %v", vulkanCheckTimeout)
			case err != nil:
				drivers[i].Problem = fmt.Sprintf("the process that asked the driver ended: %v", err)
			}
			drivers[i].Manifest = manifest
		})
	}
	asking.Wait()
	return drivers
}

// askProcess starts a process that looks, and decodes what it found.
func askProcess(ctx context.Context, o checkOptions, environment []string, found any) error {
	options, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", CheckVerb, string(options))
	cmd.Env = append(cmd.Environ(), environment...)
	cmd.WaitDelay = time.Second // what it has started may hold its output
	answer, said := &limited{left: maxRuntimeReport}, &limited{left: maxFirstLine}
	cmd.Stdout, cmd.Stderr = answer, said
	if err := cmd.Run(); err != nil {
		first, _, _ := strings.Cut(said.String(), "\n") // of what a fault of native code ends with
		return errors.Join(ctx.Err(), fmt.Errorf("%w: %s", err, first))
	}
	return json.Unmarshal(answer.Bytes(), found)
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
		Budget: int64(c.GPU.MaxMemoryBytes), Loader: c.GPU.Vulkan, Manifests: c.GPU.VulkanDrivers, Software: c.GPU.Software,
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
