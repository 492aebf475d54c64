package cuda

/*
#include <stdlib.h>
#include "cuda.h"
*/
import "C"

import (
	"strings"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// MaxArguments bounds the arguments of a launch.
const MaxArguments = C.CU_MAX_ARGUMENTS

// Module is code on a device.
type Module struct {
	ctx    *Ctx
	handle C.cu_handle
}

// LoadData loads PTX, which the driver compiles for its device. The error of PTX that it refuses has the compiler's
// words.
func (c *Ctx) LoadData(ptx string) (*Module, error) {
	m := &Module{ctx: c}
	image := C.CString(ptx)
	defer C.free(unsafe.Pointer(image))
	log := (*C.char)(C.malloc(C.CU_LOG_SIZE))
	defer C.free(unsafe.Pointer(log))
	r := C.cu_module(c.driver.c, c.handle, &m.handle, unsafe.Pointer(image), log)
	if r == 0 {
		return m, nil
	}
	if said := strings.TrimSpace(C.GoString(log)); said != "" {
		return nil, failed("LoadData", int32(r), said)
	}
	return nil, c.driver.check("LoadData", r)
}

// Close unloads the module. Nothing of it runs.
func (m *Module) Close() error {
	return m.ctx.driver.check("Module.Close", C.cu_module_unload(m.ctx.driver.c, m.ctx.handle, m.handle))
}

// Function is a kernel of a module, valid until the module is closed.
type Function struct {
	ctx    *Ctx
	handle C.cu_handle
}

// Function returns the kernel of that name.
func (m *Module) Function(name string) (*Function, error) {
	f := &Function{ctx: m.ctx}
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	if r := C.cu_function(m.ctx.driver.c, m.ctx.handle, &f.handle, m.handle, cName); r != 0 {
		return nil, failed("Function", int32(r), name)
	}
	return f, nil
}

// Dim3 is the size of a grid in blocks, or of a block in threads.
type Dim3 struct{ X, Y, Z uint32 }

// Launch begins to run a kernel. Each argument fills the low bytes of its word: an address, a whole number, or
// math.Float32bits of a float.
func (f *Function) Launch(grid, block Dim3, shared uint32, on *Stream, arguments ...uint64) error {
	if len(arguments) > MaxArguments {
		return edgewise.Errorf("cuda.Launch", edgewise.Internal, "Launch: %d arguments, at most %d", len(arguments),
			MaxArguments)
	}
	g, b := [3]C.uint32_t{C.uint32_t(grid.X), C.uint32_t(grid.Y), C.uint32_t(grid.Z)},
		[3]C.uint32_t{C.uint32_t(block.X), C.uint32_t(block.Y), C.uint32_t(block.Z)}
	var list [MaxArguments]C.uint64_t
	for i, a := range arguments {
		list[i] = C.uint64_t(a)
	}
	return on.check("Launch", C.cu_launch(f.ctx.driver.c, f.ctx.handle, f.handle, &g[0], &b[0], C.uint32_t(shared),
		on.handle, &list[0], C.int(len(arguments))))
}
