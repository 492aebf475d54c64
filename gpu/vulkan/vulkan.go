package vulkan

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "vulkan.h"
*/
import "C"

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// Loader is the Vulkan loader, opened. A process opens it once and keeps it.
type Loader struct {
	c    *C.vk_library
	path string
}

// Candidates returns the names under which the loader is looked for, in order: the configured path alone when there is
// one.
func Candidates(configured string) []string {
	if configured != "" {
		return []string{configured}
	}
	return []string{"libvulkan.so.1"}
}

// Open opens the first loader of candidates that there is. It opens no driver yet. Errors: Unavailable.
func Open(candidates []string) (*Loader, error) {
	const op = "vulkan.Open"
	for _, name := range candidates {
		c, path, message := open(name)
		if c != nil {
			return &Loader{c, path}, nil
		}
		if _, err := os.Stat(name); err == nil || !strings.Contains(message, "cannot open shared object file") {
			return nil, edgewise.Errorf(op, edgewise.Unavailable, "%s cannot be loaded as the Vulkan loader: %s", name, message)
		}
	}
	return nil, edgewise.Errorf(op, edgewise.Unavailable, "no Vulkan loader was found (%s)", strings.Join(candidates, ", "))
}

func open(name string) (l *C.vk_library, path, message string) {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	var cPath, cMessage *C.char
	l = C.vk_open(cName, &cPath, &cMessage)
	defer C.free(unsafe.Pointer(cPath))
	defer C.free(unsafe.Pointer(cMessage))
	return l, C.GoString(cPath), C.GoString(cMessage)
}

// Path is the file that was loaded.
func (l *Loader) Path() string { return l.path }

// Type is what kind of hardware a device is.
type Type string

// The types of devices, by Vulkan's numbers from 0.
const (
	Other      Type = "other"
	Integrated Type = "integrated"
	Discrete   Type = "discrete"
	Virtual    Type = "virtual"
	Software   Type = "software" // it computes on the processor
)

var types = []Type{Other, Integrated, Discrete, Virtual, Software}

// Device is what a device says of itself.
type Device struct {
	Name    string
	Vendor  string
	Type    Type
	Driver  string // name and version
	API     string // version of Vulkan, such as 1.3
	UUID    string // empty: it tells none
	BusID   string // on the PCI bus; empty: it tells none
	Memory  int64  // bytes of its own memory
	Major   int64  // of its device file for rendering; 0: it tells none
	Minor   int64
	Missing []string // what ONNX Runtime's provider for WebGPU needs of a device and this one lacks
}

// maxDevices bounds the devices of one driver that are listed.
const maxDevices = 16

// Devices has the loader open its drivers, which VK_DRIVER_FILES names, and lists their devices. It is called once.
// Errors: Unavailable, with Vulkan's reason.
func (l *Loader) Devices() ([]Device, error) {
	const op = "vulkan.Devices"
	if r := C.vk_connect(l.c); r != 0 {
		return nil, edgewise.Errorf(op, edgewise.Unavailable, "the Vulkan driver does not start: %s", reason(int32(r)))
	}
	list := make([]C.vk_description, maxDevices)
	n := C.uint32_t(maxDevices)
	if r := C.vk_list(l.c, &list[0], &n); r < 0 {
		return nil, edgewise.Errorf(op, edgewise.Unavailable, "the Vulkan driver lists no devices: %s", reason(int32(r)))
	}
	devices := make([]Device, n)
	for i := range devices {
		devices[i] = described(&list[i])
	}
	return devices, nil
}

func described(d *C.vk_description) Device {
	to := Device{
		Name: text(&d.name), Vendor: vendor(uint32(d.vendor)), Type: Other, API: version(uint32(d.api)),
		Driver: strings.TrimSpace(text(&d.driver_name) + " " + text(&d.driver_info)), Memory: int64(d.memory),
		Missing: missing(d),
	}
	if d._type >= 0 && int(d._type) < len(types) {
		to.Type = types[d._type]
	}
	if to.Driver == "" {
		to.Driver = version(uint32(d.driver))
	}
	if d.has_uuid != 0 {
		to.UUID = hex.EncodeToString(C.GoBytes(unsafe.Pointer(&d.uuid), C.int(len(d.uuid))))
	}
	if d.has_bus != 0 {
		to.BusID = fmt.Sprintf("%04x:%02x:%02x.%x", uint32(d.domain), uint32(d.bus), uint32(d.slot), uint32(d.function))
	}
	if d.has_node != 0 {
		to.Major, to.Minor = int64(d.node_major), int64(d.node_minor)
	}
	return to
}

// text reads a name, of which the last byte is 0.
func text(name *[C.VK_NAME]C.char) string { return C.GoString(&name[0]) }

// version returns a version as Vulkan packs it.
func version(v uint32) string { return fmt.Sprintf("%d.%d", v>>22&0x7f, v>>12&0x3ff) }

// vendors are by their numbers on the PCI bus, and by Khronos's for those without one.
var vendors = map[uint32]string{
	0x1002: "AMD", 0x1010: "Imagination", 0x106b: "Apple", 0x10de: "NVIDIA", 0x13b5: "Arm", 0x14e4: "Broadcom",
	0x1ae0: "Google", 0x1af4: "virtio", 0x5143: "Qualcomm", 0x8086: "Intel", 0x10005: "Mesa",
}

func vendor(number uint32) string {
	if name, ok := vendors[number]; ok {
		return name
	}
	return fmt.Sprintf("vendor %#x", number)
}

// results are those of Vulkan's errors that listing devices gives.
var results = map[int32]string{
	-1: "out of memory", -2: "out of memory of the device", -3: "its initialization failed", -4: "the device is lost",
	-9: "no driver was found that fits",
}

func reason(result int32) string {
	if text, ok := results[result]; ok {
		return fmt.Sprintf("%s (VkResult %d)", text, result)
	}
	return fmt.Sprintf("VkResult %d", result)
}
