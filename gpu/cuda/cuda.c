#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(F) \
	F(cuInit) F(cuDriverGetVersion) F(cuGetErrorName) F(cuGetErrorString) F(cuDeviceGetCount) F(cuDeviceGet) F(cuDeviceGetName) \
	F(cuDeviceGetUuid_v2) F(cuDeviceTotalMem_v2) F(cuDeviceGetAttribute) F(cuDeviceGetPCIBusId) F(cuDevicePrimaryCtxRetain) \
	F(cuDevicePrimaryCtxRelease_v2) F(cuCtxSetCurrent) F(cuCtxSynchronize) F(cuMemAlloc_v2) F(cuMemFree_v2) \
	F(cuMemHostAlloc) F(cuMemFreeHost) F(cuMemHostGetDevicePointer_v2) F(cuMemHostRegister_v2) F(cuMemHostUnregister) \
	F(cuMemsetD8Async) F(cuMemcpyHtoDAsync_v2) F(cuMemcpyDtoHAsync_v2) F(cuMemcpyHtoD_v2) \
	F(cuMemcpyDtoH_v2) F(cuStreamCreate) F(cuStreamDestroy_v2) F(cuStreamSynchronize) F(cuStreamWaitEvent) \
	F(cuEventCreate) F(cuEventRecord) F(cuEventSynchronize) F(cuEventDestroy_v2) \
	F(cuModuleLoadDataEx) F(cuModuleUnload) F(cuModuleGetFunction) F(cuLaunchKernel)

static char *text(const char *format, const char *a, const char *b) {
	char *s = NULL;
	if (asprintf(&s, format, a, b) < 0) return NULL;
	return s;
}

