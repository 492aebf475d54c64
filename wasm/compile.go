package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/edgewise-ai/edgewise"
)

// This process never compiles a module: a child does, under limits of memory and time, and this process reads the
// machine code that its own child has written (decision 0056).

// build makes a program of the module at path. Errors: Invalid, TooLarge (the module), Internal (the disk),
// Canceled, Deadline.
func (b *Backend) build(ctx context.Context, s source) (*program, error) {
	p, err := b.ready(ctx, s)
	if err != nil || p.runtime != nil {
		return p, err
	}
	select {
	case b.compiling <- struct{}{}:
		defer func() { <-b.compiling }()
	default:
		p = nil // many may wait, and a module takes memory
		if err := acquire(ctx, b.compiling, "waiting to compile a step"); err != nil {
			return nil, err
		}
		defer func() { <-b.compiling }()
		if p, err = b.ready(ctx, s); err != nil || p.runtime != nil {
			return p, err
		}
	}
	folder, cleanup, err := b.compile(ctx, p)
	if err != nil {
		return nil, err
	}
	defer cleanup()
	return p, b.read(ctx, p, folder)
}

func acquire(ctx context.Context, tokens chan struct{}, what string) error {
	select {
	case tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return edgewise.Errorf("wasm.compile", edgewise.KindOf(ctx.Err()), "%s: %w", what, ctx.Err())
	}
}

// ready prepares a module and reads its machine code where it is kept: the program's runtime is nil when it is not.
// Error: what a compiler said of it earlier, unless s wants it to be tried again.
func (b *Backend) ready(ctx context.Context, s source) (*program, error) {
	if err := acquire(ctx, b.reading, "waiting to read a step"); err != nil {
		return nil, err
	}
	defer func() { <-b.reading }()
	p, err := b.prepare(s)
	if err != nil {
		return nil, err
	}
	entry, refused := b.cache.find(p.key())
	switch {
	case entry == "":
		return p, nil
	case refused == nil:
		return p, b.readKept(ctx, p, entry)
	case s.again:
		return p, nil
	}
	return nil, refused
}

// readKept reads machine code from the cache. What cannot be read is as good as missing.
func (b *Backend) readKept(ctx context.Context, p *program, entry string) error {
	if err := p.read(ctx, entry); err != nil {
		if ctx.Err() != nil {
			return edgewise.Errorf("wasm.compile", edgewise.KindOf(ctx.Err()), "reading a step: %w", ctx.Err())
		}
		b.config.Logger.Debug("a compiled step is not used", "folder", entry, "error", err)
	}
	return nil
}

// read is readKept of what has just been compiled.
func (b *Backend) read(ctx context.Context, p *program, folder string) error {
	if err := acquire(ctx, b.reading, "waiting to read a step"); err != nil {
		return err
	}
	defer func() { <-b.reading }()
	return p.read(ctx, folder)
}

// errNotCompiled ends a compilation that must not happen in this process.
var errNotCompiled = errors.New("its machine code is not there")

// read reads the machine code of p from a folder. The context has ended before: the runtime looks at it before it
// compiles, not before it reads.
func (p *program) read(ctx context.Context, folder string) error {
	e, err := newRuntime(ctx, folder, p.module.MaxPages)
	if err != nil {
		return err
	}
	p.runtime = e
	if err = p.hosts(ctx); err == nil {
		ended, end := context.WithCancelCause(experimental.WithCompilationWorkers(ctx, compileWorkers))
		end(errNotCompiled)
		p.compiled, err = e.CompileModule(ended, p.module.Binary)
	}
	if err != nil {
		p.close()
		return edgewise.Errorf("wasm.compile", edgewise.Internal, "%w", err)
	}
	return nil
}

