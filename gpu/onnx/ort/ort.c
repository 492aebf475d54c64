#define _GNU_SOURCE
#include "call.h"

#include <dlfcn.h>
#include <time.h>

// Slots of the table, counted in the header of API version 24.
enum {
	RUN = 9,
	CREATE_TENSOR = 48,
	CREATE_TENSOR_WITH_DATA = 49,
	GET_TENSOR_DATA = 51,
	GET_STRING_LENGTH = 53,
	GET_STRING_CONTENT = 54,
	GET_ELEMENT_TYPE = 60,
	GET_RANK = 61,
	GET_DIMENSIONS = 62,
	GET_ELEMENT_COUNT = 64,
	GET_TYPE_AND_SHAPE = 65,
	GET_VALUE_TYPE = 67,
	CREATE_CPU_MEMORY_INFO = 69,
	GET_ALLOCATOR = 78,
	RELEASE_MEMORY_INFO = 94,
	RELEASE_VALUE = 96,
	RELEASE_TYPE_AND_SHAPE = 99,
	ADD_RUN_OPTION = 165,
	GET_STRING_BUFFER = 252,
};

enum { TYPE_STRING = 8, VALUE_TENSOR = 1, DEVICE_ALLOCATOR = 0, MEMORY_DEFAULT = 0, CODE_INVALID = 2 };

static ew_error failure(int32_t code, const char *message) {
	ew_error e = {code, strdup(message)};
	return e;
}

ew_library ew_open(const char *path, uint32_t api_version) {
	ew_library lib = {0};
	typedef struct {
		const ew_api *(*get_api)(uint32_t);
		const char *(*get_version)(void);
	} api_base;
	// Telemetry begins when the library's environment is made, before the interface can switch it off: it writes a log below
	// /tmp and looks for the machine's id, if need be in a shell.
	setenv("ORT_DISABLE_TELEMETRY", "1", 1);
	void *handle = dlopen(path, RTLD_LAZY);
	if (handle == NULL) {
		lib.message = strdup(dlerror());
		return lib;
	}
	const api_base *(*get_base)(void) = (const api_base *(*)(void))dlsym(handle, "OrtGetApiBase");
	if (get_base == NULL) {
		lib.message = strdup("it does not export OrtGetApiBase, so it is not ONNX Runtime");
		dlclose(handle);
		return lib;
	}
	Dl_info info;
	lib.path = dladdr((void *)get_base, &info) != 0 ? info.dli_fname : path;
	lib.version = get_base()->get_version();
	lib.api = get_base()->get_api(api_version);
	return lib;
}

ew_call *ew_call_new(size_t inputs, size_t outputs) {
	ew_call *c = calloc(1, sizeof *c);
	if (c == NULL) return NULL;
	c->input_names = calloc(inputs + 1, sizeof *c->input_names);
	c->output_names = calloc(outputs + 1, sizeof *c->output_names);
	c->input_values = calloc(inputs + 1, sizeof *c->input_values);
	c->output_values = calloc(outputs + 1, sizeof *c->output_values);
	c->input = calloc(inputs + 1, sizeof *c->input);
	c->output = calloc(outputs + 1, sizeof *c->output);
	if (!c->input_names || !c->output_names || !c->input_values || !c->output_values || !c->input || !c->output) {
		ew_call_free(NULL, c);
		return NULL;
	}
	return c;
}

static void release_values(const ew_api *api, void **values, size_t n) {
	for (size_t i = 0; i < n; i++) {
		if (values[i] != NULL) CALL(RELEASE_VALUE, void, void *)(values[i]);
		values[i] = NULL;
	}
}

void ew_call_clear(const ew_api *api, ew_call *c) {
	release_values(api, c->input_values, c->inputs);
	release_values(api, c->output_values, c->outputs);
	// Go writes the next pointers here, and its write barrier shades what they replace: that must not be freed memory.
	for (size_t i = 0; i < c->inputs; i++) c->input[i].data = NULL;
	for (size_t i = 0; i < c->outputs; i++) c->output[i].data = NULL;
	c->inputs = c->outputs = 0;
}

void ew_call_free(const ew_api *api, ew_call *c) {
	if (api != NULL) ew_call_clear(api, c);
	free(c->input_names);
	free(c->output_names);
	free(c->input_values);
	free(c->output_values);
	free(c->input);
	free(c->output);
	free(c);
}

