package edgewise

import (
	"errors"
	"fmt"
)

// DeviceKind tells devices apart by what runs on them.
type DeviceKind uint8

// The kinds of device.
const (
	CPU    DeviceKind = iota
	GPU               // by CUDA
	Vulkan            // a GPU of any vendor, by its Vulkan driver
)

// Device is a place where an instance runs. The zero value is the CPU.
type Device struct {
	Kind  DeviceKind
	Index int // which one of its kind, from 0; always 0 for the CPU
}

// String returns "cpu", "gpu" or "vulkan".
func (k DeviceKind) String() string { return [...]string{"cpu", "gpu", "vulkan"}[min(k, Vulkan)] }

// String returns "cpu", "gpu:0" or "vulkan:0".
func (d Device) String() string {
	if d.Kind == CPU {
		return "cpu"
	}
	return fmt.Sprintf("%v:%d", d.Kind, d.Index)
}

// MarshalText returns it as String does.
func (d Device) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText returns. Error: Invalid.
func (d *Device) UnmarshalText(text []byte) error {
	for _, kind := range []DeviceKind{CPU, GPU, Vulkan} {
		*d = Device{Kind: kind}
		if _, err := fmt.Sscanf(string(text), kind.String()+":%d", &d.Index); d.String() == string(text) && d.Index >= 0 &&
			(err == nil || kind == CPU) {
			return nil
		}
	}
	return Errorf("edgewise.Device", Invalid, "%.64q is no device", text)
}

// DeviceLost tells whether err, or an error that it wraps, says by a method DeviceLost that a device has failed so that
// nothing runs on it any more in this process. The process ends then, and another one may use the device again.
func DeviceLost(err error) bool {
	var lost interface{ DeviceLost() bool }
	return errors.As(err, &lost) && lost.DeviceLost()
}
