#include "bind.h"
#include "call.h"

// Slots of the table, counted in the header of API version 24.
enum {
	CREATE_RUN_OPTIONS = 39,
	CREATE_TENSOR_WITH_DATA = 49,
	GET_TENSOR_DATA = 51,
	CREATE_MEMORY_INFO = 68,
	ALLOCATOR_FREE = 76,
	GET_ALLOCATOR = 78,
	RELEASE_MEMORY_INFO = 94,
	RELEASE_VALUE = 96,
	RELEASE_RUN_OPTIONS = 97,
	GET_PROVIDERS = 125,
	RELEASE_PROVIDERS = 126,
	RUN_WITH_BINDING = 133,
	CREATE_BINDING = 134,
	RELEASE_BINDING = 135,
	BIND_INPUT = 136,
	BIND_OUTPUT = 137,
	GET_BOUND_VALUES = 140,
	ADD_RUN_OPTION = 165,
	APPEND_TENSORRT = 170,
	CREATE_TENSORRT_OPTIONS = 171,
	UPDATE_TENSORRT_OPTIONS = 172,
	READ_TENSORRT_OPTIONS = 173,
	RELEASE_TENSORRT_OPTIONS = 174,
	APPEND_CUDA = 204,
	CREATE_CUDA_OPTIONS = 205,
	UPDATE_CUDA_OPTIONS = 206,
	READ_CUDA_OPTIONS = 207,
	RELEASE_CUDA_OPTIONS = 208,
	APPEND_BY_NAME = 216,
};

enum { DEVICE_ALLOCATOR = 0, MEMORY_DEFAULT = 0 };

// read_back copies a provider's options as text, if it gives them.
static char *read_back(const ew_api *api, int slot, const void *options) {
	void *allocator;
	char *text = NULL, *copy = NULL;
	ew_error e = take(api, CALL(GET_ALLOCATOR, status *, void **)(&allocator));
	if (e.code == 0) e = take(api, ((status * (*)(const void *, void *, char **)) api->slot[slot])(options, allocator, &text));
	if (e.code == 0 && text != NULL) {
		copy = strdup(text);
		e = take(api, CALL(ALLOCATOR_FREE, status *, void *, void *)(allocator, text));
	}
	free(e.message);
	return copy;
}

ew_error ew_append_provider(const ew_api *api, void *options, int provider, const char *const *keys, const char *const *values, size_t n, char **effective) {
	static const int slots[2][5] = {
		{CREATE_CUDA_OPTIONS, UPDATE_CUDA_OPTIONS, READ_CUDA_OPTIONS, APPEND_CUDA, RELEASE_CUDA_OPTIONS},
		{CREATE_TENSORRT_OPTIONS, UPDATE_TENSORRT_OPTIONS, READ_TENSORRT_OPTIONS, APPEND_TENSORRT, RELEASE_TENSORRT_OPTIONS},
	};
	if (provider == EW_WEBGPU) { // its options cannot be read back
		return take(api, CALL(APPEND_BY_NAME, status *, void *, const char *, const char *const *, const char *const *, size_t)(
			options, "WebGPU", keys, values, n));
	}
	const int *s = slots[provider];
	void *own = NULL;
	TRY(((status * (*)(void **)) api->slot[s[0]])(&own));
	ew_error e = take(api, ((status * (*)(void *, const char *const *, const char *const *, size_t)) api->slot[s[1]])(own, keys, values, n));
	if (e.code == 0) {
		*effective = read_back(api, s[2], own);
		e = take(api, ((status * (*)(void *, const void *)) api->slot[s[3]])(options, own));
	}
	((void (*)(void *))api->slot[s[4]])(own);
	return e;
}

ew_error ew_providers(const ew_api *api, char **names) {
	char **list;
	int n;
	TRY(CALL(GET_PROVIDERS, status *, char ***, int *)(&list, &n));
	size_t size = 1;
	for (int i = 0; i < n; i++) size += strlen(list[i]) + 1;
	*names = calloc(size, 1);
	for (int i = 0; i < n && *names != NULL; i++) {
		if (i > 0) strcat(*names, " ");
		strcat(*names, list[i]);
	}
	return take(api, CALL(RELEASE_PROVIDERS, status *, char **, int)(list, n));
}

