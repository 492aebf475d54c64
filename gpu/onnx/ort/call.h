// Calls through ONNX Runtime's table of functions, and its status as an error, for the C files of this package.
#ifndef EDGEWISE_CALL_H
#define EDGEWISE_CALL_H

#include "ort.h"

#include <stdlib.h>
#include <string.h>

// Slots of the table, counted in the header of API version 24.
enum { GET_ERROR_CODE = 1, GET_ERROR_MESSAGE = 2, RELEASE_STATUS = 93 };

enum { CODE_FAIL = 1 };

typedef void status;

#define CALL(name, result, ...) ((result(*)(__VA_ARGS__))api->slot[name])

// take turns a status into an error and frees it.
static inline ew_error take(const ew_api *api, status *s) {
	ew_error e = {0, NULL};
	if (s == NULL) return e;
	e.code = CALL(GET_ERROR_CODE, int32_t, const status *)(s);
	e.message = strdup(CALL(GET_ERROR_MESSAGE, const char *, const status *)(s));
	CALL(RELEASE_STATUS, void, status *)(s);
	if (e.code == 0) e.code = CODE_FAIL;
	return e;
}

#define TRY(expression)                        \
	do {                                       \
		ew_error try_ = take(api, expression); \
		if (try_.code != 0) return try_;       \
	} while (0)

#endif
