/*
 * The heat map of PP-OCR's text detection in, the regions of text out, as quads in the picture's pixels: the DB post-process, scored by the mean of a
 * region's own pixels.
 */
#include "geometry.h"

#define DESCRIPTION \
	"{\"name\": \"ocr_regions\", \"version\": \"1.0.0\", \"description\": \"regions of text, from PP-OCR's text detection\"," \
	"\"inputs\": [" \
	"{\"name\": \"heat\", \"datatype\": \"FP32\", \"shape\": [1, 1, -1, -1]}," \
	"{\"name\": \"size\", \"datatype\": \"INT32\", \"shape\": [1, 2], \"description\": \"width and height of the picture, from ocr_input\"}]," \
	"\"outputs\": [{\"name\": \"quad\", \"datatype\": \"FP32\", \"shape\": [-1, 4, 2], \"description\": \"corners, clockwise from the top left\"}]," \
	"\"parameters\": [" \
	"{\"name\": \"threshold\", \"default\": \"0.3\", \"description\": \"a pixel this likely belongs to text\"}," \
	"{\"name\": \"box_threshold\", \"default\": \"0.6\", \"description\": \"mean probability from which a region is kept\"}," \
	"{\"name\": \"unclip\", \"default\": \"1.5\", \"description\": \"how far a region is grown: area times this over its outline\"}]}"

#define MIN_SIDE 3.0 /* pixels of the shorter side of a region, before it is grown */
#define MAX_REGIONS 1000

typedef struct {
	const float *values;
	int32_t width, height;
	float threshold;
	uint8_t *seen;
	int32_t *pending;     /* pixels to look at */
	int32_t *top, *low;   /* of the region at hand, of each column */
	int32_t left, right;  /* columns of the region at hand */
	ew_point *points, *hull;
} heat;

/* Marks the pixels that are connected with at, diagonals included, and notes the ends of each column. Returns the mean probability. */
static double component(heat *h, int32_t at) {
	int32_t n = 0, count = 0;
	double sum = 0;
	h->left = h->width, h->right = -1;
	h->pending[n++] = at;
	h->seen[at] = 1;
	for (; n > 0; count++) {
		at = h->pending[--n];
		sum += (double)h->values[at];
		int32_t x = at % h->width, y = at / h->width;
		if (y < h->top[x]) h->top[x] = y;
		if (y > h->low[x]) h->low[x] = y;
		if (x < h->left) h->left = x;
		if (x > h->right) h->right = x;
		for (int32_t ny = y > 0 ? y - 1 : 0; ny <= y + 1 && ny < h->height; ny++)
			for (int32_t nx = x > 0 ? x - 1 : 0; nx <= x + 1 && nx < h->width; nx++) {
				int32_t next = ny * h->width + nx;
				if (h->seen[next] || !(h->values[next] > h->threshold)) continue;
				h->seen[next] = 1;
				h->pending[n++] = next;
			}
	}
	return sum / count;
}

/* The smallest rectangle around the region at hand, whose columns it clears. */
static ew_rectangle around(heat *h) {
	uint32_t n = 0;
	for (int32_t x = h->left; x <= h->right; x++) {
		h->points[n++] = (ew_point){x, h->top[x]};
		h->points[n++] = (ew_point){x, h->low[x]};
		h->top[x] = INT32_MAX;
		h->low[x] = -1;
	}
	return ew_smallest(h->hull, ew_hull(h->points, n, h->hull));
}

static bool prepare(heat *h) {
	uint64_t pixels = (uint64_t)h->width * (uint64_t)h->height, columns = (uint64_t)h->width;
	h->seen = EW_ARRAY(uint8_t, pixels), h->pending = EW_ARRAY(int32_t, pixels);
	h->top = EW_ARRAY(int32_t, columns), h->low = EW_ARRAY(int32_t, columns);
	h->points = EW_ARRAY(ew_point, 2 * columns), h->hull = EW_ARRAY(ew_point, 4 * columns + 1);
	if (!h->seen || !h->pending || !h->top || !h->low || !h->points || !h->hull) return false;
	memset(h->seen, 0, pixels);
	for (uint64_t x = 0; x < columns; x++) h->top[x] = INT32_MAX, h->low[x] = -1;
	return true;
}

/* Writes a region's corners in the picture, and returns whether it is large enough to read. */
static bool placed(const ew_rectangle *r, const heat *h, const int32_t *size, float *out) {
	ew_quad q = ew_corners(r);
	double sx = (double)size[0] / h->width, sy = (double)size[1] / h->height;
	for (int i = 0; i < 4; i++) {
		q.corner[i].x = fmax(0, fmin(size[0], round(q.corner[i].x * sx)));
		q.corner[i].y = fmax(0, fmin(size[1], round(q.corner[i].y * sy)));
		out[2 * i] = (float)q.corner[i].x;
		out[2 * i + 1] = (float)q.corner[i].y;
	}
	return ew_quad_width(&q) > MIN_SIDE && ew_quad_height(&q) > MIN_SIDE;
}

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *map = ew_input(inputs, "heat", EW_FP32), *size = map ? ew_input(inputs, "size", EW_INT32) : NULL;
	double threshold, least, unclip;
	if (!size || !ew_parameter_number("threshold", 0.3, 0, 1, &threshold) || !ew_parameter_number("box_threshold", 0.6, 0, 1, &least) ||
		!ew_parameter_number("unclip", 1.5, 0, 100, &unclip)) return NULL;
	if (map->shape[2] > 8192 || map->shape[3] > 8192) return ew_fail("input \"heat\" is larger than 8192 pixels a side");
	heat h = {.values = ew_f32(map), .width = (int32_t)map->shape[3], .height = (int32_t)map->shape[2], .threshold = (float)threshold};
	float *quads = EW_ARRAY(float, 8 * MAX_REGIONS);
	if (!quads || !prepare(&h)) return NULL;

	uint32_t found = 0, kept = 0;
	for (int32_t at = 0; at < h.width * h.height && found < MAX_REGIONS; at++) {
		if (!(h.values[at] > h.threshold) || h.seen[at]) continue;
		double mean = component(&h, at);
		ew_rectangle r = around(&h);
		if (mean < least || fmin(r.width, r.height) < MIN_SIDE) continue;
		double more = r.width * r.height * unclip / (2 * (r.width + r.height));
		r.width += 2 * more, r.height += 2 * more;
		if (fmin(r.width, r.height) < MIN_SIDE + 2) continue;
		found++;
		if (placed(&r, &h, ew_i32(size), quads + 8 * kept)) kept++;
	}
	ew_list *outputs = ew_outputs(1);
	return ew_output_view(outputs, "quad", EW_FP32, EW_SHAPE(kept, 4, 2), quads, (uint64_t)kept * 8 * sizeof(float)) ? outputs : NULL;
}

EW_STEP(process, DESCRIPTION)