cu_driver *cu_open(const char *name, char **path, char **message) {
	// Everything is resolved now, so that a driver that lacks something is told here and not in the middle of a request.
	// Global, because CUDA's runtime library and ONNX Runtime's provider look the driver up by its name.
	void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	if (library == NULL) {
		*message = strdup(dlerror());
		return NULL;
	}
	cu_driver *d = calloc(1, sizeof *d);
	const char *missing = d == NULL ? "memory" : NULL;
#define RESOLVE(f) \
	if (missing == NULL && (*(void **)&d->f = dlsym(library, #f)) == NULL) missing = #f;
	FUNCTIONS(RESOLVE)
	if (missing != NULL) {
		*message = text("%s does not have %s", name, missing);
		free(d);
		return NULL;
	}
	Dl_info info;
	*path = strdup(dladdr(*(void **)&d->cuInit, &info) != 0 ? info.dli_fname : name);
	return d;
}

cu_result cu_init(cu_driver *d) { return d->cuInit(0); }
cu_result cu_driver_version(cu_driver *d, int *version) { return d->cuDriverGetVersion(version); }

const char *cu_error_name(cu_driver *d, cu_result r) {
	const char *s = NULL;
	return d->cuGetErrorName(r, &s) == 0 ? s : NULL;
}

const char *cu_error_text(cu_driver *d, cu_result r) {
	const char *s = NULL;
	return d->cuGetErrorString(r, &s) == 0 ? s : NULL;
}

cu_result cu_device_count(cu_driver *d, int *n) { return d->cuDeviceGetCount(n); }
cu_result cu_device_get(cu_driver *d, cu_device *device, int index) { return d->cuDeviceGet(device, index); }
cu_result cu_device_name(cu_driver *d, cu_device device, char *name, int size) { return d->cuDeviceGetName(name, size, device); }
cu_result cu_device_uuid(cu_driver *d, cu_device device, unsigned char *uuid) { return d->cuDeviceGetUuid_v2(uuid, device); }
cu_result cu_device_memory(cu_driver *d, cu_device device, size_t *bytes) { return d->cuDeviceTotalMem_v2(bytes, device); }
cu_result cu_device_attribute(cu_driver *d, cu_device device, int attribute, int *value) { return d->cuDeviceGetAttribute(value, attribute, device); }
cu_result cu_device_bus(cu_driver *d, cu_device device, char *id, int size) { return d->cuDeviceGetPCIBusId(id, size, device); }
cu_result cu_retain(cu_driver *d, cu_device device, cu_handle *context) { return d->cuDevicePrimaryCtxRetain(context, device); }
cu_result cu_release(cu_driver *d, cu_device device) { return d->cuDevicePrimaryCtxRelease_v2(device); }

// IN runs a call with the context current on this thread. A goroutine may be on any thread.
#define IN(call)                                   \
	do {                                           \
		cu_result r_ = d->cuCtxSetCurrent(context); \
		return r_ != 0 ? r_ : (call);              \
	} while (0)

cu_result cu_synchronize(cu_driver *d, cu_handle context) { IN(d->cuCtxSynchronize()); }
cu_result cu_alloc(cu_driver *d, cu_handle context, cu_ptr *p, size_t n) { IN(d->cuMemAlloc_v2(p, n)); }
cu_result cu_free(cu_driver *d, cu_handle context, cu_ptr p) { IN(d->cuMemFree_v2(p)); }
cu_result cu_host_alloc(cu_driver *d, cu_handle context, void **p, size_t n, unsigned flags) { IN(d->cuMemHostAlloc(p, n, flags)); }
cu_result cu_host_free(cu_driver *d, cu_handle context, void *p) { IN(d->cuMemFreeHost(p)); }
cu_result cu_host_register(cu_driver *d, cu_handle context, void *p, size_t n, unsigned flags) { IN(d->cuMemHostRegister_v2(p, n, flags)); }
cu_result cu_host_unregister(cu_driver *d, cu_handle context, void *p) { IN(d->cuMemHostUnregister(p)); }
cu_result cu_host_pointer(cu_driver *d, cu_handle context, void *p, cu_ptr *device) { IN(d->cuMemHostGetDevicePointer_v2(device, p, 0)); }
cu_result cu_set(cu_driver *d, cu_handle context, cu_ptr p, unsigned char value, size_t n, cu_handle stream) { IN(d->cuMemsetD8Async(p, value, n, stream)); }
cu_result cu_to_device(cu_driver *d, cu_handle context, cu_ptr to, const void *from, size_t n, cu_handle stream) { IN(d->cuMemcpyHtoDAsync_v2(to, from, n, stream)); }
cu_result cu_to_host(cu_driver *d, cu_handle context, void *to, cu_ptr from, size_t n, cu_handle stream) { IN(d->cuMemcpyDtoHAsync_v2(to, from, n, stream)); }
cu_result cu_to_device_now(cu_driver *d, cu_handle context, cu_ptr to, const void *from, size_t n) { IN(d->cuMemcpyHtoD_v2(to, from, n)); }
cu_result cu_to_host_now(cu_driver *d, cu_handle context, void *to, cu_ptr from, size_t n) { IN(d->cuMemcpyDtoH_v2(to, from, n)); }

enum { STREAM_NON_BLOCKING = 1 };

cu_result cu_stream(cu_driver *d, cu_handle context, cu_handle *stream) { IN(d->cuStreamCreate(stream, STREAM_NON_BLOCKING)); }
cu_result cu_stream_destroy(cu_driver *d, cu_handle context, cu_handle stream) { IN(d->cuStreamDestroy_v2(stream)); }
cu_result cu_stream_synchronize(cu_driver *d, cu_handle context, cu_handle stream) { IN(d->cuStreamSynchronize(stream)); }
cu_result cu_stream_wait(cu_driver *d, cu_handle context, cu_handle stream, cu_handle event) { IN(d->cuStreamWaitEvent(stream, event, 0)); }
cu_result cu_event(cu_driver *d, cu_handle context, cu_handle *event, unsigned flags) { IN(d->cuEventCreate(event, flags)); }
cu_result cu_event_destroy(cu_driver *d, cu_handle context, cu_handle event) { IN(d->cuEventDestroy_v2(event)); }
cu_result cu_event_record(cu_driver *d, cu_handle context, cu_handle event, cu_handle stream) { IN(d->cuEventRecord(event, stream)); }
cu_result cu_event_synchronize(cu_driver *d, cu_handle context, cu_handle event) { IN(d->cuEventSynchronize(event)); }
cu_result cu_module_unload(cu_driver *d, cu_handle context, cu_handle module) { IN(d->cuModuleUnload(module)); }
cu_result cu_function(cu_driver *d, cu_handle context, cu_handle *function, cu_handle module, const char *name) { IN(d->cuModuleGetFunction(function, module, name)); }

enum { JIT_ERROR_LOG = 5, JIT_ERROR_LOG_SIZE = 6 };

cu_result cu_module(cu_driver *d, cu_handle context, cu_handle *module, const void *image, char *log) {
	int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE};
	void *values[] = {log, (void *)(uintptr_t)(CU_LOG_SIZE - 1)};
	memset(log, 0, CU_LOG_SIZE);
	IN(d->cuModuleLoadDataEx(module, image, 2, options, values));
}

cu_result cu_launch(cu_driver *d, cu_handle context, cu_handle function, const uint32_t grid[3], const uint32_t block[3], uint32_t shared, cu_handle stream, const uint64_t *arguments, int n) {
	void *list[CU_MAX_ARGUMENTS];
	for (int i = 0; i < n; i++) list[i] = (void *)&arguments[i];
	IN(d->cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream, list, NULL));
}
