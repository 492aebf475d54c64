package cuda

/*
#include "cuda.h"
*/
import "C"

// Ctx is the primary context of a device. Its methods are safe for concurrent use.
type Ctx struct {
	driver     *Driver
	device     Device
	handle     C.cu_handle
	integrated bool
}

// Device returns the context's device.
func (c *Ctx) Device() Device { return c.device }

// Integrated tells whether the device works in the memory of the CPU, as on a Jetson: then pinned memory is its own
// memory too, and nothing need be copied.
func (c *Ctx) Integrated() bool { return c.integrated }

// Close ends this use of the context. Everything made in it has been closed.
func (c *Ctx) Close() error {
	return c.driver.check("Close", C.cu_release(c.driver.c, c.device.handle))
}

// Synchronize waits until everything that was begun in the context has ended. It returns the error that made the
// context unusable when there was one, also when that error was met elsewhere in this process.
func (c *Ctx) Synchronize() error {
	return c.driver.check("Synchronize", C.cu_synchronize(c.driver.c, c.handle))
}
