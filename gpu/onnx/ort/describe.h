// What a session says of its inputs and outputs: the types and shapes that the runtime has inferred.
#ifndef EDGEWISE_ORT_DESCRIBE_H
#define EDGEWISE_ORT_DESCRIBE_H

#include "ort.h"

// The kinds of a value, as the runtime numbers them.
enum { EW_KIND_TENSOR = 1 };

// ew_value describes an input or an output. tensor's type, rank and shape are set for tensors; a dimension of any size
// is -1.
typedef struct ew_value {
	char *name;   // to be freed
	int32_t kind; // ONNXType
	int32_t ranked;
	ew_tensor tensor;
} ew_value;

// ew_count counts a session's inputs, or its outputs.
ew_error ew_count(const ew_api *api, void *session, int outputs, size_t *n);

// ew_describe describes input or output number i. The name is set, or an error is returned.
ew_error ew_describe(const ew_api *api, void *session, int outputs, size_t i, ew_value *v);

#endif