ew_error ew_binding_new(const ew_api *api, void *session, size_t capacity, const char *const *keys, const char *const *values, size_t n, ew_binding **out) {
	ew_binding *b = calloc(1, sizeof *b);
	if (b != NULL) b->values = calloc(capacity, sizeof *b->values);
	if (b == NULL || b->values == NULL) {
		free(b);
		return (ew_error){CODE_FAIL, strdup("no memory for a binding")};
	}
	b->capacity = capacity;
	ew_error e = take(api, CALL(CREATE_BINDING, status *, void *, void **)(session, &b->binding));
	if (e.code == 0) e = take(api, CALL(CREATE_RUN_OPTIONS, status *, void **)(&b->options));
	for (size_t i = 0; i < n && e.code == 0; i++) e = take(api, CALL(ADD_RUN_OPTION, status *, void *, const char *, const char *)(b->options, keys[i], values[i]));
	if (e.code != 0) {
		ew_binding_free(api, b);
		return e;
	}
	*out = b;
	return e;
}

ew_error ew_bind(const ew_api *api, ew_binding *b, const char *name, int is_output, const char *device, int id, const ew_tensor *t, uintptr_t address) {
	if (b->n == b->capacity) return (ew_error){CODE_FAIL, strdup("a binding has no room for another tensor")};
	void *memory, *value = NULL;
	TRY(CALL(CREATE_MEMORY_INFO, status *, const char *, int, int, int, void **)(device, DEVICE_ALLOCATOR, id, MEMORY_DEFAULT, &memory));
	ew_error e = take(api, CALL(CREATE_TENSOR_WITH_DATA, status *, const void *, void *, size_t, const int64_t *, size_t, int, void **)(
		memory, (void *)address, t->size, t->shape, (size_t)t->rank, t->type, &value));
	CALL(RELEASE_MEMORY_INFO, void, void *)(memory);
	if (e.code != 0) return e;
	b->values[b->n++] = value;
	return take(api, ((status * (*)(void *, const char *, const void *)) api->slot[is_output ? BIND_OUTPUT : BIND_INPUT])(b->binding, name, value));
}

ew_error ew_binding_run(const ew_api *api, void *session, ew_binding *b) {
	return take(api, CALL(RUN_WITH_BINDING, status *, void *, const void *, const void *)(session, b->options, b->binding));
}

ew_error ew_binding_outputs(const ew_api *api, ew_binding *b, uintptr_t *addresses, size_t n) {
	void *allocator, **values = NULL;
	size_t count = 0;
	TRY(CALL(GET_ALLOCATOR, status *, void **)(&allocator));
	TRY(CALL(GET_BOUND_VALUES, status *, const void *, void *, void ***, size_t *)(b->binding, allocator, &values, &count));
	ew_error e = {0, NULL};
	if (count != n) e = (ew_error){CODE_FAIL, strdup("a binding has another number of outputs")};
	for (size_t i = 0; i < count; i++) {
		void *data = NULL;
		if (e.code == 0) e = take(api, CALL(GET_TENSOR_DATA, status *, void *, void **)(values[i], &data));
		if (e.code == 0) addresses[i] = (uintptr_t)data;
		CALL(RELEASE_VALUE, void, void *)(values[i]);
	}
	if (values != NULL) {
		ew_error freed = take(api, CALL(ALLOCATOR_FREE, status *, void *, void *)(allocator, values));
		if (e.code == 0) return freed;
		free(freed.message);
	}
	return e;
}

void ew_binding_free(const ew_api *api, ew_binding *b) {
	if (b->binding != NULL) CALL(RELEASE_BINDING, void, void *)(b->binding);
	for (size_t i = 0; i < b->n; i++) CALL(RELEASE_VALUE, void, void *)(b->values[i]);
	if (b->options != NULL) CALL(RELEASE_RUN_OPTIONS, void, void *)(b->options);
	free(b->values);
	free(b);
}
