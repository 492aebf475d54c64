/*
 * The output of a detector with anchors on grids in, as SSD and BlazeFace have them: boxes and points in the picture's pixels out, the
 * surest first. Boxes that overlap become one, at their mean place weighted by score, or the surest of them stays.
 */
#include "place.h"
#include "pure.h"

#define DESCRIPTION \
	"{\"name\": \"anchors\", \"version\": \"1.0.0\", \"description\": \"boxes and points of an SSD or BlazeFace head\"," \
	"\"inputs\": [" \
	"{\"name\": \"score\", \"datatype\": \"FP32\", \"shape\": [-1, -1, 1], \"description\": \"of each anchor, before the sigmoid\"}," \
	"{\"name\": \"value\", \"datatype\": \"FP32\", \"shape\": [-1, -1, -1], \"description\": \"of each anchor: center, size, and points, in pixels of the model's input from the anchor\"}," \
	"{\"name\": \"score_2\", \"datatype\": \"FP32\", \"shape\": [-1, -1, 1], \"optional\": true, \"description\": \"of the anchors that follow\"}," \
	"{\"name\": \"value_2\", \"datatype\": \"FP32\", \"shape\": [-1, -1, -1], \"optional\": true}," \
	"{\"name\": \"map\", \"datatype\": \"FP32\", \"shape\": [-1, 6], \"optional\": true, \"description\": \"from face_input or letterbox\"}]," \
	"\"outputs\": [" \
	"{\"name\": \"box\", \"datatype\": \"FP32\", \"shape\": [-1, 4], \"description\": \"x1, y1, x2, y2\"}," \
	"{\"name\": \"score\", \"datatype\": \"FP32\", \"shape\": [-1]}," \
	"{\"name\": \"point\", \"datatype\": \"FP32\", \"shape\": [-1, -1, 2]}," \
	"{\"name\": \"row\", \"datatype\": \"INT32\", \"shape\": [-1], \"description\": \"of the batch\"}]," \
	"\"parameters\": [" \
	"{\"name\": \"grids\", \"default\": \"16x2,8x6\", \"description\": \"cells a side and anchors a cell of each grid, in the model's order\"}," \
	"{\"name\": \"size\", \"default\": \"256\", \"description\": \"pixels a side of the model's input\"}," \
	"{\"name\": \"score\", \"default\": \"0.5\", \"description\": \"the least score of a box\"}," \
	"{\"name\": \"iou\", \"default\": \"0.3\", \"description\": \"overlap from which two boxes are one\"}," \
	"{\"name\": \"merge\", \"default\": \"mean\", \"description\": \"mean: of all that overlap; surest: the others are dropped\"}]}"

#define MAX_ANCHORS 100000
#define MAX_VALUES 64

/* The place of each anchor as a fraction of the model's input: all of a cell lie at its center. */
typedef struct {
	float *xy;
	uint32_t count;
} grid;

static bool parse_count(const uint8_t **p, const uint8_t *end, uint32_t *n) {
	for (*n = 0; *p < end && **p >= '0' && **p <= '9' && *n < 10000; ++*p) *n = *n * 10 + (uint32_t)(**p - '0');
	return *n > 0 && *n < 10000;
}

static bool make_grid(grid *g) {
	static const char fallback[] = "16x2,8x6";
	ew_span text = ew_parameter("grids");
	if (!text.data) text = (ew_span){(const uint8_t *)fallback, sizeof fallback - 1};
	*g = (grid){EW_ARRAY(float, 2 * MAX_ANCHORS), 0};
	if (!g->xy) return false;
	const uint8_t *p = text.data, *end = p + text.len;
	for (;;) {
		uint32_t cells, each;
		bool good = parse_count(&p, end, &cells) && p < end && *p++ == 'x' && parse_count(&p, end, &each) && (uint64_t)cells * cells * each <= MAX_ANCHORS - g->count;
		if (!good || (p < end && *p != ',')) {
			ew_fail("parameter \"grids\" is \"%.*s\": want 16x2,8x6 and the like, at most %d anchors", (int)text.len, (const char *)text.data, MAX_ANCHORS);
			return false;
		}
		for (uint32_t i = 0; i < cells * cells * each; i++, g->count++) {
			g->xy[2 * g->count] = ((float)(i / each % cells) + 0.5f) / (float)cells;
			g->xy[2 * g->count + 1] = ((float)(i / each / cells) + 0.5f) / (float)cells;
		}
		if (p++ >= end) return true;
	}
}