// compile has a child compile the module of p, and returns the folder of the machine code, which is there until
// cleanup: in the cache, or in a folder for temporary files when the cache cannot be used.
func (b *Backend) compile(ctx context.Context, p *program) (folder string, cleanup func(), err error) {
	folder, kept, err := b.cache.stage()
	if err != nil {
		return "", nil, edgewise.Errorf("wasm.compile", edgewise.Internal,
			"model %q: a folder for its machine code cannot be made: %w", p.id.Name, err)
	}
	cleanup = func() { _ = os.RemoveAll(folder) }
	err = b.child(ctx, p, folder)
	if err != nil && edgewise.KindOf(err) != edgewise.TooLarge && edgewise.KindOf(err) != edgewise.Invalid {
		cleanup()
		return "", nil, err
	}
	if kept {
		entry, keeping := b.cache.keep(folder, p.key(), err)
		if keeping == nil {
			cleanup()
			return entry, func() {}, err
		}
		b.config.Logger.Warn("the cache of compiled steps cannot be used", "folder", b.config.CacheDir, "error", keeping)
	}
	if err != nil {
		cleanup()
	}
	return folder, cleanup, err
}

// maxCompilerOutput bounds what is read of the messages of a compiler.
const maxCompilerOutput = 16 << 10

// child runs a compiler for the module of p, which writes into a folder. Errors: Invalid (the module), TooLarge (it
// takes too much), Internal (the machine), and those of ctx.
func (b *Backend) child(ctx context.Context, p *program, folder string) error {
	c := &b.config
	task, err := json.Marshal(compilerTask{
		Folder: folder, Pages: p.module.MaxPages, Memory: uint64(c.CompileMemory),
		Seconds: uint64(c.CompileTimeout/time.Second)*2 + 2, Output: uint64(c.CompileMemory),
	})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, c.CompileTimeout)
	defer cancel()
	said, complaint, most, err := startCompiler(limited, io.MultiReader(bytes.NewReader(append(task, '\n')), bytes.NewReader(p.module.Binary)))
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return edgewise.Errorf("wasm.compile", edgewise.KindOf(ctx.Err()), "compiling a step: %w", ctx.Err())
	case limited.Err() != nil:
		return edgewise.Errorf("wasm.compile", edgewise.TooLarge,
			"model %q: its module of %d bytes takes more than %v to compile", p.id.Name, p.size, c.CompileTimeout)
	case !errors.As(err, &exit):
		return edgewise.Errorf("wasm.compile", edgewise.Internal, "the compiler of steps cannot be started: %w", err)
	case exit.ExitCode() == compilerRefused:
		return edgewise.Errorf("wasm.compile", edgewise.Invalid, "module: %s", said)
	case exit.ExitCode() == compilerFailed:
		return edgewise.Errorf("wasm.compile", edgewise.Internal, "the compiler of steps: %s", said)
	case exit.ExitCode() == compilerLarge || most > c.CompileMemory/2: // what a process says that gets no memory differs
		return edgewise.Errorf("wasm.compile", edgewise.TooLarge,
			"model %q: its module of %d bytes takes more than %d MiB of memory to compile", p.id.Name, p.size, c.CompileMemory>>20)
	}
	first, _, _ := strings.Cut(complaint, "\n")
	return edgewise.Errorf("wasm.compile", edgewise.Internal,
		"model %q: the compiler died of its module of %d bytes: %v: %.200s", p.id.Name, p.size, exit, first)
}

// startCompiler starts this program again as a compiler, waits for its end, and kills it when ctx ends. It returns
// what the compiler said on its standard output, the beginning of what it, or its runtime, complained of, and the
// most memory that it had.
func startCompiler(ctx context.Context, input io.Reader) (said, complaint string, most int64, err error) {
	output, complaints := &bounded{}, &bounded{}
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the child is killed when this thread ends, which it does with this process
		cmd := exec.CommandContext(ctx, "/proc/self/exe", CompilerVerb)
		cmd.Args[0], cmd.Dir, cmd.Env = "edgewise", "/", []string{"GOTRACEBACK=none"}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = input, output, complaints
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		err := cmd.Run()
		if cmd.ProcessState != nil {
			most = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		}
		ended <- err
	}()
	err = <-ended
	var refusal compilerRefusal
	if json.Unmarshal(output.Bytes(), &refusal) == nil {
		said = refusal.Text
	}
	return said, complaints.String(), most, err
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

// Write never fails.
func (w *bounded) Write(data []byte) (int, error) {
	w.Buffer.Write(data[:min(len(data), max(maxCompilerOutput-w.Len(), 0))])
	return len(data), nil
}