static uint32_t read_length(const unsigned char *p) {
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// fill_strings copies framed elements into a string tensor. The frames have been checked by the caller; they are
// checked again because a wrong one would read beyond the buffer.
static ew_error fill_strings(const ew_api *api, const ew_tensor *t, void *value) {
	const unsigned char *p = t->data, *end = p + t->size;
	for (size_t i = 0; p < end; i++) {
		if (end - p < 4 || read_length(p) > (uint64_t)(end - p - 4)) return failure(CODE_INVALID, "bad framing of a string tensor");
		uint32_t n = read_length(p);
		char *to = NULL;
		TRY(CALL(GET_STRING_BUFFER, status *, void *, size_t, size_t, char **)(value, i, n, &to));
		memcpy(to, p + 4, n);
		p += 4 + n;
	}
	return (ew_error){0, NULL};
}

static ew_error make_value(const ew_api *api, const void *memory, const ew_tensor *t, void **value) {
	static char nothing[8];
	if (t->type == TYPE_STRING) {
		void *allocator;
		TRY(CALL(GET_ALLOCATOR, status *, void **)(&allocator));
		TRY(CALL(CREATE_TENSOR, status *, void *, const int64_t *, size_t, int, void **)(allocator, t->shape, t->rank, t->type, value));
		return fill_strings(api, t, *value);
	}
	return take(api, CALL(CREATE_TENSOR_WITH_DATA, status *, const void *, void *, size_t, const int64_t *, size_t, int, void **)(
		memory, t->size ? t->data : nothing, t->size, t->shape, t->rank, t->type, value));
}

// make_values makes the inputs, and those outputs for which the caller has memory.
static ew_error make_values(const ew_api *api, ew_call *c) {
	void *memory;
	TRY(CALL(CREATE_CPU_MEMORY_INFO, status *, int, int, void **)(DEVICE_ALLOCATOR, MEMORY_DEFAULT, &memory));
	ew_error e = {0, NULL};
	for (size_t i = 0; i < c->inputs && e.code == 0; i++) e = make_value(api, memory, &c->input[i], &c->input_values[i]);
	for (size_t i = 0; i < c->outputs && e.code == 0; i++) {
		if (c->output[i].data != NULL) e = make_value(api, memory, &c->output[i], &c->output_values[i]);
	}
	CALL(RELEASE_MEMORY_INFO, void, void *)(memory);
	return e;
}

static ew_error read_shape(const ew_api *api, void *info, ew_tensor *t, size_t *count) {
	size_t rank;
	TRY(CALL(GET_ELEMENT_TYPE, status *, const void *, int32_t *)(info, &t->type));
	TRY(CALL(GET_RANK, status *, const void *, size_t *)(info, &rank));
	if (rank > EW_MAX_RANK) return failure(CODE_FAIL, "an output has more dimensions than are supported");
	t->rank = (int32_t)rank;
	TRY(CALL(GET_DIMENSIONS, status *, const void *, int64_t *, size_t)(info, t->shape, rank));
	return take(api, CALL(GET_ELEMENT_COUNT, status *, const void *, size_t *)(info, count));
}

// read_output describes a value that a run made. size is the number of elements, or of bytes for strings.
static ew_error read_output(const ew_api *api, void *value, ew_tensor *t) {
	int32_t kind;
	void *info;
	size_t count = 0;
	t->data = NULL;
	TRY(CALL(GET_VALUE_TYPE, status *, const void *, int32_t *)(value, &kind));
	if (kind != VALUE_TENSOR) return failure(CODE_FAIL, "an output is not a tensor");
	TRY(CALL(GET_TYPE_AND_SHAPE, status *, const void *, void **)(value, &info));
	ew_error e = read_shape(api, info, t, &count);
	CALL(RELEASE_TYPE_AND_SHAPE, void, void *)(info);
	if (e.code != 0) return e;
	t->size = count;
	if (t->type == TYPE_STRING) {
		size_t bytes;
		TRY(CALL(GET_STRING_LENGTH, status *, const void *, size_t *)(value, &bytes));
		t->size = bytes;
		return e;
	}
	return take(api, CALL(GET_TENSOR_DATA, status *, void *, void **)(value, &t->data));
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static ew_error run(const ew_api *api, void *session, void *options, ew_call *c) {
	int64_t start = now();
	ew_error e = make_values(api, c);
	if (e.code != 0) return e;
	int64_t made = now();
	e = take(api, CALL(RUN, status *, void *, const void *, const char *const *, const void *const *, size_t, const char *const *, size_t, void **)(
		session, options, c->input_names, (const void *const *)c->input_values, c->inputs, c->output_names, c->outputs, c->output_values));
	if (e.code != 0) return e;
	int64_t ran = now();
	release_values(api, c->input_values, c->inputs);
	for (size_t i = 0; i < c->outputs && e.code == 0; i++) e = read_output(api, c->output_values[i], &c->output[i]);
	c->ns[0] = made - start;
	c->ns[1] = ran - made;
	c->ns[2] = now() - ran;
	return e;
}

ew_error ew_run(const ew_api *api, void *session, void *options, ew_call *c) {
	ew_error e = run(api, session, options, c);
	if (e.code != 0) ew_call_clear(api, c);
	return e;
}

ew_error ew_run_option(const ew_api *api, void *options, const char *key, const char *value) {
	return take(api, CALL(ADD_RUN_OPTION, status *, void *, const char *, const char *)(options, key, value));
}

ew_error ew_strings(const ew_api *api, void *value, char *bytes, size_t size, size_t *offsets, size_t count) {
	return take(api, CALL(GET_STRING_CONTENT, status *, const void *, void *, size_t, size_t *, size_t)(value, bytes, size, offsets, count));
}
