/* Measurements in, the same as a model was trained on them out: each less its mean, over its deviation. */
#include "edgewise.h"

#define FEATURES 64

#define DESCRIPTION \
	"{\"name\": \"standardise\", \"version\": \"1.0.0\", \"description\": \"measurements by their means and deviations\"," \
	"\"inputs\": [{\"name\": \"raw\", \"datatype\": \"FP32\", \"shape\": [-1, 64]}]," \
	"\"outputs\": [{\"name\": \"features\", \"datatype\": \"FP32\", \"shape\": [-1, 64]}]}"

static float mean[FEATURES], scale[FEATURES];

/* What training measured; here any numbers. */
static void setup(void) {
	for (int i = 0; i < FEATURES; i++) mean[i] = 0.01f * (float)i, scale[i] = 1 / (0.5f + 0.01f * (float)i);
}

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *raw = ew_input(inputs, "raw", EW_FP32);
	if (!raw) return NULL;
	ew_list *outputs = ew_outputs(1);
	float *features = ew_output(outputs, "features", EW_FP32, EW_SHAPE(raw->shape[0], FEATURES));
	if (!features) return NULL;
	for (uint64_t i = 0; i < ew_elements(raw); i++) features[i] = (ew_f32(raw)[i] - mean[i % FEATURES]) * scale[i % FEATURES];
	return outputs;
}

EW_STEP_SETUP(process, DESCRIPTION, setup)
