package cuda

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "cuda.h"
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// Driver is the CUDA driver, opened and initialised. A process opens it once and keeps it.
type Driver struct {
	c       *C.cu_driver
	path    string
	version Version
}

// Version is a CUDA version as the driver counts: 13000 is 13.0.
type Version int

// String returns it as 13.0.
func (v Version) String() string { return fmt.Sprintf("%d.%d", int(v)/1000, int(v)%1000/10) }

// Candidates returns the names under which the driver is looked for, in order: the configured path alone when there is
// one. The later ones are where Jetsons and containers keep it.
func Candidates(configured string) []string {
	if configured != "" {
		return []string{configured}
	}
	return []string{
		"libcuda.so.1", "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1", "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1",
		"/usr/local/nvidia/lib64/libcuda.so.1",
	}
}

// Open loads the first driver of candidates that there is, and initialises it. Errors: Unavailable (there is no driver,
// or it is of another version than its kernel module, or it finds no device; the message says which). errors.As finds
// the Result when the driver was there and refused.
func Open(candidates []string) (*Driver, error) {
	const op = "cuda.Open"
	var told string
	for _, name := range candidates {
		c, path, message := open(name)
		if c == nil {
			if _, err := os.Stat(name); err == nil {
				return nil, edgewise.Errorf(op, edgewise.Unavailable, "%s cannot be loaded as a CUDA driver: %s", name, message)
			}
			if told == "" && !strings.Contains(message, "cannot open shared object file") {
				told = message
			}
			continue
		}
		return start(c, path)
	}
	if told != "" {
		return nil, edgewise.Errorf(op, edgewise.Unavailable, "the CUDA driver cannot be loaded: %s", told)
	}
	return nil, edgewise.Errorf(op, edgewise.Unavailable, "no CUDA driver was found (%s)", strings.Join(candidates, ", "))
}

func open(name string) (d *C.cu_driver, path, message string) {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	var cPath, cMessage *C.char
	d = C.cu_open(cName, &cPath, &cMessage)
	defer C.free(unsafe.Pointer(cPath))
	defer C.free(unsafe.Pointer(cMessage))
	return d, C.GoString(cPath), C.GoString(cMessage)
}

func start(c *C.cu_driver, path string) (*Driver, error) {
	d := &Driver{c: c, path: path}
	var version C.int
	if r := C.cu_driver_version(c, &version); r == 0 {
		d.version = Version(version)
	}
	if r := C.cu_init(c); r != 0 {
		return nil, edgewise.Errorf("cuda.Open", edgewise.Unavailable, "the CUDA driver %s (%v) does not start: %w", path,
			d.version, Result(r))
	}
	return d, nil
}

// Path is the file that was loaded.
func (d *Driver) Path() string { return d.path }

// Version is the newest version of CUDA that the driver serves.
func (d *Driver) Version() Version { return d.version }

// String returns what was loaded: "CUDA driver 13.0 (path)".
func (d *Driver) String() string { return fmt.Sprintf("CUDA driver %v (%s)", d.version, d.path) }

// check turns a return code into an error, with the driver's own words where it has some.
func (d *Driver) check(call string, r C.cu_result) error {
	if r == 0 {
		return nil
	}
	return failed(call, int32(r), C.GoString(C.cu_error_text(d.c, r)))
}

// NumDevices returns how many devices this process may use.
func (d *Driver) NumDevices() (int, error) {
	var n C.int
	err := d.check("NumDevices", C.cu_device_count(d.c, &n))
	return int(n), err
}

// GetDevice returns the device with that index, from 0.
func (d *Driver) GetDevice(index int) (Device, error) {
	var h C.cu_device
	err := d.check("GetDevice", C.cu_device_get(d.c, &h, C.int(index)))
	return Device{d, h}, err
}
