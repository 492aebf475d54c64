/* A picture in, the square tensor of a detector out: fitted in with its proportions, the rest grey. map leads back. */
#include "image.h"

#define DESCRIPTION \
	"{\"name\": \"letterbox\", \"version\": \"1.0.0\", \"description\": \"a picture fitted into the input of a detector\"," \
	"\"inputs\": [{\"name\": \"image\", \"datatype\": \"BYTES\", \"shape\": [1], \"description\": \"a JPEG, PNG or WebP file\"}]," \
	"\"outputs\": [" \
	"{\"name\": \"tensor\", \"datatype\": \"FP32\", \"shape\": [1, -1, -1, -1]}," \
	"{\"name\": \"map\", \"datatype\": \"FP32\", \"shape\": [1, 6], \"description\": \"scale x, scale y, pad x, pad y, width, height: x in the tensor is x in the picture times scale x plus pad x\"}]," \
	"\"parameters\": [" \
	"{\"name\": \"width\", \"default\": \"640\", \"description\": \"of the tensor\"}," \
	"{\"name\": \"height\", \"default\": \"640\"}," \
	"{\"name\": \"fill\", \"default\": \"114\", \"description\": \"grey beside the picture, 0 to 255\"}," \
	"{\"name\": \"mean\", \"default\": \"0,0,0\"}," \
	"{\"name\": \"std\", \"default\": \"255,255,255\"}," \
	"{\"name\": \"layout\", \"default\": \"nchw\", \"description\": \"nchw or nhwc\"}," \
	"{\"name\": \"channels\", \"default\": \"rgb\", \"description\": \"rgb or bgr\"}]}"

/* What a side becomes at a scale. */
static uint32_t scaled(uint32_t side, double scale, int64_t most) {
	double n = floor(side * scale + 0.5);
	return n < 1 ? 1 : n > (double)most ? (uint32_t)most : (uint32_t)n;
}

static const ew_list *process(const ew_list *inputs) {
	ew_wanted wanted = {{0, 0, 0}, {255, 255, 255}, false, false};
	const ew_tensor *image = ew_input(inputs, "image", EW_BYTES);
	int64_t width, height, fill;
	if (!image || !ew_parameter_int("width", 640, 1, 4096, &width) || !ew_parameter_int("height", 640, 1, 4096, &height) ||
		!ew_parameter_int("fill", 114, 0, 255, &fill) || !ew_read_wanted(&wanted)) return NULL;
	ew_span file;
	uint64_t offset = 0;
	ew_picture picture;
	if (!ew_next(image, &offset, &file) || !ew_read_picture(file, &picture)) return NULL;

	ew_list *outputs = ew_outputs(2);
	float *tensor = ew_output_pictures(outputs, "tensor", &wanted, 1, width, height);
	float *map = ew_output(outputs, "map", EW_FP32, EW_SHAPE(1, 6));
	if (!tensor || !map) return NULL;
	double scale = fmin((double)width / picture.width, (double)height / picture.height);
	uint32_t w = scaled(picture.width, scale, width), h = scaled(picture.height, scale, height);
	uint32_t x = ((uint32_t)width - w) / 2, y = ((uint32_t)height - h) / 2;
	ew_target to = ew_target_of(&wanted, tensor, (uint32_t)width, (uint32_t)height), inner = ew_at(&to, x, y);
	ew_fill_around(&to, (uint32_t)width, (uint32_t)height, (ew_rect){x, y, w, h}, (float)fill);
	if (!ew_resample(&picture, ew_whole(&picture), w, h, &inner)) return NULL;
	float values[6] = {(float)w / (float)picture.width, (float)h / (float)picture.height, (float)x, (float)y, (float)picture.width, (float)picture.height};
	memcpy(map, values, sizeof values);
	return outputs;
}

EW_STEP(process, DESCRIPTION)
