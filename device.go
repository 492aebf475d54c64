package edgewise

import (
	"errors"
	"fmt"
)

// DeviceKind tells devices apart by what runs on them.
type DeviceKind uint8

// The kinds of device.
const (
	CPU DeviceKind = iota
	GPU
)

// Device is a place where an instance runs. The zero value is the CPU.
type Device struct {
	Kind  DeviceKind
	Index int // which GPU, from 0; always 0 for the CPU
}

// String returns "cpu" or "gpu:0".
func (d Device) String() string {
	if d.Kind == CPU {
		return "cpu"
	}
	return fmt.Sprintf("gpu:%d", d.Index)
}

// DeviceLost tells whether err, or an error that it wraps, says by a method DeviceLost that a device has failed so that
// nothing runs on it any more in this process. The process ends then, and another one may use the device again.
func DeviceLost(err error) bool {
	var lost interface{ DeviceLost() bool }
	return errors.As(err, &lost) && lost.DeviceLost()
}
