/* The output of a YOLO v5 or v8 head in, boxes in the picture's pixels out, the surest first. */
#include "labels.h"
#include "place.h"
#include "pure.h"

#define DESCRIPTION \
	"{\"name\": \"yolo\", \"version\": \"1.0.0\", \"description\": \"boxes of a YOLO head, without those that overlap a surer one\"," \
	"\"inputs\": [" \
	"{\"name\": \"output\", \"datatype\": \"FP32\", \"shape\": [1, -1, -1], \"description\": \"v8: [1, 4 + classes, places]; v5: [1, places, 5 + classes]\"}," \
	"{\"name\": \"map\", \"datatype\": \"FP32\", \"shape\": [1, 6], \"optional\": true, \"description\": \"from letterbox\"}]," \
	"\"outputs\": [" \
	"{\"name\": \"box\", \"datatype\": \"FP32\", \"shape\": [-1, 4], \"description\": \"x1, y1, x2, y2\"}," \
	"{\"name\": \"score\", \"datatype\": \"FP32\", \"shape\": [-1]}," \
	"{\"name\": \"class\", \"datatype\": \"INT32\", \"shape\": [-1]}," \
	"{\"name\": \"label\", \"datatype\": \"BYTES\", \"shape\": [-1]}]," \
	"\"parameters\": [" \
	"{\"name\": \"head\", \"default\": \"v8\", \"description\": \"v8 (also v11) or v5 (also v7)\"}," \
	"{\"name\": \"score\", \"default\": \"0.25\", \"description\": \"the least score of a box\"}," \
	"{\"name\": \"iou\", \"default\": \"0.45\", \"description\": \"overlap from which two boxes of a class are one\"}," \
	"{\"name\": \"max\", \"default\": \"300\", \"description\": \"boxes to return at most\"}," \
	"{\"name\": \"labels\", \"description\": \"one label a line\"}]}"

/* What the head says: center and size at box, each value step apart; the best class and its score of each place. */
typedef struct {
	bool v5;
	uint32_t places, classes;
	const float *box;
	size_t place, value; /* from one place to the next, and from one value of a place to the next */
	float *score;
	int32_t *class;
} head;

/* One more class, or four that lie places apart, against the best score of every place. What is no number is never the best. */
static void best_of_one(float *best, const float *scores, uint32_t places) {
	uint32_t i = 0;
	for (; i + 16 <= places; i += 16)
		for (int k = 12; k >= 0; k -= 4) wasm_v128_store(best + i + k, wasm_f32x4_pmax(wasm_v128_load(best + i + k), wasm_v128_load(scores + i + k)));
	for (; i < places; i++)
		if (scores[i] > best[i]) best[i] = scores[i];
}

static void best_of_four(float *best, const float *scores, uint32_t places) {
	const float *second = scores + places, *third = second + places, *fourth = third + places;
	uint32_t i = 0;
	for (; i + 16 <= places; i += 16)
		for (int k = 12; k >= 0; k -= 4) {
			v128_t most = wasm_f32x4_pmax(wasm_v128_load(best + i + k), wasm_v128_load(scores + i + k));
			most = wasm_f32x4_pmax(wasm_f32x4_pmax(most, wasm_v128_load(second + i + k)), wasm_v128_load(third + i + k));
			wasm_v128_store(best + i + k, wasm_f32x4_pmax(most, wasm_v128_load(fourth + i + k)));
		}
	for (; i < places; i++)
		for (uint32_t c = 0; c < 4; c++)
			if (scores[i + c * places] > best[i]) best[i] = scores[i + c * places];
}

/* Looks for the best score of each place, class after class, since that is how the values lie. Which class it was is looked for where it matters. */
static void best_of_v8(head *h, const float *scores) {
	for (uint32_t i = 0; i < h->places; i++) h->score[i] = -INFINITY;
	uint32_t c = 0;
	for (; c + 4 <= h->classes; c += 4, scores += 4 * (size_t)h->places) best_of_four(h->score, scores, h->places);
	for (; c < h->classes; c++, scores += h->places) best_of_one(h->score, scores, h->places);
}

/* The first class of place i that has the best score. */
static int32_t class_of_v8(const head *h, uint32_t i) {
	const float *score = h->box + 4 * h->value + i;
	int32_t c = 0;
	for (; *score != h->score[i]; score += h->value) c++;
	return c;
}

