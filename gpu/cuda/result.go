package cuda

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

// Result is an error number of the driver.
type Result int32

// The numbers that are told apart by name.
const (
	InvalidValue               Result = 1
	OutOfMemory                Result = 2
	NotInitialized             Result = 3
	Deinitialized              Result = 4
	DevicesUnavailable         Result = 46
	NoDevice                   Result = 100
	InvalidDevice              Result = 101
	InvalidImage               Result = 200
	InvalidContext             Result = 201
	NoBinaryForGPU             Result = 209
	ECCUncorrectable           Result = 214
	InvalidPTX                 Result = 218
	NVLinkUncorrectable        Result = 220
	UnsupportedPTXVersion      Result = 222
	InvalidHandle              Result = 400
	NotFound                   Result = 500
	NotReady                   Result = 600
	IllegalAddress             Result = 700
	LaunchOutOfResources       Result = 701
	LaunchTimeout              Result = 702
	ContextIsDestroyed         Result = 709
	Assert                     Result = 710
	HardwareStackError         Result = 714
	IllegalInstruction         Result = 715
	MisalignedAddress          Result = 716
	InvalidAddressSpace        Result = 717
	InvalidPC                  Result = 718
	LaunchFailed               Result = 719
	SystemNotReady             Result = 802
	SystemDriverMismatch       Result = 803
	CompatNotSupportedOnDevice Result = 804
	Unknown                    Result = 999
)

// names are used where the driver itself has no name for a number.
var names = map[Result]string{
	InvalidValue: "invalid value", OutOfMemory: "out of memory", NotInitialized: "not initialized", Deinitialized: "deinitialized",
	DevicesUnavailable: "devices unavailable", NoDevice: "no device", InvalidDevice: "invalid device", InvalidImage: "invalid image",
	InvalidContext: "invalid context", NoBinaryForGPU: "no binary for this GPU", ECCUncorrectable: "uncorrectable memory error",
	InvalidPTX: "invalid PTX", NVLinkUncorrectable: "uncorrectable NVLink error", UnsupportedPTXVersion: "unsupported PTX version",
	InvalidHandle: "invalid handle", NotFound: "not found", NotReady: "not ready", IllegalAddress: "illegal address",
	LaunchOutOfResources: "launch out of resources", LaunchTimeout: "launch timed out", ContextIsDestroyed: "context is destroyed",
	Assert: "assertion on the device", HardwareStackError: "hardware stack error", IllegalInstruction: "illegal instruction",
	MisalignedAddress: "misaligned address", InvalidAddressSpace: "invalid address space", InvalidPC: "invalid program counter",
	LaunchFailed: "launch failed", SystemNotReady: "system not ready", SystemDriverMismatch: "driver and its library do not match",
	CompatNotSupportedOnDevice: "compatibility mode not supported on this device", Unknown: "unknown error",
}

// Class says what the receiver of a Result can do about it.
type Class uint8

// The classes.
const (
	Other     Class = iota // this call failed; others may not
	Retryable              // memory is used up; it may work when some is free again
	Usage                  // our own bug
	Absent                 // there is no device that works, or none for this process
	Sticky                 // the context is dead, and every further call of this process fails
)

// String returns the class's name.
func (c Class) String() string {
	return [...]string{"other", "retryable", "usage", "absent", "sticky"}[c]
}

// Class returns the class of r.
func (r Result) Class() Class {
	switch r {
	case OutOfMemory:
		return Retryable
	case InvalidValue, InvalidContext, InvalidHandle, NotFound, NotInitialized:
		return Usage
	case NoDevice, InvalidDevice, DevicesUnavailable, SystemNotReady, SystemDriverMismatch, CompatNotSupportedOnDevice:
		return Absent
	case ECCUncorrectable, NVLinkUncorrectable, IllegalAddress, LaunchTimeout, ContextIsDestroyed, Assert, HardwareStackError,
		IllegalInstruction, MisalignedAddress, InvalidAddressSpace, InvalidPC, LaunchFailed, Deinitialized, Unknown:
		return Sticky
	}
	return Other
}

// Error returns a name for r, and its number.
func (r Result) Error() string {
	if name, ok := names[r]; ok {
		return fmt.Sprintf("%s (CUDA error %d)", name, int32(r))
	}
	return fmt.Sprintf("CUDA error %d", int32(r))
}

// DeviceLost tells whether nothing runs on the device any more in this process; see edgewise.DeviceLost.
func (r Result) DeviceLost() bool { return r.Class() == Sticky }

// kind returns the error kind of a Result.
func (r Result) kind() edgewise.Kind {
	switch r.Class() {
	case Retryable:
		return edgewise.Exhausted
	case Absent, Sticky:
		return edgewise.Unavailable
	}
	return edgewise.Internal
}

// failed makes an error of a call that did not return success. errors.As finds its Result.
func failed(call string, code int32, text string) error {
	r := Result(code)
	if text == "" {
		return edgewise.Errorf("cuda."+call, r.kind(), "%s: %w", call, r)
	}
	return edgewise.Errorf("cuda."+call, r.kind(), "%s: %w: %s", call, r, text)
}
