// What ONNX Runtime needs for a GPU beside ort.h: providers with their options, tensors in a device's memory, and runs that are
// bound to such tensors once and then begun without waiting.
#ifndef EDGEWISE_ORT_BIND_H
#define EDGEWISE_ORT_BIND_H

#include "ort.h"

enum { EW_CUDA = 0, EW_TENSORRT = 1, EW_WEBGPU = 2 };

// ew_append_provider gives a provider to session options, with all its options at once: each update forgets those before.
// effective is set to all options as the provider reads them, to be freed; NULL when they cannot be read back.
ew_error ew_append_provider(const ew_api *api, void *options, int provider, const char *const *keys, const char *const *values, size_t n, char **effective);

// ew_providers lists the providers that a library was built with, separated by spaces, to be freed.
ew_error ew_providers(const ew_api *api, char **names);

// ew_binding is a run with fixed tensors.
typedef struct ew_binding {
	void *binding; // OrtIoBinding
	void *options; // OrtRunOptions
	void **values;
	size_t n, capacity;
} ew_binding;

// ew_binding_new makes a binding for up to capacity tensors, with run configuration entries.
ew_error ew_binding_new(const ew_api *api, void *session, size_t capacity, const char *const *keys, const char *const *values, size_t n, ew_binding **out);

// ew_bind binds a tensor at an address in the memory named device, such as "Cuda" or "Cpu". The memory stays the caller's; t's own
// data is not looked at.
ew_error ew_bind(const ew_api *api, ew_binding *b, const char *name, int is_output, const char *device, int id, const ew_tensor *t, uintptr_t address);

ew_error ew_binding_run(const ew_api *api, void *session, ew_binding *b);

// ew_binding_outputs writes the addresses at which the last run has put the n bound outputs, in the order they were bound.
ew_error ew_binding_outputs(const ew_api *api, ew_binding *b, uintptr_t *addresses, size_t n);
void ew_binding_free(const ew_api *api, ew_binding *b);

#endif
