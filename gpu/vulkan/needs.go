package vulkan

/*
#include "vulkan.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
)

// need is a feature of a device by its name in Vulkan and its place in VkPhysicalDeviceFeatures.
type need struct {
	name string
	at   int
}

// needs are the features without which Dawn, on which ONNX Runtime's provider for WebGPU stands, takes no device. The
// provider itself says of such a device only that there is none.
var needs = []need{
	{"robustBufferAccess", 0},
	{"fullDrawIndexUint32", 1},
	{"imageCubeArray", 2},
	{"independentBlend", 3},
	{"sampleRateShading", 6},
	{"depthBiasClamp", 12},
	{"fragmentStoresAndAtomics", 26},
	{"shaderUniformBufferArrayDynamicIndexing", 33},
	{"shaderSampledImageArrayDynamicIndexing", 34},
	{"shaderStorageBufferArrayDynamicIndexing", 35},
	{"shaderStorageImageArrayDynamicIndexing", 36},
}

// textures are the compressed formats of which a device must have the first, or both others.
var textures = []need{{"textureCompressionBC", 22}, {"textureCompressionETC2", 20}, {"textureCompressionASTC_LDR", 21}}

const oldestAPI = 1<<22 | 1<<12 // Vulkan 1.1

// missing returns what a device lacks.
func missing(d *C.vk_description) []string {
	var list []string
	if d.api < oldestAPI {
		list = append(list, fmt.Sprintf("Vulkan 1.1 (it has %s)", version(uint32(d.api))))
	}
	has := func(n need) bool { return d.features[n.at] != 0 }
	for _, n := range needs {
		if !has(n) {
			list = append(list, n.name)
		}
	}
	if !has(textures[0]) && slices.ContainsFunc(textures[1:], func(n need) bool { return !has(n) }) {
		list = append(list, textures[0].name)
	}
	return list
}

// Lacks says in words what ONNX Runtime's provider needs of d; empty: nothing.
func (d *Device) Lacks() string { return strings.Join(d.Missing, ", ") }
