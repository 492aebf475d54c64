package wasm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise/host"
)

// compilerFiles bounds the open files of a compiler.
const compilerFiles = 64

// limitProcess lowers what this process may use: memory bytes more than it has, processor time, and the size of
// files. The kernel is to end it before any other process when memory runs out.
func limitProcess(memory, seconds, output uint64) error {
	_ = host.EndEarly(0, host.ScoreOfChecks) // where that is refused, the limit below holds
	now, ok := host.ProcessBytes("/", 0, host.Data)
	if !ok {
		return errors.New("the system does not tell how much memory the process has")
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
		{"memory", unix.RLIMIT_DATA, uint64(now) + memory},
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return fmt.Errorf("limit of %s: %w", l.name, err)
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
