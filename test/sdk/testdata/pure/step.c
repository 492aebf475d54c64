/* Runs a kernel of the box and its equivalent in the step on the same input: their outputs are compared by the test. */
#include "pure.h"

#define DESCRIPTION \
	"{\"name\": \"pure\"," \
	"\"inputs\": [" \
	"{\"name\": \"pixels\", \"datatype\": \"UINT8\", \"shape\": [-1], \"optional\": true}," \
	"{\"name\": \"values\", \"datatype\": \"FP32\", \"shape\": [-1, -1], \"optional\": true}," \
	"{\"name\": \"numbers\", \"datatype\": \"INT32\", \"shape\": [-1]}]," \
	"\"outputs\": [" \
	"{\"name\": \"pure\", \"datatype\": \"FP32\", \"shape\": [-1]}," \
	"{\"name\": \"kernel\", \"datatype\": \"FP32\", \"shape\": [-1]}]}"

static bool is(ew_span what, const char *name) { return what.len == strlen(name) && !memcmp(what.data, name, what.len); }

/* Bytes as numbers, behind those that are in to already. */
static void widen(float *to, const uint8_t *from, size_t n) {
	for (size_t i = 0; i < n; i++) to[i] = from[i];
}

static const ew_list *process(const ew_list *inputs) {
	ew_span what = ew_parameter("do");
	const ew_tensor *pixels = ew_find(inputs, "pixels"), *values = ew_find(inputs, "values");
	const int32_t *n = ew_i32(ew_find(inputs, "numbers"));
	static const float mean[4] = {1, 20, 128, 7.5f}, scale[4] = {0.5f, 1.0f / 255, 3, -2};
	uint32_t rows = values ? (uint32_t)values->shape[0] : 0, cols = values ? (uint32_t)values->shape[1] : 0;
	uint32_t room = pixels ? (uint32_t)(n[2] * n[3] * n[4]) + 4 : 2 * rows * cols;
	ew_list *outputs = ew_outputs(2);
	float *pure = ew_output(outputs, "pure", EW_FP32, EW_SHAPE(room)), *kernel = ew_output(outputs, "kernel", EW_FP32, EW_SHAPE(room));
	uint8_t *a = EW_ARRAY(uint8_t, room), *b = EW_ARRAY(uint8_t, room);
	if (!pure || !kernel || !a || !b) return NULL;
	memset(pure, 0, room * sizeof *pure);
	memset(kernel, 0, room * sizeof *kernel);
	int32_t failed = 0;
	if (is(what, "resize")) {
		if (!ew_resize(ew_u8(pixels), n[0], n[1], a, n[2], n[3], n[4], n[5])) return NULL;
		failed = ew_image_resize(ew_u8(pixels), n[0], n[1], b, n[2], n[3], n[4], n[5]);
		widen(pure, a, room - 4), widen(kernel, b, room - 4);
	} else if (is(what, "letterbox")) {
		if (!ew_letterbox(ew_u8(pixels), n[0], n[1], a, n[2], n[3], n[4], n[5], 77, (ew_letterbox_map *)(pure + room - 4))) return NULL;
		failed = ew_image_letterbox(ew_u8(pixels), n[0], n[1], b, n[2], n[3], n[4], n[5], 77, (ew_letterbox_map *)(kernel + room - 4));
		widen(pure, a, room - 4), widen(kernel, b, room - 4);
	} else if (is(what, "normalize")) {
		ew_normalize(ew_u8(pixels), n[2], n[3], n[4], pure, n[5], mean, scale);
		failed = ew_image_normalize(ew_u8(pixels), n[2], n[3], n[4], kernel, EW_FP32, n[5], mean, scale);
	} else if (is(what, "softmax")) {
		ew_softmax(ew_f32(values), pure, rows, cols);
		failed = ew_kernel_softmax(ew_f32(values), kernel, rows, cols);
	} else if (is(what, "top_k")) {
		ew_top_k(ew_f32(values), rows, cols, n[0], pure, (int32_t *)pure + rows * n[0]);
		failed = ew_kernel_top_k(ew_f32(values), rows, cols, n[0], kernel, (int32_t *)kernel + rows * n[0]);
	} else {
		/* Rows of x1, y1, x2, y2, score, class. */
		float *boxes = EW_ARRAY(float, 4 * rows), *scores = EW_ARRAY(float, rows);
		int32_t *classes = EW_ARRAY(int32_t, rows);
		if (!boxes || !scores || !classes) return NULL;
		for (uint32_t i = 0; i < rows; i++) {
			const float *row = ew_f32(values) + i * cols;
			memcpy(boxes + 4 * i, row, 4 * sizeof *row);
			scores[i] = row[4], classes[i] = (int32_t)row[5];
		}
		int32_t *use = n[0] ? classes : NULL;
		((int32_t *)pure)[0] = ew_nms(boxes, scores, use, rows, 0.4f, 0.2f, (int32_t *)pure + 1, rows);
		((int32_t *)kernel)[0] = failed = ew_kernel_nms(boxes, scores, use, rows, 0.4f, 0.2f, (int32_t *)kernel + 1, rows);
	}
	return failed < 0 ? ew_fail_last("kernel") : outputs;
}

EW_STEP(process, DESCRIPTION)
