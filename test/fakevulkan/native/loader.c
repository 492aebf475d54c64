// A Vulkan loader with COUNT devices, DEVICES, that can only be listed.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	uint32_t vendor;
	int type, api, missing, memory;
} devices[COUNT + 1] = {DEVICES};

typedef void (*function)(void);

static int32_t create(const void *info, const void *allocator, void **instance) {
	*instance = (void *)devices;
	return RESULT;
}

static int32_t enumerate(void *instance, uint32_t *n, const void **list) {
	if (*n > COUNT) *n = COUNT;
	for (uint32_t i = 0; i < *n; i++) list[i] = &devices[i];
	return 0;
}

static size_t number(const void *device) { return ((const char *)device - (const char *)devices) / sizeof devices[0]; }

typedef struct {
	uint32_t api, driver, vendor, id;
	int32_t type;
	char name[256];
	uint64_t rest[66];
} properties;

static void describe(const void *device, properties *p) {
	size_t i = number(device);
	p->api = 1u << 22 | (uint32_t)devices[i].api << 12;
	p->driver = 25u << 22;
	p->vendor = devices[i].vendor;
	p->type = devices[i].type;
	strncpy(p->name, devices[i].name, sizeof p->name - 1);
}

// header begins every structure that follows another one.
typedef struct header {
	int32_t type;
	struct header *next;
} header;

static void describe2(const void *device, header *h) {
	enum { ID = 1000071004, DRIVER = 1000196000, BUS = 1000212000, DRM = 1000353000 };
	describe(device, (properties *)(h + 1));
	for (header *next = h->next; next != NULL; next = next->next) {
		void *data = next + 1;
		switch (next->type) {
		case ID: memset(data, 0xa0 + (int)number(device), 16); break;
		case DRIVER: strcpy((char *)data + 4, "fakev"), strcpy((char *)data + 4 + 256, "25.0.7"); break;
		case BUS: memcpy(data, (uint32_t[]){0, 3, 0, (uint32_t)number(device)}, 16); break;
		case DRM: memcpy(data, (uint32_t[]){1, 1}, 8), memcpy((char *)data + 8, (int64_t[]){226, 0, 226, 128}, 32); break;
		}
	}
}

static int32_t extensions(const void *device, const char *layer, uint32_t *n, char (*list)[260]) {
	static const char *names[] = {"VK_EXT_physical_device_drm", "VK_EXT_pci_bus_info"};
	if (list == NULL) *n = 2;
	for (uint32_t i = 0; list != NULL && i < *n && i < 2; i++) strcpy(list[i], names[i]);
	return 0;
}

static void features(const void *device, uint32_t *list) {
	for (int i = 0; i < 55; i++) list[i] = i != devices[number(device)].missing;
}

static void memory(const void *device, char *m) {
	uint64_t size = (uint64_t)devices[number(device)].memory << 20;
	memcpy(m + 260, (uint32_t[]){2}, 4); // heaps: of the machine, and its own
	memcpy(m + 264, &(uint64_t){1 << 30}, 8);
	memcpy(m + 280, &size, 8);
	memcpy(m + 288, (uint32_t[]){1}, 4);
}

function vkGetInstanceProcAddr(void *instance, const char *name) {
	static const struct {
		const char *name;
		function f;
	} list[] = {
		{"vkCreateInstance", (function)create},
		{"vkEnumeratePhysicalDevices", (function)enumerate},
		{"vkEnumerateDeviceExtensionProperties", (function)extensions},
		{"vkGetPhysicalDeviceProperties", (function)describe},
		{"vkGetPhysicalDeviceProperties2", (function)describe2},
		{"vkGetPhysicalDeviceFeatures", (function)features},
		{"vkGetPhysicalDeviceMemoryProperties", (function)memory},
	};
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		if (strcmp(list[i].name, name) == 0) return list[i].f;
	}
	return NULL;
}
