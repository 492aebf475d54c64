/* STEPNAME: multiplies every element of x. Begin here. */
#include "edgewise.h"

#define DESCRIPTION \
	"{\"name\": \"STEPNAME\", \"version\": \"1.0.0\"," \
	"\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [-1, -1]}]," \
	"\"outputs\": [{\"name\": \"y\", \"datatype\": \"FP32\", \"shape\": [-1, -1]}]," \
	"\"parameters\": [{\"name\": \"factor\", \"default\": \"2\", \"description\": \"what to multiply by\"}]}"

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *x = ew_input(inputs, "x", EW_FP32);
	double factor;
	if (!x || !ew_parameter_number("factor", 2, -1e6, 1e6, &factor)) return NULL;

	ew_list *outputs = ew_outputs(1);
	float *y = ew_output(outputs, "y", EW_FP32, x->rank, x->shape);
	if (!y) return NULL;
	for (uint64_t i = 0; i < ew_elements(x); i++) y[i] = ew_f32(x)[i] * (float)factor;
	return outputs;
}

EW_STEP(process, DESCRIPTION)
