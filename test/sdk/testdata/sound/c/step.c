/* Reads the sound, brings it to rate unless that is 0, and cuts it into frames: package sdk's test of the sound helpers. */
#include "resample.h"

#define PARAMETER(name) "{\"name\": \"" name "\"}"
#define DESCRIPTION \
	"{\"name\": \"sound\", \"version\": \"1.0.0\"," \
	"\"inputs\": [{\"name\": \"sound\", \"datatype\": \"BYTES\", \"shape\": [1]}]," \
	"\"outputs\": [{\"name\": \"rate\", \"datatype\": \"INT32\", \"shape\": [1]}, {\"name\": \"samples\", \"datatype\": \"FP32\", \"shape\": [-1]}," \
	"{\"name\": \"frames\", \"datatype\": \"FP32\", \"shape\": [-1]}]," \
	"\"parameters\": [" PARAMETER("rate") "," PARAMETER("limit") "," PARAMETER("width") "," PARAMETER("hop") "," PARAMETER("before") "," PARAMETER("after") "]}"

static bool number(const char *name, uint32_t *to) {
	int64_t v;
	if (!ew_parameter_int(name, 0, 0, UINT32_MAX, &v)) return false;
	*to = (uint32_t)v;
	return true;
}

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *file = ew_input(inputs, "sound", EW_BYTES);
	uint32_t rate, limit, width, hop, before, after, n;
	ew_sound sound = {0};
	ew_span bytes;
	uint64_t offset = 0;
	if (!file || !ew_next(file, &offset, &bytes) || !number("rate", &rate) || !number("limit", &limit)) return NULL;
	if (!number("width", &width) || !number("hop", &hop) || !number("before", &before) || !number("after", &after)) return NULL;
	if (!ew_read_sound(bytes, limit, &sound) || (rate && !ew_resample(&sound, rate, limit))) return NULL;
	const float *frames = ew_frames(&sound, width, hop, before, after, limit, &n);
	ew_list *outputs = ew_outputs(3);
	int32_t *to = ew_output(outputs, "rate", EW_INT32, EW_SHAPE(1));
	if (!frames || !to) return NULL;
	*to = (int32_t)sound.rate;
	bool whole = ew_output_view(outputs, "samples", EW_FP32, EW_SHAPE(sound.count), sound.samples, 4ull * sound.count) &&
		ew_output_view(outputs, "frames", EW_FP32, EW_SHAPE((int64_t)n * width), frames, 4ull * n * width);
	return whole ? outputs : NULL;
}

EW_STEP(process, DESCRIPTION)
