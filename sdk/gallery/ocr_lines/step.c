/*
 * A picture and the regions of text in it in, the lines as PP-OCR's models take them out: cut out upright, 48 pixels high, as wide as the
 * widest, what is beyond a line 0. head is the middle of each line for the direction model; its answer, given back as turned, turns the
 * lines that stand on their head.
 */
#include "geometry.h"
#include "image.h"

#define DESCRIPTION \
	"{\"name\": \"ocr_lines\", \"version\": \"1.0.0\", \"description\": \"lines of text, cut out for PP-OCR\"," \
	"\"inputs\": [" \
	"{\"name\": \"image\", \"datatype\": \"BYTES\", \"shape\": [1], \"description\": \"a JPEG, PNG or WebP file\"}," \
	"{\"name\": \"quad\", \"datatype\": \"FP32\", \"shape\": [-1, 4, 2], \"description\": \"from ocr_regions\"}," \
	"{\"name\": \"turned\", \"datatype\": \"FP32\", \"shape\": [-1, 2], \"optional\": true, \"description\": \"from the direction model: upright, on its head\"}]," \
	"\"outputs\": [" \
	"{\"name\": \"line\", \"datatype\": \"FP32\", \"shape\": [-1, 3, 48, -1], \"description\": \"for the recognition model\"}," \
	"{\"name\": \"width\", \"datatype\": \"INT32\", \"shape\": [-1], \"description\": \"columns of each line\"}," \
	"{\"name\": \"head\", \"datatype\": \"FP32\", \"shape\": [-1, 3, 48, 192], \"description\": \"for the direction model\"}]," \
	"\"parameters\": [" \
	"{\"name\": \"min_width\", \"default\": \"320\", \"description\": \"columns of line at least\"}," \
	"{\"name\": \"max_lines\", \"default\": \"64\", \"description\": \"regions to take, from the first\"}]}"

#define HEIGHT 48
#define MAX_WIDTH 3200    /* columns of a line; longer ones are squeezed */
#define TURNED 1.5        /* a region this many times as high as wide holds a line that runs up or down */
#define HEAD_WIDTH 192    /* columns of the direction model's input */
#define HEAD_SPAN 384     /* columns of a line that are squeezed into it */
#define FLIP 0.9f         /* how sure the direction model must be */

/* The projective map of the unit square onto a quad (Heckbert 1989, 2.2.3). */
typedef struct {
	ew_point origin, a, b;
	double g, h;
} projection;

static projection onto(const ew_quad *q) {
	const ew_point *c = q->corner;
	ew_point d1 = ew_sub(c[1], c[2]), d2 = ew_sub(c[3], c[2]), sum = ew_sub(ew_add(ew_sub(c[0], c[1]), c[2]), c[3]);
	projection p = {c[0], {0, 0}, {0, 0}, 0, 0};
	double det = ew_cross(d1, d2);
	if (det != 0) p.g = ew_cross(sum, d2) / det, p.h = ew_cross(d1, sum) / det;
	p.a = ew_sub(ew_times(c[1], 1 + p.g), c[0]);
	p.b = ew_sub(ew_times(c[3], 1 + p.h), c[0]);
	return p;
}

static double within(double v, uint32_t size) { return v < 0 ? 0 : v > size - 1 ? size - 1 : v; }

/* The colour at a place between four pixels. Beyond its edges the picture goes on as it ends. */
static void sample(const ew_picture *from, ew_point p, uint8_t *pixel) {
	double x = floor(p.x - 0.5), y = floor(p.y - 0.5), fx = p.x - 0.5 - x, fy = p.y - 0.5 - y;
	size_t left = 3 * (size_t)within(x, from->width), right = 3 * (size_t)within(x + 1, from->width);
	const uint8_t *top = from->pixels + 3 * (size_t)within(y, from->height) * from->width, *low = from->pixels + 3 * (size_t)within(y + 1, from->height) * from->width;
	for (int c = 0; c < 3; c++) {
		double above = top[left + c] * (1 - fx) + top[right + c] * fx, below = low[left + c] * (1 - fx) + low[right + c] * fx;
		pixel[c] = (uint8_t)round(above * (1 - fy) + below * fy);
	}
}

/* A region as a picture of its own size. False after ew_fail. */
static bool cut(const ew_picture *from, ew_quad q, ew_picture *line) {
	if (ew_quad_height(&q) >= TURNED * ew_quad_width(&q)) q = ew_rotated(&q, 1);
	double width = fmax(1, round(ew_quad_width(&q))), height = fmax(1, round(ew_quad_height(&q)));
	if (!(width <= 16384 && height <= 16384)) {
		ew_fail("input \"quad\": a region is larger than 16384 pixels a side");
		return false;
	}
	*line = (ew_picture){(uint32_t)width, (uint32_t)height, EW_ARRAY(uint8_t, (uint64_t)width * (uint64_t)height * 3 + 16)};
	if (!line->pixels) return false;
	projection p = onto(&q);
	for (uint32_t y = 0; y < line->height; y++)
		for (uint32_t x = 0; x < line->width; x++) {
			double u = (x + 0.5) / width, v = (y + 0.5) / height, w = 1 / (1 + p.g * u + p.h * v);
			ew_point at = ew_times(ew_add(ew_add(ew_times(p.a, u), ew_times(p.b, v)), p.origin), w);
			sample(from, at, line->pixels + 3 * ((size_t)y * line->width + x));
		}
	return true;
}

