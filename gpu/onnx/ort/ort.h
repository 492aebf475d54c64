// The few functions of ONNX Runtime that the Go binding does not offer: tensors of any rank and size, strings with any
// bytes, outputs in place. One call crosses from Go to C for one run.
#ifndef EDGEWISE_ORT_H
#define EDGEWISE_ORT_H

#include <stddef.h>
#include <stdint.h>

enum { EW_MAX_RANK = 32 };

// ew_api is ONNX Runtime's table of functions. Its layout only ever grows at the end, so a slot keeps its number.
typedef struct ew_api {
	void *slot[416];
} ew_api;

// ew_library is an opened shared library. message is set, and everything else unset, when it could not be opened.
typedef struct ew_library {
	const ew_api *api;
	const char *version; // owned by the library
	const char *path;    // owned by the dynamic linker
	char *message;       // to be freed by the caller
} ew_library;

// ew_error carries an OrtErrorCode, 0 for none, and a message to be freed by the caller.
typedef struct ew_error {
	int32_t code;
	char *message;
} ew_error;

// ew_tensor is a tensor on its way in or out. Its data is borrowed on the way in. On the way out it is owned by value,
// unless it was set before the run: then the output has the type, shape and size that stand there, and is made in place.
// Strings come in framed (a four-byte length before each) and go out by ew_strings.
typedef struct ew_tensor {
	void *data;
	uint64_t size;
	int32_t type;
	int32_t rank;
	int64_t shape[EW_MAX_RANK];
} ew_tensor;

// ew_call is the memory of one run, reused from run to run.
typedef struct ew_call {
	size_t inputs, outputs;
	const char **input_names, **output_names;
	void **input_values, **output_values;
	ew_tensor *input, *output;
	int64_t ns[3]; // making inputs, running, reading outputs
} ew_call;

ew_library ew_open(const char *path, uint32_t api_version);
ew_call *ew_call_new(size_t inputs, size_t outputs);
void ew_call_free(const ew_api *api, ew_call *call);
ew_error ew_run(const ew_api *api, void *session, void *options, ew_call *call);
void ew_call_clear(const ew_api *api, ew_call *call);
ew_error ew_run_option(const ew_api *api, void *options, const char *key, const char *value);
ew_error ew_strings(const ew_api *api, void *value, char *bytes, size_t size, size_t *offsets, size_t count);

#endif
