/* A WAV file in, frames of samples out, each with the last samples of the one before it: what Silero VAD and models like it take. */
#include "resample.h"

#define DESCRIPTION \
	"{\"name\": \"sound_frames\", \"version\": \"1.0.0\", \"description\": \"a sound cut into frames\"," \
	"\"inputs\": [{\"name\": \"sound\", \"datatype\": \"BYTES\", \"shape\": [1], \"description\": \"a WAV file\"}]," \
	"\"outputs\": [" \
	"{\"name\": \"frame\", \"datatype\": \"FP32\", \"shape\": [-1, -1], \"description\": \"the context, then the samples; the last frame is filled up with silence\"}," \
	"{\"name\": \"samples\", \"datatype\": \"INT64\", \"shape\": [1], \"description\": \"of the sound\"}]," \
	"\"parameters\": [" \
	"{\"name\": \"rate\", \"default\": \"16000\", \"description\": \"samples a second that the sound is brought to\"}," \
	"{\"name\": \"frame\", \"default\": \"512\", \"description\": \"new samples in each frame\"}," \
	"{\"name\": \"context\", \"default\": \"64\", \"description\": \"samples of the frame before in each frame\"}]}"

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *file = ew_input(inputs, "sound", EW_BYTES);
	int64_t rate, frame, context;
	if (!file || !ew_parameter_int("rate", 16000, EW_MIN_SAMPLE_RATE, EW_MAX_SAMPLE_RATE, &rate) || !ew_parameter_int("frame", 512, 1, 1 << 20, &frame) || !ew_parameter_int("context", 64, 0, 1 << 20, &context)) return NULL;
	ew_span bytes;
	uint64_t offset = 0;
	ew_sound sound = {0};
	/* Only the step's memory bounds the sound. */
	if (!ew_next(file, &offset, &bytes) || !ew_read_sound(bytes, UINT32_MAX, &sound) || !ew_resample(&sound, (uint32_t)rate, UINT32_MAX)) return NULL;

	uint32_t frames = 0, width = (uint32_t)(context + frame), rest = sound.count % (uint32_t)frame;
	const float *to = ew_frames(&sound, width, (uint32_t)frame, (uint32_t)context, rest ? (uint32_t)frame - rest : 0, UINT32_MAX, &frames);
	ew_list *outputs = ew_outputs(2);
	if (!to || !ew_output_view(outputs, "frame", EW_FP32, EW_SHAPE(frames, width), to, (uint64_t)frames * width * sizeof *to)) return NULL;
	int64_t *samples = ew_output(outputs, "samples", EW_INT64, EW_SHAPE(1));
	if (!samples) return NULL;
	*samples = sound.count;
	return outputs;
}

EW_STEP(process, DESCRIPTION)
