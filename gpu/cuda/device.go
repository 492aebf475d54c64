package cuda

/*
#include "cuda.h"
*/
import "C"

import "fmt"

// Device is one GPU. It is a value and needs no closing.
type Device struct {
	driver *Driver
	handle C.cu_device
}

// DeviceAttribute is a number by which the driver knows a property of a device.
type DeviceAttribute int

// The attributes that are asked for.
const (
	MultiprocessorCount    DeviceAttribute = 16
	Integrated             DeviceAttribute = 18 // 1: it uses the memory of the CPU
	ComputeCapabilityMajor DeviceAttribute = 75
	ComputeCapabilityMinor DeviceAttribute = 76
)

// Attribute returns a property of the device.
func (d Device) Attribute(a DeviceAttribute) (int, error) {
	var v C.int
	err := d.driver.check("Attribute", C.cu_device_attribute(d.driver.c, d.handle, C.int(a), &v))
	return int(v), err
}

// Name returns the device's name, such as "NVIDIA L4".
func (d Device) Name() (string, error) {
	var name [256]C.char
	err := d.driver.check("Name", C.cu_device_name(d.driver.c, d.handle, &name[0], C.int(len(name)-1)))
	return C.GoString(&name[0]), err
}

// UUID returns the device's identity, in the form that NVML uses: "GPU-8b2f...".
func (d Device) UUID() (string, error) {
	var u [16]C.uchar
	if err := d.driver.check("UUID", C.cu_device_uuid(d.driver.c, d.handle, &u[0])); err != nil {
		return "", err
	}
	return fmt.Sprintf("GPU-%02x-%02x-%02x-%02x-%02x", bytes(u[:4]), bytes(u[4:6]), bytes(u[6:8]), bytes(u[8:10]),
		bytes(u[10:])), nil
}

func bytes(from []C.uchar) []byte {
	to := make([]byte, len(from))
	for i, b := range from {
		to[i] = byte(b)
	}
	return to
}

// PCIBusID returns where the device is: "0000:01:00.0". Devices that are not on a PCI bus fail or return a made-up one.
func (d Device) PCIBusID() (string, error) {
	var id [32]C.char
	err := d.driver.check("PCIBusID", C.cu_device_bus(d.driver.c, d.handle, &id[0], C.int(len(id)-1)))
	return C.GoString(&id[0]), err
}

// TotalMem returns the bytes of the device's memory.
func (d Device) TotalMem() (int64, error) {
	var n C.size_t
	err := d.driver.check("TotalMem", C.cu_device_memory(d.driver.c, d.handle, &n))
	return int64(n), err
}

// ComputeCapability returns the generation of the device: 9, 0.
func (d Device) ComputeCapability() (major, minor int, err error) {
	if major, err = d.Attribute(ComputeCapabilityMajor); err != nil {
		return 0, 0, err
	}
	minor, err = d.Attribute(ComputeCapabilityMinor)
	return major, minor, err
}

// Retain returns the device's primary context, which takes some hundred MiB of its memory when nobody in this process
// has it yet.
func (d Device) Retain() (*Ctx, error) {
	c := &Ctx{driver: d.driver, device: d}
	if err := d.driver.check("Retain", C.cu_retain(d.driver.c, d.handle, &c.handle)); err != nil {
		return nil, err
	}
	integrated, err := d.Attribute(Integrated)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	c.integrated = integrated != 0
	return c, nil
}
