/*
 * A picture in, square views of it as BlazeFace takes them out: the whole picture, or the views asked for, which may reach beyond
 * it. Beyond the picture it is black. map leads back to the picture.
 */
#include "image.h"

#define DESCRIPTION \
	"{\"name\": \"face_input\", \"version\": \"1.0.0\", \"description\": \"square views of a picture, for BlazeFace\"," \
	"\"inputs\": [" \
	"{\"name\": \"image\", \"datatype\": \"BYTES\", \"shape\": [1], \"description\": \"a JPEG, PNG or WebP file\"}," \
	"{\"name\": \"view\", \"datatype\": \"FP32\", \"shape\": [-1, 3], \"optional\": true, \"description\": \"left, top and side of each view, in the picture's pixels; without it one view holds the whole picture\"}]," \
	"\"outputs\": [" \
	"{\"name\": \"tensor\", \"datatype\": \"FP32\", \"shape\": [-1, -1, -1, 3], \"description\": \"red, green, blue from -1 to 1\"}," \
	"{\"name\": \"map\", \"datatype\": \"FP32\", \"shape\": [-1, 6], \"description\": \"scale x, scale y, pad x, pad y, width, height of the picture\"}]," \
	"\"parameters\": [{\"name\": \"size\", \"default\": \"256\", \"description\": \"pixels a side of the tensor\"}]}"

/* The most views of one request. */
#define MAX_VIEWS 100

typedef struct { double x, y, side; } view;

/* The range of one axis: pixels of the picture that the view shows, and where they lie in the tensor. */
typedef struct { int64_t from, to, at, end; } range;

static range shown(double low, double side, int64_t size, int64_t picture) {
	int64_t from = (int64_t)floor(low), to = (int64_t)ceil(low + side);
	from = from < 0 ? 0 : from;
	to = to > picture ? picture : to;
	double scale = (double)size / side;
	return (range){from, to, (int64_t)round(((double)from - low) * scale), (int64_t)round(((double)to - low) * scale)};
}

static bool show(const ew_picture *picture, view v, int64_t size, float *tensor) {
	ew_target to = ew_interleaved(tensor, (uint32_t)size);
	for (int c = 0; c < 3; c++) to.mean[c] = 127.5f, to.scale[c] = 1 / 127.5f;
	range x = shown(v.x, v.side, size, picture->width), y = shown(v.y, v.side, size, picture->height);
	if (x.from >= x.to || y.from >= y.to || x.at >= x.end || y.at >= y.end) {
		ew_fill(&to, (uint32_t)size, (uint32_t)size, 0);
		return true;
	}
	/* What the rounding moved over the tensor's edge is resampled and not written. */
	int64_t left = x.at < 0 ? 0 : x.at, top = y.at < 0 ? 0 : y.at, right = x.end > size ? size : x.end, low = y.end > size ? size : y.end;
	ew_rect part = {(uint32_t)x.from, (uint32_t)y.from, (uint32_t)(x.to - x.from), (uint32_t)(y.to - y.from)};
	ew_rect window = {(uint32_t)(left - x.at), (uint32_t)(top - y.at), (uint32_t)(right - left), (uint32_t)(low - top)};
	ew_fill_around(&to, (uint32_t)size, (uint32_t)size, (ew_rect){(uint32_t)left, (uint32_t)top, window.width, window.height}, 0);
	ew_target inner = ew_at(&to, (uint32_t)left, (uint32_t)top);
	return ew_resample_window(picture, part, (uint32_t)(x.end - x.at), (uint32_t)(y.end - y.at), window, &inner);
}

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *image = ew_input(inputs, "image", EW_BYTES), *views = ew_find(inputs, "view");
	int64_t size;
	if (!image || !ew_parameter_int("size", 256, 1, 1024, &size)) return NULL;
	ew_span file;
	uint64_t offset = 0;
	ew_picture picture;
	if (!ew_next(image, &offset, &file) || !ew_read_picture(file, &picture)) return NULL;
	int64_t n = views ? views->shape[0] : 1;
	if (n > MAX_VIEWS) return ew_fail("input \"view\" has %lld views: at most %d are allowed", (long long)n, MAX_VIEWS);

	ew_list *outputs = ew_outputs(2);
	float *tensor = ew_output(outputs, "tensor", EW_FP32, EW_SHAPE(n, size, size, 3)), *map = ew_output(outputs, "map", EW_FP32, EW_SHAPE(n, 6));
	if (!tensor || !map) return NULL;
	for (int64_t i = 0; i < n; i++, tensor += 3 * size * size, map += 6) {
		double side = picture.width > picture.height ? picture.width : picture.height;
		view v = {(picture.width - side) / 2, (picture.height - side) / 2, side};
		if (views) v = (view){ew_f32(views)[3 * i], ew_f32(views)[3 * i + 1], ew_f32(views)[3 * i + 2]};
		if (!(v.side >= 1 && v.side < 1e6 && fabs(v.x) < 1e6 && fabs(v.y) < 1e6)) return ew_fail("input \"view\": view %lld is not a square of 1 to 1000000 pixels", (long long)i);
		ew_place mark = ew_mark();
		if (!show(&picture, v, size, tensor)) return NULL;
		ew_release(mark);
		double scale = (double)size / v.side;
		float values[6] = {(float)scale, (float)scale, (float)(0 - v.x * scale), (float)(0 - v.y * scale), (float)picture.width, (float)picture.height};
		memcpy(map, values, sizeof values);
	}
	return outputs;
}

EW_STEP(process, DESCRIPTION)
