/* The worked example: scores of classes in, the likeliest classes with their labels out. */
#include <math.h>

#include "edgewise.h"

#define DESCRIPTION \
	"{\"name\": \"classify\", \"version\": \"1.0.0\", \"description\": \"softmax, the k likeliest classes and their labels\"," \
	"\"inputs\": [{\"name\": \"scores\", \"datatype\": \"FP32\", \"shape\": [-1, -1]}]," \
	"\"outputs\": [" \
	"{\"name\": \"label\", \"datatype\": \"BYTES\", \"shape\": [-1, -1]}," \
	"{\"name\": \"probability\", \"datatype\": \"FP32\", \"shape\": [-1, -1]}," \
	"{\"name\": \"class\", \"datatype\": \"INT32\", \"shape\": [-1, -1]}]," \
	"\"parameters\": [" \
	"{\"name\": \"k\", \"default\": \"5\", \"description\": \"classes to return\"}," \
	"{\"name\": \"labels\", \"description\": \"one label a line; a class without one is called by its number\"}]}"

/* Turns a row of scores into probabilities, in place. */
static void softmax(float *row, uint32_t n) {
	float highest = -INFINITY, sum = 0;
	for (uint32_t i = 0; i < n; i++) highest = row[i] > highest ? row[i] : highest;
	for (uint32_t i = 0; i < n; i++) sum += row[i] = expf(row[i] - highest);
	for (uint32_t i = 0; i < n; i++) row[i] /= sum;
}

/* Writes the k largest of row, the largest first, of equal ones the lower class first. */
static void top_k(const float *row, uint32_t n, uint32_t k, float *values, int32_t *classes) {
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (kept == k && !(row[i] > values[k - 1])) continue;
		uint32_t at = kept < k ? kept++ : k - 1;
		for (; at > 0 && row[i] > values[at - 1]; at--) {
			values[at] = values[at - 1];
			classes[at] = classes[at - 1];
		}
		values[at] = row[i];
		classes[at] = (int32_t)i;
	}
}

/* The line of labels with this number, or the number itself. */
static ew_span label(ew_span labels, int32_t class) {
	const uint8_t *p = labels.data, *end = p + labels.len;
	for (int32_t line = 0; p && p < end; line++) {
		const uint8_t *stop = memchr(p, '\n', (size_t)(end - p));
		if (!stop) stop = end;
		if (line == class && stop > p) return (ew_span){p, (uint32_t)(stop - p)};
		p = stop + 1;
	}
	char *number = ew_alloc(12, 1);
	return (ew_span){(uint8_t *)number, number ? (uint32_t)ew_format(number, 12, "%d", class) : 0};
}

static const ew_list *classify(const ew_list *inputs) {
	const ew_tensor *scores = ew_input(inputs, "scores", EW_FP32);
	int64_t k;
	if (!scores || !ew_parameter_int("k", 5, 1, 1000, &k)) return NULL;
	if (scores->rank != 2) return ew_fail("input \"scores\" has %u dimensions: want [rows, classes]", scores->rank);
	uint32_t rows = (uint32_t)scores->shape[0], classes = (uint32_t)scores->shape[1];
	if (k > classes) k = classes;

	ew_span labels = ew_parameter("labels");
	ew_list *outputs = ew_outputs(3);
	float *probability = ew_output(outputs, "probability", EW_FP32, EW_SHAPE(rows, k));
	int32_t *class = ew_output(outputs, "class", EW_INT32, EW_SHAPE(rows, k));
	ew_span *names = EW_ARRAY(ew_span, (uint64_t)rows * (uint64_t)k);
	if (!probability || !class || !names) return NULL;
	for (uint32_t r = 0; r < rows; r++) {
		float *row = ew_f32(scores) + (size_t)r * classes;
		softmax(row, classes);
		top_k(row, classes, (uint32_t)k, probability + r * k, class + r * k);
	}
	uint32_t found = rows * (uint32_t)k;
	for (uint32_t i = 0; i < found; i++) names[i] = label(labels, class[i]);
	return ew_output_spans(outputs, "label", EW_SHAPE(rows, k), names, found) ? outputs : NULL;
}

EW_STEP(classify, DESCRIPTION)
