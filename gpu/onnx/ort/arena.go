package ort

/*
#include <malloc.h>
#include <stdlib.h>
#include "arena.h"
*/
import "C"

import (
	"unsafe"

	ortgo "github.com/yalue/onnxruntime_go"

	"github.com/edgewise-ai/edgewise"
)

// sharedArena is the session configuration entry with which a session takes its memory from the arena that all sessions
// of the process share.
const sharedArena = "session.use_env_allocators"

// ShrinkArena is the run configuration entry with which a run ends by giving an arena's unused memory back: "cpu:0".
const ShrinkArena = "memory.enable_memory_arena_shrinkage"

// maxDoubling is the most bytes by which the arena grows at once for a smaller request: each growth is twice the last
// one until then, and what is asked for beyond it.
const maxDoubling = 16 << 20

// shareArena makes the arena that the sessions on the CPU share, of at most so many bytes; 0: no bound. It is called once
// in a process.
func (l *Library) shareArena(maxMemory int64) error {
	keys := []*C.char{C.CString("max_power_of_two_extend_bytes"), C.CString("max_mem")}
	for _, key := range keys {
		defer C.free(unsafe.Pointer(key))
	}
	values := []C.size_t{maxDoubling, C.size_t(maxMemory)}
	return failed("ort.Open", edgewise.Internal, "making the arena",
		C.ew_arena_share(l.api, &keys[0], &values[0], C.size_t(len(keys))))
}

// arena is what those sessions share, seen through a session of its own: ONNX Runtime measures and shrinks arenas in
// sessions alone. It is used by one goroutine at a time.
type arena struct {
	lib     *Library
	session *ortgo.DynamicAdvancedSession // nil until the first use
	x, y    *ortgo.Tensor[float32]
	options *ortgo.RunOptions
}

// unused returns how many bytes the arena holds that no tensor takes.
func (a *arena) unused() (int64, error) {
	if err := a.open(); err != nil {
		return 0, err
	}
	var n C.int64_t
	e := C.ew_arena_unused(a.lib.api, field(a.session, "s", "ortSession"), &n)
	return int64(n), failed("ort.arena", edgewise.Internal, "measuring the arena", e)
}

// shrink gives what no tensor takes back to the system, but for the arena's first growth, and those of which a part is
// taken.
func (a *arena) shrink() error {
	if err := a.open(); err != nil {
		return err
	}
	err := a.session.RunWithOptions([]ortgo.Value{a.x}, []ortgo.Value{a.y}, a.options)
	C.malloc_trim(0) // small growths stand in the heap
	return err
}

// copying is an ONNX model, y = x of one FP32.
const copying = "\x08\x08:7\n\x10\n\x01x\x12\x01y\"\x08Identity\x12\x01g" +
	"Z\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x02\x10\r"

// open makes the session, once.
func (a *arena) open() (err error) {
	if a.session != nil {
		return nil
	}
	if a.x, err = ortgo.NewEmptyTensor[float32](ortgo.NewShape(1)); err != nil {
		return err
	}
	if a.y, err = ortgo.NewEmptyTensor[float32](ortgo.NewShape(1)); err != nil {
		return err
	}
	if a.options, err = ortgo.NewRunOptions(); err != nil {
		return err
	}
	if err = setRunOption(a.lib, field(a.options, "o"), ShrinkArena, "cpu:0"); err != nil {
		return err
	}
	options, err := Options{}.make()
	if err != nil {
		return err
	}
	defer func() { _ = options.Destroy() }()
	a.session, err = ortgo.NewDynamicAdvancedSessionWithONNXData([]byte(copying), []string{"x"}, []string{"y"}, options)
	return err
}
