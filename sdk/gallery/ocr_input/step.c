/* A picture in, the tensor of PP-OCR's text detection out: both sides multiples of 32, as large as "pixels" allows. */
#include "image.h"

#define DESCRIPTION \
	"{\"name\": \"ocr_input\", \"version\": \"1.0.0\", \"description\": \"a picture as the input of PP-OCR's text detection\"," \
	"\"inputs\": [{\"name\": \"image\", \"datatype\": \"BYTES\", \"shape\": [1], \"description\": \"a JPEG, PNG or WebP file\"}]," \
	"\"outputs\": [" \
	"{\"name\": \"tensor\", \"datatype\": \"FP32\", \"shape\": [1, 3, -1, -1]}," \
	"{\"name\": \"size\", \"datatype\": \"INT32\", \"shape\": [1, 2], \"description\": \"width and height of the picture\"}]," \
	"\"parameters\": [{\"name\": \"pixels\", \"default\": \"921600\", \"description\": \"that a larger picture is reduced to\"}]}"

#define MULTIPLE 32

static uint32_t reduced(uint32_t side, double ratio) {
	double n = nearbyint(side * ratio / MULTIPLE) * MULTIPLE;
	return n < MULTIPLE ? MULTIPLE : (uint32_t)n;
}

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *image = ew_input(inputs, "image", EW_BYTES);
	int64_t pixels;
	ew_span file;
	uint64_t offset = 0;
	ew_picture picture;
	if (!image || !ew_parameter_int("pixels", 960 * 960, MULTIPLE * MULTIPLE, 4 << 20, &pixels) || !ew_next(image, &offset, &file) || !ew_read_picture(file, &picture)) return NULL;
	double ratio = fmin(1, sqrt((double)pixels / ((double)picture.width * picture.height)));
	uint32_t width = reduced(picture.width, ratio), height = reduced(picture.height, ratio);

	/* The means of ImageNet in the order of red, green, blue, for channels blue, green, red: so was the model trained. */
	ew_wanted wanted = {{0.485f * 255, 0.456f * 255, 0.406f * 255}, {0.229f * 255, 0.224f * 255, 0.225f * 255}, false, true};
	ew_list *outputs = ew_outputs(2);
	float *tensor = ew_output_pictures(outputs, "tensor", &wanted, 1, width, height);
	int32_t *size = ew_output(outputs, "size", EW_INT32, EW_SHAPE(1, 2));
	if (!tensor || !size) return NULL;
	size[0] = (int32_t)picture.width, size[1] = (int32_t)picture.height;
	ew_target to = ew_target_of(&wanted, tensor, width, height);
	return ew_resample(&picture, ew_whole(&picture), width, height, &to) ? outputs : NULL;
}

EW_STEP(process, DESCRIPTION)
