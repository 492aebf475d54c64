package cuda

/*
#include "cuda.h"
*/
import "C"

import (
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// DevicePtr is an address in a device's memory.
type DevicePtr uint64

// MemAlloc takes n bytes of the device's memory, aligned to 256. The caller gives them back with MemFree. Error:
// Exhausted.
func (c *Ctx) MemAlloc(n int64) (DevicePtr, error) {
	var p C.cu_ptr
	err := c.driver.check("MemAlloc", C.cu_alloc(c.driver.c, c.handle, &p, C.size_t(n)))
	return DevicePtr(p), err
}

// MemFree gives memory of MemAlloc back. It waits for what uses it.
func (c *Ctx) MemFree(p DevicePtr) error {
	return c.driver.check("MemFree", C.cu_free(c.driver.c, c.handle, C.cu_ptr(p)))
}

// Flags of pinned memory.
const (
	hostPortable  = 1 // for every context of the process
	hostDeviceMap = 2 // with an address for the device
)

// Pinned is host memory that the device can read and write by itself. It is closed once, when nothing uses it any more.
type Pinned struct {
	ctx        *Ctx
	data       []byte
	registered bool // memory of the caller, not of the driver
}

func (c *Ctx) hostFlags() C.uint {
	if c.integrated {
		return hostPortable | hostDeviceMap
	}
	return hostPortable
}

// MemHostAlloc takes n bytes, at least 1, of pinned host memory, aligned to a page. Its content is not defined. Error:
// Exhausted.
func (c *Ctx) MemHostAlloc(n int64) (*Pinned, error) {
	var p unsafe.Pointer
	if err := c.driver.check("MemHostAlloc", C.cu_host_alloc(c.driver.c, c.handle, &p, C.size_t(n),
		c.hostFlags())); err != nil {
		return nil, err
	}
	return &Pinned{ctx: c, data: unsafe.Slice((*byte)(p), n)}, nil
}

// MemHostRegister pins memory that was mapped from the operating system, such as memory shared with another process. It
// must not be Go's memory, and stays mapped until Close. It begins at a page.
func (c *Ctx) MemHostRegister(data []byte) (*Pinned, error) {
	if len(data) == 0 {
		return nil, edgewise.Errorf("cuda.MemHostRegister", edgewise.Invalid, "MemHostRegister: no bytes")
	}
	r := C.cu_host_register(c.driver.c, c.handle, unsafe.Pointer(&data[0]), C.size_t(len(data)), c.hostFlags())
	if err := c.driver.check("MemHostRegister", r); err != nil {
		return nil, err
	}
	return &Pinned{ctx: c, data: data, registered: true}, nil
}

// Bytes returns the memory. It is valid until Close.
func (p *Pinned) Bytes() []byte { return p.data }

// DevicePtr returns the address under which the device reaches the memory by itself. Only integrated devices have one.
func (p *Pinned) DevicePtr() (DevicePtr, error) {
	var d C.cu_ptr
	r := C.cu_host_pointer(p.ctx.driver.c, p.ctx.handle, unsafe.Pointer(&p.data[0]), &d)
	return DevicePtr(d), p.ctx.driver.check("DevicePtr", r)
}

// Contains returns where in the memory data stands, if it stands there.
func (p *Pinned) Contains(data []byte) (offset int64, ok bool) {
	if len(data) == 0 {
		return 0, false
	}
	start, at := uintptr(unsafe.Pointer(&p.data[0])), uintptr(unsafe.Pointer(&data[0]))
	if at < start || at+uintptr(len(data)) > start+uintptr(len(p.data)) {
		return 0, false
	}
	return int64(at - start), true
}

// Close gives the memory back, or ends its pinning. No copy that uses it is under way.
func (p *Pinned) Close() error {
	at := unsafe.Pointer(&p.data[0])
	if p.registered {
		return p.ctx.driver.check("MemHostUnregister", C.cu_host_unregister(p.ctx.driver.c, p.ctx.handle, at))
	}
	return p.ctx.driver.check("MemFreeHost", C.cu_host_free(p.ctx.driver.c, p.ctx.handle, at))
}

// part returns the address of n bytes of the memory.
func (p *Pinned) part(call string, offset, n int64) (unsafe.Pointer, error) {
	if offset < 0 || n < 1 || n > int64(len(p.data))-offset {
		return nil, edgewise.Errorf("cuda."+call, edgewise.Internal, "%s: %d bytes at %d of pinned memory of %d", call, n,
			offset, len(p.data))
	}
	return unsafe.Pointer(&p.data[offset]), nil
}

// MemcpyHtoDAsync begins to copy n bytes, at least 1, of pinned memory to the device. They are not changed until the
// stream has got there.
func (s *Stream) MemcpyHtoDAsync(to DevicePtr, from *Pinned, offset, n int64) error {
	at, err := from.part("MemcpyHtoDAsync", offset, n)
	if err != nil {
		return err
	}
	return s.check("MemcpyHtoDAsync", C.cu_to_device(s.ctx.driver.c, s.ctx.handle, C.cu_ptr(to), at, C.size_t(n),
		s.handle))
}

// MemcpyDtoHAsync begins to copy n bytes, at least 1, from the device to pinned memory. They are there when the stream
// has got there.
func (s *Stream) MemcpyDtoHAsync(to *Pinned, offset int64, from DevicePtr, n int64) error {
	at, err := to.part("MemcpyDtoHAsync", offset, n)
	if err != nil {
		return err
	}
	return s.check("MemcpyDtoHAsync", C.cu_to_host(s.ctx.driver.c, s.ctx.handle, at, C.cu_ptr(from), C.size_t(n),
		s.handle))
}

// MemsetD8Async begins to set n bytes on the device to a value.
func (s *Stream) MemsetD8Async(p DevicePtr, value byte, n int64) error {
	return s.check("MemsetD8Async", C.cu_set(s.ctx.driver.c, s.ctx.handle, C.cu_ptr(p), C.uchar(value), C.size_t(n),
		s.handle))
}

// MemcpyHtoD copies from any memory to the device and waits.
func (c *Ctx) MemcpyHtoD(to DevicePtr, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	return c.driver.check("MemcpyHtoD", C.cu_to_device_now(c.driver.c, c.handle, C.cu_ptr(to), unsafe.Pointer(&from[0]),
		C.size_t(len(from))))
}

// MemcpyDtoH copies from the device to any memory and waits.
func (c *Ctx) MemcpyDtoH(to []byte, from DevicePtr) error {
	if len(to) == 0 {
		return nil
	}
	return c.driver.check("MemcpyDtoH", C.cu_to_host_now(c.driver.c, c.handle, unsafe.Pointer(&to[0]), C.cu_ptr(from),
		C.size_t(len(to))))
}
