// Package ort is the border to ONNX Runtime: it finds and opens the shared library at run time, makes sessions through
// the onnxruntime_go binding, and adds in a small C companion what the binding lacks (scalars, empty tensors, strings
// with any bytes, outputs read in place). No type of C or of the binding leaves it.
package ort

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "ort.h"
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	ortgo "github.com/yalue/onnxruntime_go"

	"github.com/edgewise-ai/edgewise"
)

const (
	// apiVersion is the version of ONNX Runtime's C API that the binding and the companion are written for.
	apiVersion = 24
	// OldestVersion is the first release of ONNX Runtime with that API.
	OldestVersion = "1.24"
	// PinnedVersion is the release that the project ships and is tested with.
	PinnedVersion = "1.29.0"
)

// Library is ONNX Runtime, opened. A process has one: the binding keeps it in package variables, so it stays open until
// the process ends.
type Library struct {
	Path    string // the file that was loaded
	Version string // as the library tells it
	api     *C.ew_api
	trimmer *trimmer
	manner  manner // of loads
}

// Process is how a process uses the library.
type Process struct {
	MaxMemory int64 // bytes of tensors, in the arena that the sessions on the CPU share; 0: no bound
	Alone     bool  // nothing runs here before all sessions are opened
	Missed    bool  // clients wait for its sessions: their loads give way to nothing
}

// Candidates returns the places where the library is looked for, in order: the configured path alone when there is one;
// otherwise the folder of the program, its lib folder, and whatever the dynamic linker finds.
func Candidates(configured string) []string {
	if configured != "" {
		return []string{configured}
	}
	var paths []string
	if exe, err := os.Executable(); err == nil {
		dir := filepath.Dir(exe)
		paths = append(paths, filepath.Join(dir, "libonnxruntime.so.1"), filepath.Join(dir, "lib", "libonnxruntime.so.1"))
	}
	return append(paths, "libonnxruntime.so.1", "libonnxruntime.so")
}

// Open loads the first library of candidates that exists. It is called once, before any session. The error (kind
// Unavailable) says in one sentence what was tried, or which version was found and which is needed.
func Open(candidates []string, p Process) (*Library, error) {
	var tried []string
	m := manner{missed: p.Missed}
	if p.Alone {
		m.idle = time.Now().Add(idleTime)
	}
	for _, path := range candidates {
		var lib *Library
		err := background(func() (err error) {
			lib, err = load(path)
			return err
		}, m)
		if err == nil {
			lib.manner = m
			return lib, lib.initialize(p.MaxMemory)
		}
		if _, missing := os.Stat(path); missing == nil {
			return nil, err
		}
		tried = append(tried, path)
	}
	return nil, edgewise.Errorf("ort.Open", edgewise.Unavailable,
		"ONNX Runtime was not found, so ONNX models cannot be served: tried %s; "+
			"set onnx.library to its path, or run \"make runtime\"", strings.Join(tried, ", "))
}

func load(path string) (*Library, error) {
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	lib := C.ew_open(cPath, apiVersion)
	if lib.message != nil {
		defer C.free(unsafe.Pointer(lib.message))
		return nil, edgewise.Errorf("ort.Open", edgewise.Unavailable, "%s cannot be loaded as ONNX Runtime: %s", path,
			C.GoString(lib.message))
	}
	l := &Library{Path: C.GoString(lib.path), Version: C.GoString(lib.version), api: (*C.ew_api)(lib.api)}
	if l.api == nil {
		return nil, edgewise.Errorf("ort.Open", edgewise.Unavailable,
			"ONNX Runtime %s (%s) does not have C API %d: version %s or newer is needed, %s is the one tested", l.Version,
			l.Path, apiVersion, OldestVersion, PinnedVersion)
	}
	arena := &arena{lib: l}
	l.trimmer = &trimmer{unused: arena.unused, shrink: arena.shrink}
	return l, nil
}

// initialize makes the process-wide environment and the arena of its sessions, once, on the library that was opened.
func (l *Library) initialize(maxMemory int64) error {
	if ortgo.IsInitialized() {
		return nil
	}
	ortgo.SetSharedLibraryPath(l.Path)
	if err := ortgo.InitializeEnvironment(ortgo.WithLogLevelFatal()); err != nil { // errors come back from each call
		return edgewise.Errorf("ort.Open", edgewise.Unavailable, "ONNX Runtime %s (%s) does not start: %w", l.Version, l.Path,
			err)
	}
	if err := ortgo.DisableTelemetry(); err != nil {
		return edgewise.Errorf("ort.Open", edgewise.Internal, "switching ONNX Runtime's telemetry off: %w", err)
	}
	return l.shareArena(maxMemory)
}

// String returns what was loaded, for logs: "ONNX Runtime 1.29.0 (path)".
func (l *Library) String() string { return fmt.Sprintf("ONNX Runtime %s (%s)", l.Version, l.Path) }
