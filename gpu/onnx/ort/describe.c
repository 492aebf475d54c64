#include "describe.h"
#include "call.h"

#include <stdbool.h>

// Slots of the table, counted in the header of API version 24. Those of outputs follow those of inputs.
enum {
	GET_COUNT = 30,
	GET_TYPE_INFO = 33,
	GET_NAME = 36,
	CAST_TO_TENSOR = 55,
	GET_KIND = 56,
	GET_ELEMENT_TYPE = 60,
	GET_RANK = 61,
	GET_DIMENSIONS = 62,
	ALLOCATOR_FREE = 76,
	GET_ALLOCATOR = 78,
	RELEASE_TYPE_INFO = 98,
	HAS_SHAPE = 390,
};

ew_error ew_count(const ew_api *api, void *session, int outputs, size_t *n) {
	return take(api, CALL(GET_COUNT + outputs, status *, const void *, size_t *)(session, n));
}

static ew_error describe_tensor(const ew_api *api, const void *info, ew_value *v) {
	const void *tensor;
	size_t rank;
	TRY(CALL(CAST_TO_TENSOR, status *, const void *, const void **)(info, &tensor));
	TRY(CALL(GET_ELEMENT_TYPE, status *, const void *, int32_t *)(tensor, &v->tensor.type));
	v->ranked = CALL(HAS_SHAPE, bool, const void *)(tensor);
	if (!v->ranked) return (ew_error){0, NULL};
	TRY(CALL(GET_RANK, status *, const void *, size_t *)(tensor, &rank));
	if (rank > EW_MAX_RANK) {
		v->ranked = 0;
		return (ew_error){0, NULL};
	}
	v->tensor.rank = (int32_t)rank;
	return take(api, CALL(GET_DIMENSIONS, status *, const void *, int64_t *, size_t)(tensor, v->tensor.shape, rank));
}

static ew_error describe_type(const ew_api *api, void *session, int outputs, size_t i, ew_value *v) {
	void *info;
	TRY(CALL(GET_TYPE_INFO + outputs, status *, const void *, size_t, void **)(session, i, &info));
	ew_error e = take(api, CALL(GET_KIND, status *, const void *, int32_t *)(info, &v->kind));
	if (e.code == 0 && v->kind == EW_KIND_TENSOR) e = describe_tensor(api, info, v);
	CALL(RELEASE_TYPE_INFO, void, void *)(info);
	return e;
}

ew_error ew_describe(const ew_api *api, void *session, int outputs, size_t i, ew_value *v) {
	void *allocator;
	char *name;
	TRY(CALL(GET_ALLOCATOR, status *, void **)(&allocator));
	TRY(CALL(GET_NAME + outputs, status *, const void *, size_t, void *, char **)(session, i, allocator, &name));
	v->name = strdup(name);
	TRY(CALL(ALLOCATOR_FREE, status *, void *, void *)(allocator, name));
	ew_error e = describe_type(api, session, outputs, i, v);
	if (e.code != 0) free(v->name);
	return e;
}
