package wasm

import (
	"context"

	"github.com/tetratelabs/wazero/api"

	"github.com/edgewise-ai/edgewise"
)

// hostFunction is one import that a step may have.
type hostFunction struct {
	name string
	sign signature
	call func(arguments)
}

// hostModules returns everything that a step can import, by module.
func hostModules() map[string][]hostFunction {
	return map[string][]hostFunction{hostModule: append(hostFunctions(), kernels()...), wasiModule: wasiFunctions()}
}

// lookup returns the type of an import.
func lookup(functions []hostFunction, name string) (signature, bool) {
	for _, f := range functions {
		if f.name == name {
			return f.sign, true
		}
	}
	return ":", false
}

// arguments are those that a guest passed to an import. A guest that points outside its memory is stopped when they are read.
type arguments struct {
	c     *call
	name  string // of the import
	stack []uint64
	mem   api.Memory
}

// callsBetweenLooks is how many imports a guest may call between two looks at the clock. Its own fuel says nothing of
// the time they take: a loop that does little but call them would be looked at after a hundred thousand calls.
const callsBetweenLooks = 64

// bind makes what the runtime calls.
func (f hostFunction) bind() api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
		c := ctx.(*call)
		if c.calls++; c.calls%callsBetweenLooks == 0 {
			c.check(c.used())
		}
		f.call(arguments{c, f.name, stack, mod.Memory()})
	})
}

func (a arguments) u32(i int) uint32  { return uint32(a.stack[i]) }
func (a arguments) f32(i int) float32 { return api.DecodeF32(a.stack[i]) }

// result sets what the import returns.
func (a arguments) result(v int32) { a.stack[0] = uint64(uint32(v)) }

// fail makes the import return -1 and keeps the reason for last_error.
func (a arguments) fail(reason string) {
	a.c.lastError = reason
	a.result(-1)
}

// view returns size bytes of the guest's memory. what names the argument.
func (a arguments) view(what string, pointer uint32, size uint64) []byte {
	most := uint64(a.mem.Size())
	if size > most || uint64(pointer) > most-size {
		a.c.end(edgewise.Guest, "step: import %q: argument %q: %d bytes at %d leave the memory, which has %d", a.name, what, size, pointer, most)
	}
	view, _ := a.mem.Read(pointer, uint32(size))
	return view
}

// bytes returns the bytes that arguments i (pointer) and i+1 (length) name.
func (a arguments) bytes(what string, i int) []byte {
	return a.view(what, a.u32(i), uint64(a.u32(i+1)))
}

// give writes as much of text as there is room for into arguments i (pointer) and i+1 (room), and returns its length.
func (a arguments) give(what string, i int, text string) {
	room := min(uint64(a.u32(i+1)), uint64(len(text)))
	copy(a.view(what, a.u32(i), room), text)
	a.result(int32(len(text)))
}
