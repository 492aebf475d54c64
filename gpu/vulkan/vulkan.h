// The part of Vulkan's interface that lists devices, declared here: no header of Vulkan is needed to build.
#ifndef EDGEWISE_VULKAN_H
#define EDGEWISE_VULKAN_H

#include <stdint.h>

enum { VK_NAME = 256, VK_FEATURES = 55 };

typedef struct vk_library vk_library;

// vk_description is what a device says of itself.
typedef struct {
	uint32_t api, driver, vendor, id;
	int32_t type;
	char name[VK_NAME], driver_name[VK_NAME], driver_info[VK_NAME];
	uint64_t memory;               // bytes of its own memory
	uint32_t features[VK_FEATURES]; // VkPhysicalDeviceFeatures, in its order
	uint8_t uuid[16];
	int32_t has_uuid, has_bus, has_node;
	uint32_t domain, bus, slot, function; // on the PCI bus
	int64_t node_major, node_minor;       // of the device file for rendering
} vk_description;

// vk_open opens the loader. path is set to the file; message says why it could not be, to be freed like path.
vk_library *vk_open(const char *name, char **path, char **message);

// vk_connect makes an instance, which has the loader open its drivers. It returns a VkResult.
int32_t vk_connect(vk_library *l);

// vk_list describes at most n devices and sets n to how many there were.
int32_t vk_list(vk_library *l, vk_description *list, uint32_t *n);

#endif
