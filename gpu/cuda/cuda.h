// The CUDA driver, opened at run time. One call crosses from Go to C for one operation: it makes the context current on the
// calling thread and calls the driver.
#ifndef EDGEWISE_CUDA_H
#define EDGEWISE_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t cu_result;
typedef int32_t cu_device;
typedef uint64_t cu_ptr;
typedef void *cu_handle;

// cu_driver is the driver's functions by the names that the driver exports them under, suffixes included: the names without
// a suffix are those of an older binary interface.
typedef struct cu_driver {
	cu_result (*cuInit)(unsigned);
	cu_result (*cuDriverGetVersion)(int *);
	cu_result (*cuGetErrorName)(cu_result, const char **);
	cu_result (*cuGetErrorString)(cu_result, const char **);
	cu_result (*cuDeviceGetCount)(int *);
	cu_result (*cuDeviceGet)(cu_device *, int);
	cu_result (*cuDeviceGetName)(char *, int, cu_device);
	cu_result (*cuDeviceGetUuid_v2)(unsigned char *, cu_device);
	cu_result (*cuDeviceTotalMem_v2)(size_t *, cu_device);
	cu_result (*cuDeviceGetAttribute)(int *, int, cu_device);
	cu_result (*cuDeviceGetPCIBusId)(char *, int, cu_device);
	cu_result (*cuDevicePrimaryCtxRetain)(cu_handle *, cu_device);
	cu_result (*cuDevicePrimaryCtxRelease_v2)(cu_device);
	cu_result (*cuCtxSetCurrent)(cu_handle);
	cu_result (*cuCtxSynchronize)(void);
	cu_result (*cuMemAlloc_v2)(cu_ptr *, size_t);
	cu_result (*cuMemFree_v2)(cu_ptr);
	cu_result (*cuMemHostAlloc)(void **, size_t, unsigned);
	cu_result (*cuMemFreeHost)(void *);
	cu_result (*cuMemHostGetDevicePointer_v2)(cu_ptr *, void *, unsigned);
	cu_result (*cuMemHostRegister_v2)(void *, size_t, unsigned);
	cu_result (*cuMemHostUnregister)(void *);
	cu_result (*cuMemsetD8Async)(cu_ptr, unsigned char, size_t, cu_handle);
	cu_result (*cuMemcpyHtoDAsync_v2)(cu_ptr, const void *, size_t, cu_handle);
	cu_result (*cuMemcpyDtoHAsync_v2)(void *, cu_ptr, size_t, cu_handle);
	cu_result (*cuMemcpyHtoD_v2)(cu_ptr, const void *, size_t);
	cu_result (*cuMemcpyDtoH_v2)(void *, cu_ptr, size_t);
	cu_result (*cuStreamCreate)(cu_handle *, unsigned);
	cu_result (*cuStreamDestroy_v2)(cu_handle);
	cu_result (*cuStreamSynchronize)(cu_handle);
	cu_result (*cuStreamWaitEvent)(cu_handle, cu_handle, unsigned);
	cu_result (*cuEventCreate)(cu_handle *, unsigned);
	cu_result (*cuEventRecord)(cu_handle, cu_handle);
	cu_result (*cuEventSynchronize)(cu_handle);
	cu_result (*cuEventDestroy_v2)(cu_handle);
	cu_result (*cuModuleLoadDataEx)(cu_handle *, const void *, unsigned, int *, void **);
	cu_result (*cuModuleUnload)(cu_handle);
	cu_result (*cuModuleGetFunction)(cu_handle *, cu_handle, const char *);
	cu_result (*cuLaunchKernel)(cu_handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cu_handle, void **, void **);
} cu_driver;

enum { CU_MAX_ARGUMENTS = 16, CU_LOG_SIZE = 4096 };

// cu_open loads a driver library. It returns NULL and a message to be freed, or the driver and the path that was loaded,
// also to be freed. A library that was opened stays open: the driver does not stand being unloaded.
cu_driver *cu_open(const char *name, char **path, char **message);

