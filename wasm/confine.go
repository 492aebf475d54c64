package wasm

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// compilerFiles bounds the open files of a compiler.
const compilerFiles = 64

// limitProcess lowers what this process may use: memory bytes more than it has, processor time, and the size of
// files. The kernel is to end it before any other process when memory runs out.
func limitProcess(memory, seconds, output uint64) error {
	_ = edgewise.EndEarly(0, edgewise.ScoreOfChecks) // where that is refused, the limit below holds
	now, err := dataBytes()
	if err != nil {
		return err
	}
	for _, l := range []struct {
		name     string
		resource int
		value    uint64
	}{
		{"core files", unix.RLIMIT_CORE, 0},
		{"open files", unix.RLIMIT_NOFILE, compilerFiles},
		{"written files", unix.RLIMIT_FSIZE, output},
		{"processor time", unix.RLIMIT_CPU, seconds},
		{"memory", unix.RLIMIT_DATA, now + memory},
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return fmt.Errorf("limit of %s: %w", l.name, err)
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// dataBytes returns the private memory that this process has, as the kernel counts it for RLIMIT_DATA.
func dataBytes() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("\nVmData:"))
	line, _, found := bytes.Cut(rest, []byte(" kB\n"))
	if !found {
		return 0, fmt.Errorf("/proc/self/status has no VmData")
	}
	kib, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 64)
	return kib << 10, err
}
