/* Pixels in, the square tensor of a detector out, as letterbox makes it of a file; and four of its values, for who does not want it all. */
#include "edgewise.h"

#define SIDE 416

#define DESCRIPTION \
	"{\"name\": \"frame\", \"version\": \"1.0.0\", \"description\": \"pixels fitted into the input of a detector\"," \
	"\"inputs\": [{\"name\": \"pixels\", \"datatype\": \"UINT8\", \"shape\": [-1, -1, 3]}]," \
	"\"outputs\": [" \
	"{\"name\": \"tensor\", \"datatype\": \"FP32\", \"shape\": [1, 3, 416, 416]}," \
	"{\"name\": \"map\", \"datatype\": \"FP32\", \"shape\": [1, 6]}," \
	"{\"name\": \"probe\", \"datatype\": \"FP32\", \"shape\": [4]}]}"

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *pixels = ew_input(inputs, "pixels", EW_UINT8);
	if (!pixels) return NULL;
	uint32_t height = (uint32_t)pixels->shape[0], width = (uint32_t)pixels->shape[1];
	ew_list *outputs = ew_outputs(3);
	float *tensor = ew_output(outputs, "tensor", EW_FP32, EW_SHAPE(1, 3, SIDE, SIDE));
	float *map = ew_output(outputs, "map", EW_FP32, EW_SHAPE(1, 6)), *probe = ew_output(outputs, "probe", EW_FP32, EW_SHAPE(4));
	uint8_t *small = EW_ARRAY(uint8_t, 3 * SIDE * SIDE);
	if (!tensor || !map || !probe || !small) return NULL;
	const float scale[3] = {1 / 255.0f, 1 / 255.0f, 1 / 255.0f};
	ew_letterbox_map place;
	if (ew_image_letterbox(pixels->data, width, height, small, SIDE, SIDE, 3, EW_BILINEAR, 114, &place) < 0 ||
		ew_image_normalize(small, SIDE, SIDE, 3, tensor, EW_FP32, 0, NULL, scale) < 0)
		return ew_fail("a picture of %u x %u pixels cannot be fitted in", width, height);
	float values[6] = {place.scale_x, place.scale_y, place.pad_x, place.pad_y, (float)width, (float)height};
	memcpy(map, values, sizeof values);
	for (int i = 0; i < 4; i++) probe[i] = tensor[SIDE * (100 + 61 * i) + 37 + 90 * i + SIDE * SIDE * (i % 3)];
	return outputs;
}

EW_STEP(process, DESCRIPTION)
