/* The scores of a classifier in, the likeliest classes with their labels out. */
#include "labels.h"
#include "pure.h"

#define DESCRIPTION \
	"{\"name\": \"labels\", \"version\": \"1.0.0\", \"description\": \"softmax, the k likeliest classes and their labels\"," \
	"\"inputs\": [{\"name\": \"scores\", \"datatype\": \"FP32\", \"shape\": [-1, -1]}]," \
	"\"outputs\": [" \
	"{\"name\": \"label\", \"datatype\": \"BYTES\", \"shape\": [-1, -1]}," \
	"{\"name\": \"probability\", \"datatype\": \"FP32\", \"shape\": [-1, -1]}," \
	"{\"name\": \"class\", \"datatype\": \"INT32\", \"shape\": [-1, -1]}]," \
	"\"parameters\": [" \
	"{\"name\": \"k\", \"default\": \"5\", \"description\": \"classes to return\"}," \
	"{\"name\": \"softmax\", \"default\": \"true\", \"description\": \"false: the scores are probabilities already\"}," \
	"{\"name\": \"labels\", \"description\": \"one label a line; a class without one is called by its number\"}]}"

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *scores = ew_input(inputs, "scores", EW_FP32);
	int64_t k;
	bool softmax;
	if (!scores || !ew_parameter_int("k", 5, 1, 1000, &k) || !ew_parameter_bool("softmax", true, &softmax)) return NULL;
	uint32_t rows = (uint32_t)scores->shape[0], classes = (uint32_t)scores->shape[1];
	if (k > classes) k = classes;

	ew_list *outputs = ew_outputs(3);
	float *probability = ew_output(outputs, "probability", EW_FP32, EW_SHAPE(rows, k));
	int32_t *class = ew_output(outputs, "class", EW_INT32, EW_SHAPE(rows, k));
	if (!probability || !class) return NULL;
	if (softmax) ew_softmax(ew_f32(scores), ew_f32(scores), rows, classes);
	ew_top_k(ew_f32(scores), rows, classes, (uint32_t)k, probability, class);
	return ew_output_labels(outputs, "label", EW_SHAPE(rows, k), class, rows * (uint32_t)k) ? outputs : NULL;
}

EW_STEP(process, DESCRIPTION)
