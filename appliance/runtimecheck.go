package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
)

// CheckVerb is the program's first argument when it is to open ONNX Runtime and say what it found; see CheckRuntime.
const CheckVerb = "runtime-check"

const (
	// runtimeCheckTimeout bounds how long that may take: the first reading of the library from a slow disk.
	runtimeCheckTimeout = 30 * time.Second
	// maxRuntimeReport bounds what is read of its answer.
	maxRuntimeReport = 4096
)

// CheckRuntime is the life of a process that opens ONNX Runtime: path, or the first that is found when path is empty. It
// writes what it found, or why there is nothing, and returns the exit code.
func CheckRuntime(path string, out io.Writer) int {
	lib, err := onnx.New(onnx.Config{Library: path, Logger: slog.New(slog.DiscardHandler)}).Library()
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	_, _ = fmt.Fprintln(out, lib)
	return 0
}

// checkRuntime tells the log at start whether there is a runtime for ONNX models. A box whose models live in child
// processes asks a process of its own, so that the library's memory stays out of this one.
func (a *App) checkRuntime(ctx context.Context) {
	if a.config.Engine.Isolation == config.IsolationNone {
		if _, err := a.onnx.Library(); err != nil {
			a.logger.Error("no runtime for ONNX models", "error", err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, runtimeCheckTimeout)
	defer cancel()
	var answer bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe", CheckVerb, a.config.ONNX.Library)
	cmd.Stdout = &answer
	err := cmd.Run()
	report := strings.TrimSpace(string(answer.Next(maxRuntimeReport)))
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // the box stops
	case err != nil && report == "":
		a.logger.Error("no runtime for ONNX models", "error", err)
	case err != nil:
		a.logger.Error("no runtime for ONNX models", "error", report)
	default:
		a.logger.Info("runtime found", "runtime", report)
	}
}