/* The score of a class is that of an object times its own. */
static void best_of_v5(head *h, float least) {
	for (uint32_t i = 0; i < h->places; i++) {
		const float *row = h->box + i * h->place;
		h->score[i] = -INFINITY, h->class[i] = 0;
		if (!(row[4] >= least)) continue;
		for (uint32_t c = 0; c < h->classes; c++)
			if (row[5 + c] * row[4] > h->score[i]) h->score[i] = row[5 + c] * row[4], h->class[i] = (int32_t)c;
	}
}

static bool read_head(const ew_tensor *output, bool v5, float least, head *h) {
	int64_t values = output->shape[v5 ? 2 : 1], places = output->shape[v5 ? 1 : 2];
	if (values < (v5 ? 6 : 5) || values > 10000 || places < 0 || places > 1000000) {
		ew_fail("input \"output\" is [1,%lld,%lld]: a %s head has %s", (long long)output->shape[1], (long long)output->shape[2], v5 ? "v5" : "v8",
			v5 ? "[1, places, 5 + classes]" : "[1, 4 + classes, places]");
		return false;
	}
	*h = (head){v5, (uint32_t)places, (uint32_t)values - (v5 ? 5 : 4), ew_f32(output), v5 ? (size_t)values : 1, v5 ? 1 : (size_t)places,
		EW_ARRAY(float, (uint64_t)places), EW_ARRAY(int32_t, (uint64_t)places)};
	if (!h->score || !h->class) return false;
	if (v5) best_of_v5(h, least);
	else best_of_v8(h, h->box + 4 * h->value);
	return true;
}

/* Keeps the places that are sure enough, at the front of score and class, with their boxes in the picture. */
static uint32_t gather(head *h, const ew_map *map, float least, float *boxes) {
	uint32_t n = 0;
	for (uint32_t i = 0; i < h->places; i++) {
		if (!(h->score[i] >= least)) continue;
		const float *b = h->box + i * h->place;
		float x = b[0], y = b[h->value], w = b[2 * h->value] / 2, d = b[3 * h->value] / 2;
		float *to = boxes + 4 * (size_t)n;
		to[0] = ew_clamp(ew_back_x(map, x - w), 0, map->width);
		to[1] = ew_clamp(ew_back_y(map, y - d), 0, map->height);
		to[2] = ew_clamp(ew_back_x(map, x + w), 0, map->width);
		to[3] = ew_clamp(ew_back_y(map, y + d), 0, map->height);
		h->class[n] = h->v5 ? h->class[i] : class_of_v8(h, i);
		h->score[n++] = h->score[i];
	}
	return n;
}

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *output = ew_input(inputs, "output", EW_FP32);
	double least, iou;
	int64_t max;
	bool v5;
	ew_map map;
	head h;
	if (!output || !ew_parameter_number("score", 0.25, 0, 1, &least) || !ew_parameter_number("iou", 0.45, 0, 1, &iou) ||
		!ew_parameter_int("max", 300, 1, 10000, &max) || !ew_parameter_choice("head", "v8", "v5", &v5) || !ew_read_map(inputs, 0, &map) ||
		!read_head(output, v5, (float)least, &h)) return NULL;

	float *boxes = EW_ARRAY(float, 4 * (uint64_t)h.places);
	int32_t *kept = EW_ARRAY(int32_t, (uint64_t)max);
	if (!boxes || !kept) return NULL;
	uint32_t n = gather(&h, &map, (float)least, boxes);
	int32_t found = ew_nms(boxes, h.score, h.class, n, (float)iou, (float)least, kept, (uint32_t)max);
	ew_list *outputs = ew_outputs(4);
	float *box = ew_output(outputs, "box", EW_FP32, EW_SHAPE(found, 4)), *score = ew_output(outputs, "score", EW_FP32, EW_SHAPE(found));
	int32_t *class = ew_output(outputs, "class", EW_INT32, EW_SHAPE(found));
	if (found < 0 || !box || !score || !class) return NULL;
	for (int32_t i = 0; i < found; i++) {
		memcpy(box + 4 * i, boxes + 4 * (size_t)kept[i], 4 * sizeof(float));
		score[i] = h.score[kept[i]];
		class[i] = h.class[kept[i]];
	}
	return ew_output_labels(outputs, "label", EW_SHAPE(found), class, (uint32_t)found) ? outputs : NULL;
}

EW_STEP(process, DESCRIPTION)
