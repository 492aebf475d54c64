package provider

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

static const char *open_library(const char *path) { return dlopen(path,
	RTLD_NOW | RTLD_LOCAL) == NULL ? dlerror() : NULL; }
*/
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// Open opens a library, which stays open until the process ends. What is open already is what the dynamic linker takes
// for a name that another library asks for. Error: Unavailable, with the linker's own words.
func Open(path string) error {
	runtime.LockOSThread() // the linker keeps its last error for the thread
	defer runtime.UnlockOSThread()
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	if message := C.open_library(c); message != nil {
		return edgewise.Errorf("provider.Open", edgewise.Unavailable, "%s", C.GoString(message))
	}
	return nil
}

// OpenAll searches and opens what f needs, and what it may need. It returns what was found of each, with the first
// problem of a library that is not optional as the error.
func (f *File) OpenAll(folders []string) ([]Library, error) {
	var list []Library
	var first error
	open := func(name string, optional bool) {
		l := Search(name, folders)
		if l.Path == "" && Open(name) == nil { // the dynamic linker knows it
			l.Path, l.Problem = name, ""
		} else if l.Problem == "" {
			if err := Open(l.Path); err != nil {
				l.Problem = err.Error()
			}
		}
		l.Optional = optional
		if l.Problem != "" && !optional && first == nil {
			first = edgewise.Errorf("provider.OpenAll", edgewise.Unavailable, "%s", l.Problem)
		}
		list = append(list, l)
	}
	for _, name := range f.Needed {
		open(name, false)
	}
	for _, name := range Optional(f.Toolkit()) {
		open(name, true)
	}
	return list, first
}
