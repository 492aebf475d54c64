package ort

/*
#include <stdlib.h>
#include "bind.h"
*/
import "C"

import (
	"unsafe"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
)

// The names of memory in which a bound tensor can be.
const (
	DeviceMemory = "Cuda"
	HostMemory   = "Cpu"
)

// Bound is a tensor of a Binding: bytes in memory of a device that stay where they are.
type Bound struct {
	Name    string
	Type    edgewise.DataType
	Shape   edgewise.Shape
	Address uintptr // of the first element
	Size    int64   // bytes
}

// BindingConfig says which tensors a Binding has, and where they are.
type BindingConfig struct {
	Inputs, Outputs []Bound
	Memory          string            // DeviceMemory or HostMemory
	Device          int               // index of the device
	RunEntries      map[string]string // run configuration entries
}

// Binding is a run whose tensors are fixed. It is used by one goroutine at a time.
type Binding struct {
	session *Session
	c       *C.ew_binding
	outputs []Bound
	checked bool  // the runtime writes the outputs where they are bound
	broken  error // it does not
}

// NewBinding binds tensors once, so that a run names none. The memory stays the caller's and is used by every Run.
// Errors: Invalid (the model has no such tensor, or one of another type), Internal.
func (s *Session) NewBinding(c BindingConfig) (*Binding, error) {
	keys, values, free := cPairs(c.RunEntries)
	defer free()
	b := &Binding{session: s, outputs: c.Outputs}
	e := C.ew_binding_new(s.lib.api, s.handle, C.size_t(len(c.Inputs)+len(c.Outputs)), first(keys), first(values),
		C.size_t(len(keys)), &b.c)
	if err := failed("ort.NewBinding", edgewise.Internal, "making a binding", e); err != nil {
		return nil, err
	}
	for _, list := range []struct {
		names   map[string]*C.char
		tensors []Bound
		output  C.int
	}{{s.inputs, c.Inputs, 0}, {s.outputs, c.Outputs, 1}} {
		for i := range list.tensors {
			if err := b.bind(list.names, &list.tensors[i], list.output, c); err != nil {
				b.Close()
				return nil, err
			}
		}
	}
	return b, nil
}

func (b *Binding) bind(names map[string]*C.char, t *Bound, output C.int, c BindingConfig) error {
	name, ok := names[t.Name]
	if !ok || len(t.Shape) > edgewise.MaxRank || t.Type == edgewise.Bytes {
		return edgewise.Errorf("ort.NewBinding", edgewise.Invalid,
			"tensor %q: the model has none of that name that can be bound, with shape %v", t.Name, t.Shape)
	}
	memory := C.CString(c.Memory)
	defer C.free(unsafe.Pointer(memory))
	d := C.ew_tensor{_type: C.int32_t(onnxfile.Number(t.Type)), rank: C.int32_t(len(t.Shape)), size: C.uint64_t(t.Size)}
	for i, size := range t.Shape {
		d.shape[i] = C.int64_t(size)
	}
	e := C.ew_bind(b.session.lib.api, b.c, name, output, memory, C.int(c.Device), &d, C.uintptr_t(t.Address))
	return failed("ort.NewBinding", edgewise.Invalid, "binding "+t.Name, e)
}

// Run runs the model on the bound tensors. Where the run entries and the provider's options say so, it returns when the
// work is on the provider's stream and not yet done. Errors: Internal; Unsupported, for this run and all others, when
// the runtime puts an output elsewhere than it is bound to.
func (b *Binding) Run() error {
	if b.broken != nil {
		return b.broken
	}
	err := failed("ort.Run", edgewise.Internal, "ONNX Runtime failed",
		C.ew_binding_run(b.session.lib.api, b.session.handle, b.c))
	if err != nil || b.checked {
		return err
	}
	b.broken = b.check()
	b.checked = b.broken == nil
	return b.broken
}

// check looks where the runtime has put the outputs.
func (b *Binding) check() error {
	addresses := make([]C.uintptr_t, len(b.outputs)+1)
	e := C.ew_binding_outputs(b.session.lib.api, b.c, &addresses[0], C.size_t(len(b.outputs)))
	if err := failed("ort.Run", edgewise.Internal, "reading a binding", e); err != nil {
		return err
	}
	for i := range b.outputs {
		if uintptr(addresses[i]) != b.outputs[i].Address {
			return edgewise.Errorf("ort.Run", edgewise.Unsupported,
				"output %q: ONNX Runtime does not write it to the memory that it is bound to", b.outputs[i].Name)
		}
	}
	return nil
}

// Close gives the binding back. No run is in progress.
func (b *Binding) Close() { C.ew_binding_free(b.session.lib.api, b.c) }
