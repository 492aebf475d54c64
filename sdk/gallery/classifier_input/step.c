/* Pictures in, the tensor of an image classifier out: shorter side to "resize", middle cut out, normalised as for ImageNet. */
#include "image.h"

#define DESCRIPTION \
	"{\"name\": \"classifier_input\", \"version\": \"1.0.0\", \"description\": \"pictures as the input of an image classifier\"," \
	"\"inputs\": [{\"name\": \"image\", \"datatype\": \"BYTES\", \"shape\": [-1], \"description\": \"JPEG, PNG or WebP files\"}]," \
	"\"outputs\": [{\"name\": \"tensor\", \"datatype\": \"FP32\", \"shape\": [-1, -1, -1, -1]}]," \
	"\"parameters\": [" \
	"{\"name\": \"size\", \"default\": \"224\", \"description\": \"pixels a side of the tensor\"}," \
	"{\"name\": \"resize\", \"default\": \"256\", \"description\": \"pixels of the shorter side before the middle is cut out; 0: the whole picture is squeezed into the tensor\"}," \
	"{\"name\": \"mean\", \"default\": \"123.675,116.28,103.53\", \"description\": \"of each channel, 0 to 255\"}," \
	"{\"name\": \"std\", \"default\": \"58.395,57.12,57.375\", \"description\": \"of each channel, 0 to 255\"}," \
	"{\"name\": \"layout\", \"default\": \"nchw\", \"description\": \"nchw or nhwc\"}," \
	"{\"name\": \"channels\", \"default\": \"rgb\", \"description\": \"rgb or bgr\"}]}"

/* The longer side, where the shorter one becomes resize. */
static uint32_t longer(uint32_t resize, uint32_t side, uint32_t shorter) {
	uint64_t n = (uint64_t)resize * side / shorter;
	return n < EW_MAX_SIDE ? (uint32_t)n : EW_MAX_SIDE;
}

static bool place(const ew_picture *p, uint32_t size, uint32_t resize, const ew_target *to) {
	if (resize == 0) return ew_resample(p, ew_whole(p), size, size, to);
	uint32_t shorter = p->width < p->height ? p->width : p->height;
	uint32_t width = longer(resize, p->width, shorter), height = longer(resize, p->height, shorter);
	/* The offset of the middle is rounded to even, as torchvision does. */
	uint32_t x = (uint32_t)nearbyint((width - size) / 2.0), y = (uint32_t)nearbyint((height - size) / 2.0);
	return ew_resample_window(p, ew_whole(p), width, height, (ew_rect){x, y, size, size}, to);
}

static const ew_list *process(const ew_list *inputs) {
	ew_wanted wanted = {{123.675f, 116.28f, 103.53f}, {58.395f, 57.12f, 57.375f}, false, false};
	const ew_tensor *image = ew_input(inputs, "image", EW_BYTES);
	int64_t size, resize;
	if (!image || !ew_parameter_int("size", 224, 1, 2048, &size) || !ew_parameter_int("resize", 256, 0, 4096, &resize) || !ew_read_wanted(&wanted)) return NULL;
	if (resize > 0 && resize < size) return ew_fail("parameter \"resize\" is %lld: want 0, or at least \"size\", which is %lld", (long long)resize, (long long)size);

	ew_list *outputs = ew_outputs(1);
	float *tensor = ew_output_pictures(outputs, "tensor", &wanted, image->shape[0], size, size);
	if (!tensor) return NULL;
	ew_span file;
	for (uint64_t offset = 0; ew_next(image, &offset, &file); tensor += 3 * size * size) {
		ew_place mark = ew_mark();
		ew_picture picture;
		ew_target to = ew_target_of(&wanted, tensor, (uint32_t)size, (uint32_t)size);
		if (!ew_read_picture(file, &picture) || !place(&picture, (uint32_t)size, (uint32_t)resize, &to)) return NULL;
		ew_release(mark);
	}
	return outputs;
}

EW_STEP(process, DESCRIPTION)
