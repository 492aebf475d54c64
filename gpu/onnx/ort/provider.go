package ort

/*
#include <stdlib.h>
#include "bind.h"
*/
import "C"

import (
	"maps"
	"slices"
	"strings"
	"unsafe"

	ortgo "github.com/yalue/onnxruntime_go"

	"github.com/edgewise-ai/edgewise"
)

// ProviderKind is an execution provider, which runs operators on a device.
type ProviderKind int

// The providers for GPUs.
const (
	CUDA     ProviderKind = C.EW_CUDA
	TensorRT ProviderKind = C.EW_TENSORRT
	WebGPU   ProviderKind = C.EW_WEBGPU // on Vulkan; its sessions of a process never run at the same time
)

// String returns the provider's name.
func (k ProviderKind) String() string {
	return [...]string{CUDA: "CUDA", TensorRT: "TensorRT", WebGPU: "WebGPU"}[k]
}

// HasWebGPU tells whether the library was built with the provider for WebGPU.
func (l *Library) HasWebGPU() bool {
	list, err := l.Providers()
	return err == nil && slices.Contains(list, "WebGpuExecutionProvider")
}

// Provider is a provider of a session, with its options by ONNX Runtime's names.
type Provider struct {
	Kind    ProviderKind
	Options map[string]string
	Lost    []string // parts of messages after which its device runs nothing any more in this process
}

// Providers returns the names of the providers that the library was built with, such as "CUDAExecutionProvider".
func (l *Library) Providers() ([]string, error) {
	var names *C.char
	e := C.ew_providers(l.api, &names)
	defer C.free(unsafe.Pointer(names))
	if err := failed("ort.Providers", edgewise.Internal, "listing providers", e); err != nil {
		return nil, err
	}
	return strings.Fields(C.GoString(names)), nil
}

// failed makes an error of one of C and frees it.
func failed(op string, kind edgewise.Kind, what string, e C.ew_error) error {
	if e.code == 0 {
		return nil
	}
	defer C.free(unsafe.Pointer(e.message))
	return edgewise.Errorf(op, kind, "%s: %s", what, C.GoString(e.message))
}

// appendTo gives the provider to session options. It returns all of its options as it reads them. Error: Unavailable
// (its library, or one that it needs, cannot be loaded), Invalid is not told apart from it by ONNX Runtime.
func (p Provider) appendTo(l *Library, options *ortgo.SessionOptions) (effective string, err error) {
	keys, values, free := cPairs(p.Options)
	defer free()
	var text *C.char
	e := C.ew_append_provider(l.api, field(options, "o"), C.int(p.Kind), first(keys), first(values), C.size_t(len(keys)),
		&text)
	defer C.free(unsafe.Pointer(text))
	return C.GoString(text), failed("ort.NewSession", edgewise.Unavailable,
		"the provider for "+p.Kind.String()+" does not start", e)
}

// cPairs copies a map to C, in the order of its keys.
func cPairs(m map[string]string) (keys, values []*C.char, free func()) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		keys, values = append(keys, C.CString(key)), append(values, C.CString(m[key]))
	}
	return keys, values, func() {
		for i := range keys {
			C.free(unsafe.Pointer(keys[i]))
			C.free(unsafe.Pointer(values[i]))
		}
	}
}

func first(list []*C.char) **C.char {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}