/* What stands at one anchor: score, and pairs of numbers: center, size, points, as fractions of the model's input. */
typedef struct {
	uint32_t values; /* numbers of each: 4, and 2 for each point */
	uint32_t count;
	float *score, *pairs;
} candidates;

static bool finite_values(const float *v, uint32_t n) {
	for (uint32_t i = 0; i < n; i++)
		if (!(fabsf(v[i]) < 1 << 20)) return false;
	return true;
}

/* Adds those of the anchors from first on that are sure enough. */
static void collect(candidates *c, const grid *g, uint32_t first, const float *scores, const float *values, uint32_t n, float size, float least) {
	for (uint32_t i = 0; i < n; i++) {
		float score = ew_sigmoid(scores[i]);
		const float *v = values + (size_t)i * c->values;
		if (!(score >= least) || !finite_values(v, c->values)) continue;
		float *to = c->pairs + (size_t)c->count * c->values;
		for (uint32_t k = 0; k < c->values; k++) to[k] = v[k] / size + (k == 2 || k == 3 ? 0 : g->xy[2 * (first + i) + k % 2]);
		c->score[c->count++] = score;
	}
}

static void corners(const float *pairs, float box[4]) {
	box[0] = pairs[0] - pairs[2] / 2, box[1] = pairs[1] - pairs[3] / 2;
	box[2] = pairs[0] + pairs[2] / 2, box[3] = pairs[1] + pairs[3] / 2;
}

/* Makes one of each group that overlaps its surest. Returns how many there are, at the front of c; -1 after ew_fail. */
static int32_t merge(candidates *c, float iou, bool surest) {
	int32_t *order = EW_ARRAY(int32_t, c->count), *spare = EW_ARRAY(int32_t, c->count);
	float *boxes = EW_ARRAY(float, 4 * (uint64_t)c->count), *score = EW_ARRAY(float, c->count), *pairs = EW_ARRAY(float, (uint64_t)c->count * c->values);
	if (!order || !spare || !boxes || !score || !pairs) return -1;
	for (uint32_t i = 0; i < c->count; i++) {
		order[i] = (int32_t)i;
		corners(c->pairs + (size_t)i * c->values, boxes + 4 * (size_t)i);
	}
	ew_sort(c->score, order, spare, c->count);
	uint32_t left = c->count, found = 0;
	while (left > 0) {
		int32_t best = order[0];
		uint32_t rest = 0;
		double sum[MAX_VALUES] = {0}, weight = 0;
		for (uint32_t i = 0; i < left; i++) {
			int32_t o = order[i];
			if (i > 0 && !(ew_overlap(boxes + 4 * (size_t)best, boxes + 4 * (size_t)o) > iou)) {
				order[rest++] = o;
				continue;
			}
			if (i > 0 && surest) continue;
			weight += c->score[o];
			for (uint32_t k = 0; k < c->values; k++) sum[k] += (double)c->pairs[(size_t)o * c->values + k] * c->score[o];
		}
		for (uint32_t k = 0; k < c->values; k++) pairs[(size_t)found * c->values + k] = (float)(sum[k] / weight);
		score[found++] = c->score[best];
		left = rest;
	}
	c->score = score, c->pairs = pairs, c->count = found;
	return (int32_t)found;
}

/* One pair of inputs. */
typedef struct {
	const ew_tensor *score, *value;
	uint32_t count;
} part;

static bool read_part(const ew_list *inputs, const char *score, const char *value, part *p) {
	p->score = ew_input(inputs, score, EW_FP32);
	p->value = p->score ? ew_input(inputs, value, EW_FP32) : NULL;
	if (!p->value) return false;
	p->count = (uint32_t)p->score->shape[1];
	int64_t values = p->value->shape[2];
	if (p->value->shape[0] == p->score->shape[0] && p->value->shape[1] == p->score->shape[1] && values >= 4 && values <= MAX_VALUES && values % 2 == 0) return true;
	ew_fail("inputs \"%s\" and \"%s\": want [n, anchors, 1] and [n, anchors, values], 4 to %d values", score, value, MAX_VALUES);
	return false;
}

