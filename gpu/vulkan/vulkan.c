#define _GNU_SOURCE
#include "vulkan.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Structures of vulkan_core.h, by its names without "Vk".
enum {
	APPLICATION_INFO = 0,
	INSTANCE_CREATE_INFO = 1,
	PROPERTIES_2 = 1000059001,
	ID_PROPERTIES = 1000071004,
	DRIVER_PROPERTIES = 1000196000,
	PCI_BUS_PROPERTIES = 1000212000,
	DRM_PROPERTIES = 1000353000,
};

enum { VERSION_1_1 = 1 << 22 | 1 << 12, VERSION_1_2 = 1 << 22 | 2 << 12, INCOMPLETE = 5, DEVICE_LOCAL = 1 };

typedef struct {
	int32_t type;
	const void *next;
	const char *application;
	uint32_t application_version;
	const char *engine;
	uint32_t engine_version, api_version;
} application_info;

typedef struct {
	int32_t type;
	const void *next;
	uint32_t flags;
	const application_info *application;
	uint32_t layers;
	const char *const *layer_names;
	uint32_t extensions;
	const char *const *extension_names;
} instance_create_info;

typedef struct {
	uint32_t api, driver, vendor, id;
	int32_t type;
	char name[VK_NAME];
	uint8_t cache_uuid[16];
	uint64_t limits[63];
	uint32_t sparse[5];
} properties;
_Static_assert(sizeof(properties) == 824, "VkPhysicalDeviceProperties");

typedef struct {
	int32_t type;
	void *next;
	properties of;
} properties2;

typedef struct {
	int32_t type;
	void *next;
	uint8_t device[16], driver[16], luid[8];
	uint32_t node_mask, luid_valid;
} id_properties;

typedef struct {
	int32_t type;
	void *next;
	int32_t id;
	char name[VK_NAME], info[VK_NAME];
	uint8_t conformance[4];
} driver_properties;

typedef struct {
	int32_t type;
	void *next;
	uint32_t domain, bus, slot, function;
} bus_properties;

typedef struct {
	int32_t type;
	void *next;
	uint32_t has_primary, has_render;
	int64_t primary_major, primary_minor, render_major, render_minor;
} drm_properties;

typedef struct {
	uint32_t types;
	uint32_t type[32][2];
	uint32_t heaps;
	struct {
		uint64_t size;
		uint32_t flags;
	} heap[16];
} memory_properties;

typedef struct {
	char name[VK_NAME];
	uint32_t version;
} extension;

typedef void *instance;
typedef void *device;
typedef void (*function)(void);

struct vk_library {
	function (*find)(instance, const char *);
	instance instance;
	int32_t (*devices)(instance, uint32_t *, device *);
	int32_t (*extensions)(device, const char *, uint32_t *, extension *);
	void (*properties)(device, properties *);
	void (*properties2)(device, properties2 *);
	void (*features)(device, uint32_t *);
	void (*memory)(device, memory_properties *);
};

vk_library *vk_open(const char *name, char **path, char **message) {
	// Global, because ONNX Runtime looks the loader up by its name.
	void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	if (library == NULL) {
		*message = strdup(dlerror());
		return NULL;
	}
	vk_library *l = calloc(1, sizeof *l);
	if (l == NULL) return NULL;
	*(void **)&l->find = dlsym(library, "vkGetInstanceProcAddr");
	if (l->find == NULL) {
		*message = strdup("it does not have vkGetInstanceProcAddr, so it is no Vulkan loader");
		free(l);
		return NULL;
	}
	Dl_info info;
	*path = strdup(dladdr(*(void **)&l->find, &info) != 0 ? info.dli_fname : name);
	return l;
}

