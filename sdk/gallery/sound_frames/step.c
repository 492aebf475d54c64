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
	if (!file || !ew_parameter_int("rate", 16000, 1, 768000, &rate) || !ew_parameter_int("frame", 512, 1, 1 << 20, &frame) || !ew_parameter_int("context", 64, 0, 1 << 20, &context)) return NULL;
	ew_span bytes;
	uint64_t offset = 0;
	ew_sound sound = {0};
	if (!ew_next(file, &offset, &bytes) || !ew_read_sound(bytes, &sound)) return NULL;
	if (!ew_resample(&sound, (uint32_t)rate)) return NULL;

	int64_t frames = (sound.count + frame - 1) / frame, width = context + frame;
	ew_list *outputs = ew_outputs(2);
	float *to = ew_output(outputs, "frame", EW_FP32, EW_SHAPE(frames, width));
	int64_t *samples = ew_output(outputs, "samples", EW_INT64, EW_SHAPE(1));
	if (!to || !samples) return NULL;
	*samples = sound.count;
	for (int64_t i = 0; i < frames; i++, to += width) {
		int64_t from = i * frame - context;
		int64_t low = from < 0 ? -from : 0, high = from + width > (int64_t)sound.count ? (int64_t)sound.count - from : width;
		memset(to, 0, (size_t)width * sizeof *to);
		if (low < high) memcpy(to + low, sound.samples + from + low, (size_t)(high - low) * sizeof *to);
	}
	return outputs;
}

EW_STEP(process, DESCRIPTION)
