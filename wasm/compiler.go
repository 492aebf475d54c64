package wasm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

// CompilerVerb is the program's first argument when it is to be a compiler; see RunCompiler.
const CompilerVerb = "step-compiler"

// compilerTask is what a compiler is told: a line of JSON on its standard input, which the module follows.
type compilerTask struct {
	Folder  string `json:"folder"`  // where it writes the machine code
	Pages   uint32 `json:"pages"`   // of a guest's memory, at most
	Memory  uint64 `json:"memory"`  // bytes that it may use for compiling
	Seconds uint64 `json:"seconds"` // of processor time that it may take
	Output  uint64 `json:"output"`  // bytes of the largest file that it may write
}

// compilerRefusal is what a compiler says of a module that it refuses: a document of JSON on its standard output.
type compilerRefusal struct {
	Text string `json:"text"`
}

// Exit codes of a compiler. It ends with others when it dies.
const (
	compilerDone    = 0
	compilerFailed  = 10 // the machine failed: the folder cannot be written, a limit cannot be set
	compilerRefused = 11 // the module is invalid
	compilerLarge   = 12 // compiling it takes more memory than it may
)

// RunCompiler is the life of a child process that compiles one module for the process that started it. It returns
// the exit code.
func RunCompiler() int {
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	if err != nil {
		return compilerFailed
	}
	var task compilerTask
	if err := json.Unmarshal(line, &task); err != nil {
		return compilerFailed
	}
	if err := task.restrict(); err != nil {
		return tell(err, compilerFailed)
	}
	module, err := io.ReadAll(input)
	if err != nil {
		return tell(err, compilerFailed)
	}
	runtime, err := newRuntime(context.Background(), task.Folder, task.Pages)
	if err != nil {
		return tell(err, compilerFailed)
	}
	_, err = runtime.CompileModule(experimental.WithCompilationWorkers(context.Background(), compileWorkers), module)
	var path *os.PathError
	switch {
	case err == nil:
		return compilerDone
	case errors.As(err, &path):
		return tell(err, compilerFailed)
	}
	return tell(err, compilerRefused)
}

// compileWorkers is how many functions are compiled at a time.
const compileWorkers = 2

// tell says what went wrong.
func tell(err error, code int) int {
	_ = json.NewEncoder(os.Stdout).Encode(compilerRefusal{err.Error()})
	return code
}

// restrict sets the limits of this process. The garbage collector works harder near the end of the memory. The
// kernel's limit, which ends the process in ways that cannot be told from others, is above the one that the process
// watches itself.
func (t compilerTask) restrict() error {
	debug.SetMemoryLimit(int64(t.Memory / 8 * 7))
	go watchMemory(t.Memory)
	return limitProcess(t.Memory+t.Memory/4+memorySlack, t.Seconds, t.Output)
}

// memorySlack is what the kernel allows beside, for threads and for memory that Go has mapped and not used.
const memorySlack = 64 << 20

// watchEvery is how often a compiler looks at its memory.
const watchEvery = 5 * time.Millisecond

// watchMemory ends this process when it has more than limit bytes of memory.
func watchMemory(limit uint64) {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(watchEvery) {
		metrics.Read(samples)
		if samples[0].Value.Uint64()-samples[1].Value.Uint64() > limit {
			os.Exit(compilerLarge)
		}
	}
}

// engine is a runtime with the cache that it reads machine code from.
type engine struct {
	wazero.Runtime
	cache wazero.CompilationCache
}

// newRuntime makes a runtime that reads machine code from a folder, and writes it there. A compiler and the process
// that runs its code make the same one.
func newRuntime(ctx context.Context, folder string, pages uint32) (*engine, error) {
	cache, err := wazero.NewCompilationCacheWithDir(folder)
	if err != nil {
		return nil, edgewise.Errorf("wasm.compile", edgewise.Internal, "folder of compiled steps: %w", err)
	}
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(pages + 1).WithCompilationCache(cache)
	return &engine{wazero.NewRuntimeWithConfig(ctx, config), cache}, nil
}

// close gives the code back.
func (e *engine) close() {
	_ = e.Close(context.Background())
	_ = e.cache.Close(context.Background())
}

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