/* What was found in all rows of the batch. */
typedef struct {
	candidates c;
	int32_t *row;
} results;

static bool run(const ew_list *inputs, const part *parts, int count, const grid *g, results *all) {
	double size, least, iou;
	bool surest;
	if (!ew_parameter_number("size", 256, 1, 10000, &size) || !ew_parameter_number("score", 0.5, 0, 1, &least) ||
		!ew_parameter_number("iou", 0.3, 0, 1, &iou) || !ew_parameter_choice("merge", "mean", "surest", &surest)) return false;
	uint32_t values = all->c.values;
	for (int64_t r = 0; r < parts[0].score->shape[0]; r++) {
		ew_map map;
		candidates c = {values, 0, EW_ARRAY(float, g->count), EW_ARRAY(float, (uint64_t)g->count * values)};
		if (!c.score || !c.pairs || !ew_read_map(inputs, (uint32_t)r, &map)) return false;
		for (uint32_t p = 0, first = 0; p < (uint32_t)count; first += parts[p++].count)
			collect(&c, g, first, ew_f32(parts[p].score) + (size_t)r * parts[p].count, ew_f32(parts[p].value) + (size_t)r * parts[p].count * values, parts[p].count, (float)size, (float)least);
		if (merge(&c, (float)iou, surest) < 0) return false;
		for (uint32_t i = 0; i < c.count; i++, all->c.count++) {
			float *to = all->c.pairs + (size_t)all->c.count * values, *from = c.pairs + (size_t)i * values;
			for (uint32_t k = 0; k < values; k += 2) {
				float x = from[k] * (float)size, y = from[k + 1] * (float)size;
				to[k] = k == 2 ? x / map.scale_x : ew_back_x(&map, x);
				to[k + 1] = k == 2 ? y / map.scale_y : ew_back_y(&map, y);
			}
			all->c.score[all->c.count] = c.score[i];
			all->row[all->c.count] = (int32_t)r;
		}
	}
	return true;
}

static const ew_list *process(const ew_list *inputs) {
	grid g;
	part parts[2];
	int count = ew_find(inputs, "score_2") || ew_find(inputs, "value_2") ? 2 : 1;
	if (!make_grid(&g) || !read_part(inputs, "score", "value", &parts[0]) || (count == 2 && !read_part(inputs, "score_2", "value_2", &parts[1]))) return NULL;
	uint64_t anchors = (uint64_t)parts[0].count + (count == 2 ? parts[1].count : 0), rows = (uint64_t)parts[0].score->shape[0];
	uint32_t values = (uint32_t)parts[0].value->shape[2];
	if (anchors != g.count || (count == 2 && (parts[1].value->shape[2] != values || (uint64_t)parts[1].score->shape[0] != rows)))
		return ew_fail("the inputs have %llu anchors: parameter \"grids\" has %u", (unsigned long long)anchors, g.count);
	results all = {{values, 0, EW_ARRAY(float, anchors * rows), EW_ARRAY(float, anchors * rows * values)}, EW_ARRAY(int32_t, anchors * rows)};
	if (!all.c.score || !all.c.pairs || !all.row || !run(inputs, parts, count, &g, &all)) return NULL;

	uint32_t n = all.c.count, points = (values - 4) / 2;
	ew_list *outputs = ew_outputs(4);
	float *box = ew_output(outputs, "box", EW_FP32, EW_SHAPE(n, 4)), *point = ew_output(outputs, "point", EW_FP32, EW_SHAPE(n, points, 2));
	if (!box || !point || !ew_output_view(outputs, "score", EW_FP32, EW_SHAPE(n), all.c.score, n * sizeof(float)) ||
		!ew_output_view(outputs, "row", EW_INT32, EW_SHAPE(n), all.row, n * sizeof(int32_t))) return NULL;
	for (uint32_t i = 0; i < n; i++) {
		const float *pairs = all.c.pairs + (size_t)i * values;
		corners(pairs, box + 4 * (size_t)i);
		if (points > 0) memcpy(point + (size_t)i * 2 * points, pairs + 4, 2 * points * sizeof(float));
	}
	return outputs;
}

EW_STEP(process, DESCRIPTION)
