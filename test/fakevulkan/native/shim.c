// A Vulkan loader that stands before the real one, REAL, and makes a device fail on demand. CONTROL is a file that a test
// changes and this process maps: the number in it rises with each fault, so that each process fails once and the next
// one that is started is sound again. What "always" names holds for every process.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LOSE = 1, EXHAUST = 2, HANG = 3, IDLE = 4 };
enum { OUT_OF_DEVICE_MEMORY = -2, DEVICE_LOST = -4 };

typedef struct {
	_Atomic uint32_t number, fault, skip, always;
} control;

typedef void (*function)(void);
typedef function (*finder)(void *, const char *);

static struct {
	control *control;
	uint32_t begun;
	_Atomic uint32_t calls;
	finder instance, device;
	int32_t (*submit)(void *, uint32_t, const void *, uint64_t);
	int32_t (*allocate)(void *, const void *, const void *, uint64_t *);
	void (*dispatch)(void *, uint32_t, uint32_t, uint32_t);
} shim;

__attribute__((constructor)) static void begin(void) {
	void *real = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
	int fd = open(CONTROL, O_RDONLY | O_CLOEXEC);
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(control), PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0) close(fd);
	if (real != NULL) *(void **)&shim.instance = dlsym(real, "vkGetInstanceProcAddr");
	if (page != MAP_FAILED) {
		shim.control = page;
		shim.begun = shim.control->number;
	}
}

// fails tells whether a fault of this kind was asked for since the process began.
static int fails(uint32_t fault) {
	control *c = shim.control;
	if (c != NULL && c->always == fault) return 1;
	if (c == NULL || c->number == shim.begun || c->fault != fault) return 0;
	return atomic_fetch_add(&shim.calls, 1) >= c->skip;
}

static int32_t submit(void *queue, uint32_t n, const void *list, uint64_t fence) {
	if (fails(LOSE)) return DEVICE_LOST;
	while (fails(HANG)) pause();
	return shim.submit(queue, n, list, fence);
}

static int32_t allocate(void *device, const void *info, const void *allocator, uint64_t *memory) {
	if (fails(EXHAUST)) return OUT_OF_DEVICE_MEMORY;
	return shim.allocate(device, info, allocator, memory);
}

static void dispatch(void *buffer, uint32_t x, uint32_t y, uint32_t z) {
	if (!fails(IDLE)) shim.dispatch(buffer, x, y, z);
}

// wrapped returns what stands before a function, or the function.
static function wrapped(const char *name, function real) {
	if (real == NULL) return NULL;
	if (strcmp(name, "vkQueueSubmit") == 0) {
		*(function *)&shim.submit = real;
		return (function)submit;
	}
	if (strcmp(name, "vkAllocateMemory") == 0) {
		*(function *)&shim.allocate = real;
		return (function)allocate;
	}
	if (strcmp(name, "vkCmdDispatch") == 0) {
		*(function *)&shim.dispatch = real;
		return (function)dispatch;
	}
	return real;
}

static function find_of_device(void *device, const char *name) { return wrapped(name, shim.device(device, name)); }

function vkGetInstanceProcAddr(void *instance, const char *name) {
	if (shim.instance == NULL) return NULL;
	if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (function)vkGetInstanceProcAddr;
	function real = shim.instance(instance, name);
	if (real != NULL && strcmp(name, "vkGetDeviceProcAddr") == 0) {
		*(function *)&shim.device = real;
		return (function)find_of_device;
	}
	return wrapped(name, real);
}