/* Turns a picture by 180 degrees, in place. */
static void turn(ew_picture *p) {
	size_t n = (size_t)p->width * p->height;
	for (size_t i = 0; i < n / 2; i++)
		for (int c = 0; c < 3; c++) {
			uint8_t keep = p->pixels[3 * i + c];
			p->pixels[3 * i + c] = p->pixels[3 * (n - 1 - i) + c];
			p->pixels[3 * (n - 1 - i) + c] = keep;
		}
}

/* A picture at another size, 8 bits a channel again. False after ew_fail. */
static bool resized(const ew_picture *from, uint32_t width, uint32_t height, ew_picture *to) {
	*to = (ew_picture){width, height, EW_ARRAY(uint8_t, (uint64_t)width * height * 3 + 16)};
	float *values = EW_ARRAY(float, (uint64_t)width * height * 3);
	if (!to->pixels || !values) return false;
	ew_target target = ew_interleaved(values, width);
	if (!ew_resample(from, ew_whole(from), width, height, &target)) return false;
	for (size_t i = 0; i < (size_t)width * height * 3; i++) to->pixels[i] = (uint8_t)values[i];
	return true;
}

/* The target of planes of blue, green, red from -1 to 1, stride columns wide. */
static ew_target planes(float *data, uint32_t stride) {
	ew_wanted wanted = {{127.5f, 127.5f, 127.5f}, {127.5f, 127.5f, 127.5f}, false, true};
	return ew_target_of(&wanted, data, stride, HEIGHT);
}

/* Squeezes the middle of a line into the direction model's input. */
static bool put_head(const ew_picture *line, float *data) {
	uint32_t beside = line->width > HEAD_SPAN ? (line->width - HEAD_SPAN) / 2 : 0, span = line->width > HEAD_SPAN ? HEAD_SPAN : line->width;
	ew_target to = planes(data, HEAD_WIDTH);
	return ew_resample(line, (ew_rect){beside, 0, span, HEIGHT}, span < HEAD_WIDTH ? span : HEAD_WIDTH, HEIGHT, &to);
}

/* Cuts out every line at the height of the models. False after ew_fail. */
static bool cut_all(const ew_picture *picture, const ew_tensor *quads, const ew_tensor *turned, uint32_t n, ew_picture *lines) {
	for (uint32_t i = 0; i < n; i++) {
		ew_quad q;
		ew_picture flat;
		for (int k = 0; k < 4; k++) q.corner[k] = (ew_point){ew_f32(quads)[8 * i + 2 * k], ew_f32(quads)[8 * i + 2 * k + 1]};
		for (int k = 0; k < 4; k++)
			if (!(fabs(q.corner[k].x) < 1e6 && fabs(q.corner[k].y) < 1e6)) {
				ew_fail("input \"quad\": region %u has a corner that is no place in a picture", i);
				return false;
			}
		if (!cut(picture, q, &flat)) return false;
		double width = ceil((double)HEIGHT * flat.width / flat.height);
		if (!resized(&flat, width > MAX_WIDTH ? MAX_WIDTH : (uint32_t)width, HEIGHT, &lines[i])) return false;
		if (turned && ew_f32(turned)[2 * i + 1] > FLIP) turn(&lines[i]);
	}
	return true;
}

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *image = ew_input(inputs, "image", EW_BYTES), *quads = image ? ew_input(inputs, "quad", EW_FP32) : NULL, *turned = ew_find(inputs, "turned");
	int64_t least, most;
	ew_span file;
	uint64_t offset = 0;
	ew_picture picture;
	if (!quads || !ew_parameter_int("min_width", 320, 1, MAX_WIDTH, &least) || !ew_parameter_int("max_lines", 64, 1, 1000, &most) ||
		!ew_next(image, &offset, &file) || !ew_read_picture(file, &picture)) return NULL;
	uint32_t n = (uint32_t)(quads->shape[0] < most ? quads->shape[0] : most), widest = (uint32_t)least;
	if (turned && turned->shape[0] < n) return ew_fail("input \"turned\" has %lld rows: want %u", (long long)turned->shape[0], n);
	ew_picture *lines = EW_ARRAY(ew_picture, n);
	if (!lines || !cut_all(&picture, quads, turned, n, lines)) return NULL;
	for (uint32_t i = 0; i < n; i++) widest = lines[i].width > widest ? lines[i].width : widest;

	ew_list *outputs = ew_outputs(3);
	float *line = ew_output(outputs, "line", EW_FP32, EW_SHAPE(n, 3, HEIGHT, widest)), *head = ew_output(outputs, "head", EW_FP32, EW_SHAPE(n, 3, HEIGHT, HEAD_WIDTH));
	int32_t *width = ew_output(outputs, "width", EW_INT32, EW_SHAPE(n));
	if (!line || !head || !width) return NULL;
	memset(line, 0, (size_t)n * 3 * HEIGHT * widest * sizeof *line);
	memset(head, 0, (size_t)n * 3 * HEIGHT * HEAD_WIDTH * sizeof *head);
	for (uint32_t i = 0; i < n; i++, line += 3 * HEIGHT * widest, head += 3 * HEIGHT * HEAD_WIDTH) {
		ew_target to = planes(line, widest);
		width[i] = (int32_t)lines[i].width;
		if (!ew_resample(&lines[i], ew_whole(&lines[i]), lines[i].width, HEIGHT, &to) || !put_head(&lines[i], head)) return NULL;
	}
	return outputs;
}

EW_STEP(process, DESCRIPTION)
