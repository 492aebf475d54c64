package step

import (
	"context"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm"
)

// ModuleFile is the file that Build makes in the step's folder: the name that the box expects.
const ModuleFile = wasm.DefaultFilename

// maxSource bounds a file of a step that is copied for building.
const maxSource = 16 << 20

// Build compiles the step in dir to target, which is replaced only by a module that the compiler finished. A step
// without an SDK of its own is built with the one in this program. Errors: NotFound (no folder, or a compiler is
// missing: the message says how to get it), Invalid (what the compiler says), and those of the disk.
func Build(ctx context.Context, dir, target string, t Toolchain) error {
	l, err := LanguageOf(dir)
	if err != nil {
		return err
	}
	if t.Modules != "" { // the compiler runs in another folder
		if t.Modules, err = filepath.Abs(t.Modules); err != nil {
			return made(err)
		}
	}
	work, err := os.MkdirTemp("", "edgewise-step-")
	if err != nil {
		return made(err)
	}
	defer os.RemoveAll(work)
	b := builder{Toolchain: t, dir: dir, home: dir, work: work, module: filepath.Join(work, ModuleFile)}
	if err := b.stage(l); err != nil {
		return err
	}
	if err := b.compile(ctx, l); err != nil {
		return err
	}
	return place(b.module, target)
}

// builder compiles one step.
type builder struct {
	Toolchain
	home   string // the step's folder
	dir    string // the folder with the source and the SDK: home, or a copy in work
	work   string // a folder for what is left over
	module string // where the module goes
}

// stage makes sure that the SDK stands beside the source, in a copy of both where the step has none of its own.
func (b *builder) stage(l Language) error {
	if _, err := os.Stat(filepath.Join(b.dir, sdkFolder)); err == nil {
		if b.dir, err = filepath.Abs(b.dir); err != nil {
			return made(err)
		}
		return nil
	}
	source := b.dir
	b.dir = filepath.Join(b.work, "step")
	if err := writeSDK(filepath.Join(b.dir, sdkFolder), l); err != nil {
		return err
	}
	if l == Go {
		if err := os.WriteFile(filepath.Join(b.dir, "go.mod"), []byte(goModule), 0o644); err != nil {
			return made(err)
		}
	}
	return copyFiles(source, b.dir)
}

// goModule is the module of a step in Go that has none.
const goModule = `module step

go 1.24

require github.com/edgewise-ai/edgewise/sdk/go v0.0.0

replace github.com/edgewise-ai/edgewise/sdk/go => ./edgewise
`

// copyFiles copies the files of a folder, not those below it, and no module.
func copyFiles(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return made(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || entry.Name() == ModuleFile {
			continue
		}
		if info.Size() > maxSource {
			return edgewise.Errorf("step.Build", edgewise.TooLarge, "%s has %d bytes: at most %d are allowed in a step's folder",
				entry.Name(), info.Size(), maxSource)
		}
		data, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err != nil {
			return made(err)
		}
		if err := os.WriteFile(filepath.Join(to, entry.Name()), data, 0o644); err != nil {
			return made(err)
		}
	}
	return nil
}

// compile keeps the names of functions in the module, and of C, whose code reports no faults itself, the lines of the
// source: the error of a trap has them.
func (b *builder) compile(ctx context.Context, l Language) error {
	switch l {
	case C:
		return b.c(ctx)
	case Rust:
		return b.rust(ctx)
	case Go:
		return b.golang(ctx)
	}
	return b.assemblyScript(ctx)
}

// stackBytes is the stack of a step in C or Rust. It lies below the data, so that an overflow traps and overwrites
// nothing.
const stackBytes = "262144"

func (b *builder) c(ctx context.Context) error {
	clang, err := b.clang()
	if err != nil {
		return err
	}
	err = b.run(ctx, b.dir, nil, clang, "--target=wasm32-wasi", "-mexec-model=reactor", "-std=c11", "-O3", "-msimd128", "-ffp-contract=off",
		"-Wall", "-Wextra", "-gline-tables-only", "-I", sdkFolder, "-Wl,--stack-first", "-Wl,-z,stack-size="+stackBytes, "-o",
		b.module, C.Source())
	if err != nil {
		return err
	}
	return keepLines(b.module)
}

func (b *builder) rust(ctx context.Context) error {
	rustc, linker, err := b.rustc(ctx)
	if err != nil {
		return err
	}
	flags := []string{"--edition=2021", "--target=" + rustTarget, "-Copt-level=3", "-Ctarget-feature=+simd128", "-Cpanic=abort"}
	library := filepath.Join(b.work, "libedgewise.rlib")
	sdk := append(append([]string{rustc}, flags...), "--crate-name=edgewise", "--crate-type=rlib", "-o", library,
		filepath.Join(sdkFolder, "src", "lib.rs"))
	if err := b.run(ctx, b.dir, nil, sdk...); err != nil {
		return err
	}
	step := append(append([]string{rustc}, flags...), linker...)
	step = append(step, "-Cstrip=debuginfo", "-Clto", "-Clink-arg=-zstack-size="+stackBytes, "--crate-name=step", "--crate-type=cdylib",
		"--extern=edgewise="+library, "-o", b.module, Rust.Source())
	return b.run(ctx, b.dir, nil, step...)
}

func (b *builder) golang(ctx context.Context) error {
	compiler, ok := found("go")
	if !ok {
		return missing("Go 1.24 or newer", goHint)
	}
	environment := []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="}
	return b.run(ctx, b.dir, environment, compiler, "build", "-trimpath", "-ldflags=-w", "-buildmode=c-shared", "-o", b.module, ".")
}

func (b *builder) assemblyScript(ctx context.Context) error {
	asc, err := b.asc(b.home)
	if err != nil {
		return err
	}
	command := append(asc, AssemblyScript.Source(), "-O3", "--enable", "simd", "--runtime", "incremental",
		"--use", "abort="+sdkFolder+"/host/abort", "--disableWarning", "201", "--debug", "-o", filepath.ToSlash(b.module))
	return b.run(ctx, b.dir, nil, command...)
}

// place moves the module to target. The folder of target is another disk's perhaps: the module is copied beside it
// first.
func place(module, target string) error {
	data, err := os.ReadFile(module)
	if err != nil {
		return made(err)
	}
	if err := os.WriteFile(target+".new", data, 0o644); err != nil {
		return made(err)
	}
	return made(os.Rename(target+".new", target))
}
