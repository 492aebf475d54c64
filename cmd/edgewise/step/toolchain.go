package step

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Toolchain finds and runs compilers. The zero value finds them on the path.
type Toolchain struct {
	Environment []string // of the compilers, as "NAME=value"; nil: this process's own
	Modules     string   // a folder with node_modules/assemblyscript, searched after the step's own; empty: none
}

// The versions that the SDKs are tested with, and what installs them.
const (
	clangHint = "on Debian: sudo apt-get install clang-19 lld-19 libclang-rt-19-dev-wasm32 wasi-libc"
	rustHint  = "on Debian: sudo apt-get install rustc libstd-rust-dev-wasm32 lld-19; with rustup: rustup target add wasm32-unknown-unknown"
	goHint    = "see https://go.dev/dl"
	ascHint   = "in the step's folder: npm install (Node.js 20 or newer)"
)

// found returns the first program of names that is on the path.
func found(names ...string) (string, bool) {
	for _, name := range names {
		if p, err := exec.LookPath(name); err == nil {
			return p, true
		}
	}
	return "", false
}

func missing(what, hint string) error {
	return edgewise.Errorf("step.Build", edgewise.NotFound, "%s is missing: %s", what, hint)
}

func (t Toolchain) clang() (string, error) {
	if p, ok := found("clang-19", "clang"); ok {
		return p, nil
	}
	return "", missing("clang for wasm32-wasi", clangHint)
}

// rustTarget is what steps in Rust are built for: no WASI, since a step needs none of it.
const rustTarget = "wasm32-unknown-unknown"

// rustc returns the first compiler that has the target's library, and the flags that make it find a linker.
func (t Toolchain) rustc(ctx context.Context) (compiler string, flags []string, err error) {
	for _, candidate := range []string{"rustc", "/usr/bin/rustc"} {
		p, ok := found(candidate)
		if !ok {
			continue
		}
		library, err := t.output(ctx, p, "--print", "target-libdir", "--target", rustTarget)
		if _, missing := os.Stat(library); err != nil || missing != nil {
			continue
		}
		root, err := t.output(ctx, p, "--print", "sysroot")
		if own, _ := filepath.Glob(filepath.Join(root, "lib/rustlib/*/bin/rust-lld")); err != nil || len(own) > 0 {
			return p, nil, nil
		}
		linker, ok := found("wasm-ld-19", "wasm-ld", "rust-lld")
		if !ok {
			return "", nil, missing("a linker for wasm32", rustHint)
		}
		// Newer linkers warn of the metadata in Rust's archives.
		return p, []string{"-C", "linker=" + linker, "-C", "link-arg=--no-fatal-warnings"}, nil
	}
	return "", nil, missing("rustc with the target "+rustTarget, rustHint)
}

// asc returns the command of the AssemblyScript compiler: of the step itself, of a folder above it, of the toolchain,
// or on the path.
func (t Toolchain) asc(dir string) ([]string, error) {
	node, ok := found("node")
	if !ok {
		return nil, missing("Node.js", ascHint)
	}
	roots := []string{t.Modules}
	if absolute, err := filepath.Abs(dir); err == nil {
		roots = slices.Insert(roots, 0, ancestors(absolute)...)
	}
	for _, root := range roots {
		script := filepath.Join(root, "node_modules", "assemblyscript", "bin", "asc.js")
		if _, err := os.Stat(script); err == nil && root != "" {
			return []string{node, script}, nil
		}
	}
	if p, ok := found("asc"); ok {
		return []string{p}, nil
	}
	return nil, missing("the AssemblyScript compiler", ascHint)
}

func ancestors(dir string) []string {
	all := []string{dir}
	for parent := filepath.Dir(dir); parent != all[len(all)-1]; parent = filepath.Dir(parent) {
		all = append(all, parent)
	}
	return all
}

// run runs a compiler in dir. What it printed is the message when it fails. Errors: Invalid, Canceled, Deadline.
func (t Toolchain) run(ctx context.Context, dir string, environment []string, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, t.Environment
	cmd.Env = append(cmd.Environ(), environment...)
	output, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return edgewise.Errorf("step.Build", edgewise.KindOf(ctx.Err()), "%s: %w", filepath.Base(command[0]), ctx.Err())
	}
	return edgewise.Errorf("step.Build", edgewise.Invalid, "%s: %w\n%s", filepath.Base(command[0]), err, bytes.TrimSpace(output))
}

// output returns what a command prints, without the newline.
func (t Toolchain) output(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = t.Environment
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", edgewise.Errorf("step.Build", edgewise.Invalid, "%s: %w: %s", filepath.Base(command[0]), err, bytes.TrimSpace(exit.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}