int32_t vk_connect(vk_library *l) {
	enum { INITIALIZATION_FAILED = -3 };
	application_info a = {.type = APPLICATION_INFO, .application = "edgewise", .engine = "edgewise", .api_version = VERSION_1_1};
	instance_create_info c = {.type = INSTANCE_CREATE_INFO, .application = &a};
	int32_t (*create)(const instance_create_info *, const void *, instance *);
	*(function *)&create = l->find(NULL, "vkCreateInstance");
	if (create == NULL) return INITIALIZATION_FAILED;
	int32_t result = create(&c, NULL, &l->instance);
	if (result != 0) return result;
#define FIND(field, name) \
	if ((*(function *)&l->field = l->find(l->instance, name)) == NULL) return INITIALIZATION_FAILED
	FIND(devices, "vkEnumeratePhysicalDevices");
	FIND(extensions, "vkEnumerateDeviceExtensionProperties");
	FIND(properties, "vkGetPhysicalDeviceProperties");
	FIND(properties2, "vkGetPhysicalDeviceProperties2");
	FIND(features, "vkGetPhysicalDeviceFeatures");
	FIND(memory, "vkGetPhysicalDeviceMemoryProperties");
	return 0;
}

// has tells whether a device has an extension.
static int has(const extension *list, uint32_t n, const char *name) {
	for (uint32_t i = 0; i < n; i++) {
		if (strncmp(list[i].name, name, VK_NAME) == 0) return 1;
	}
	return 0;
}

// more asks a device for what its extensions tell.
static void more(vk_library *l, device d, vk_description *to) {
	uint32_t n = 0;
	if (l->extensions(d, NULL, &n, NULL) < 0 || n > 4096) n = 0;
	extension *list = calloc(n + 1, sizeof *list);
	if (list == NULL || l->extensions(d, NULL, &n, list) < 0) n = 0;
	drm_properties drm = {.type = DRM_PROPERTIES};
	bus_properties bus = {.type = PCI_BUS_PROPERTIES};
	driver_properties driver = {.type = DRIVER_PROPERTIES};
	id_properties id = {.type = ID_PROPERTIES};
	properties2 all = {.type = PROPERTIES_2, .next = &id};
	to->has_uuid = 1;
	if ((to->has_node = has(list, n, "VK_EXT_physical_device_drm"))) {
		drm.next = all.next;
		all.next = &drm;
	}
	if ((to->has_bus = has(list, n, "VK_EXT_pci_bus_info"))) {
		bus.next = all.next;
		all.next = &bus;
	}
	if (to->api >= VERSION_1_2 || has(list, n, "VK_KHR_driver_properties")) {
		driver.next = all.next;
		all.next = &driver;
	}
	l->properties2(d, &all);
	memcpy(to->uuid, id.device, sizeof to->uuid);
	memcpy(to->driver_name, driver.name, VK_NAME - 1);
	memcpy(to->driver_info, driver.info, VK_NAME - 1);
	to->domain = bus.domain, to->bus = bus.bus, to->slot = bus.slot, to->function = bus.function;
	to->has_node = to->has_node && drm.has_render;
	to->node_major = drm.render_major, to->node_minor = drm.render_minor;
	free(list);
}

static void describe(vk_library *l, device d, vk_description *to) {
	properties p = {0};
	memory_properties m = {0};
	l->properties(d, &p);
	to->api = p.api, to->driver = p.driver, to->vendor = p.vendor, to->id = p.id, to->type = p.type;
	memcpy(to->name, p.name, VK_NAME - 1);
	l->features(d, to->features);
	l->memory(d, &m);
	for (uint32_t i = 0; i < m.heaps && i < 16; i++) {
		if (m.heap[i].flags & DEVICE_LOCAL) to->memory += m.heap[i].size;
	}
	if (p.api >= VERSION_1_1) more(l, d, to);
}

int32_t vk_list(vk_library *l, vk_description *list, uint32_t *n) {
	device *devices = calloc(*n + 1, sizeof *devices);
	if (devices == NULL) return -1;
	int32_t result = l->devices(l->instance, n, devices);
	for (uint32_t i = 0; i < *n && result >= 0; i++) describe(l, devices[i], &list[i]);
	free(devices);
	return result;
}