cu_result cu_init(cu_driver *d);
cu_result cu_driver_version(cu_driver *d, int *version);
const char *cu_error_name(cu_driver *d, cu_result r);
const char *cu_error_text(cu_driver *d, cu_result r);
cu_result cu_device_count(cu_driver *d, int *n);
cu_result cu_device_get(cu_driver *d, cu_device *device, int index);
cu_result cu_device_name(cu_driver *d, cu_device device, char *name, int size);
cu_result cu_device_uuid(cu_driver *d, cu_device device, unsigned char *uuid);
cu_result cu_device_memory(cu_driver *d, cu_device device, size_t *bytes);
cu_result cu_device_attribute(cu_driver *d, cu_device device, int attribute, int *value);
cu_result cu_device_bus(cu_driver *d, cu_device device, char *id, int size);
cu_result cu_retain(cu_driver *d, cu_device device, cu_handle *context);
cu_result cu_release(cu_driver *d, cu_device device);

// The rest makes the context current first.
cu_result cu_synchronize(cu_driver *d, cu_handle context);
cu_result cu_alloc(cu_driver *d, cu_handle context, cu_ptr *p, size_t n);
cu_result cu_free(cu_driver *d, cu_handle context, cu_ptr p);
cu_result cu_host_alloc(cu_driver *d, cu_handle context, void **p, size_t n, unsigned flags);
cu_result cu_host_free(cu_driver *d, cu_handle context, void *p);
cu_result cu_host_register(cu_driver *d, cu_handle context, void *p, size_t n, unsigned flags);
cu_result cu_host_unregister(cu_driver *d, cu_handle context, void *p);
cu_result cu_host_pointer(cu_driver *d, cu_handle context, void *p, cu_ptr *device);
cu_result cu_set(cu_driver *d, cu_handle context, cu_ptr p, unsigned char value, size_t n, cu_handle stream);
cu_result cu_to_device(cu_driver *d, cu_handle context, cu_ptr to, const void *from, size_t n, cu_handle stream);
cu_result cu_to_host(cu_driver *d, cu_handle context, void *to, cu_ptr from, size_t n, cu_handle stream);
cu_result cu_to_device_now(cu_driver *d, cu_handle context, cu_ptr to, const void *from, size_t n);
cu_result cu_to_host_now(cu_driver *d, cu_handle context, void *to, cu_ptr from, size_t n);
cu_result cu_stream(cu_driver *d, cu_handle context, cu_handle *stream);
cu_result cu_stream_destroy(cu_driver *d, cu_handle context, cu_handle stream);
cu_result cu_stream_synchronize(cu_driver *d, cu_handle context, cu_handle stream);
cu_result cu_stream_wait(cu_driver *d, cu_handle context, cu_handle stream, cu_handle event);
cu_result cu_event(cu_driver *d, cu_handle context, cu_handle *event, unsigned flags);
cu_result cu_event_destroy(cu_driver *d, cu_handle context, cu_handle event);
cu_result cu_event_record(cu_driver *d, cu_handle context, cu_handle event, cu_handle stream);
cu_result cu_event_synchronize(cu_driver *d, cu_handle context, cu_handle event);
// cu_module loads PTX or a cubin, which ends with a 0 byte. log has CU_LOG_SIZE bytes and gets what the compiler says.
cu_result cu_module(cu_driver *d, cu_handle context, cu_handle *module, const void *image, char *log);
cu_result cu_module_unload(cu_driver *d, cu_handle context, cu_handle module);
cu_result cu_function(cu_driver *d, cu_handle context, cu_handle *function, cu_handle module, const char *name);
// cu_launch passes n arguments, each in the low bytes of its word.
cu_result cu_launch(cu_driver *d, cu_handle context, cu_handle function, const uint32_t grid[3], const uint32_t block[3], uint32_t shared, cu_handle stream, const uint64_t *arguments, int n);

#endif
