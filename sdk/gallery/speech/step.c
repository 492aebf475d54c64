/*
 * A WAV file in, where somebody speaks out: runs Silero VAD on every frame through infer, carrying its state, and makes stretches of
 * speech of the probabilities. The configuration names the model: infer_models and the parameter "model".
 */
#include "resample.h"

#define DESCRIPTION \
	"{\"name\": \"speech\", \"version\": \"1.0.0\", \"description\": \"where somebody speaks, by Silero VAD 5\"," \
	"\"inputs\": [{\"name\": \"sound\", \"datatype\": \"BYTES\", \"shape\": [1], \"description\": \"a WAV file\"}]," \
	"\"outputs\": [" \
	"{\"name\": \"start\", \"datatype\": \"FP32\", \"shape\": [-1], \"description\": \"seconds\"}," \
	"{\"name\": \"end\", \"datatype\": \"FP32\", \"shape\": [-1]}," \
	"{\"name\": \"probability\", \"datatype\": \"FP32\", \"shape\": [-1], \"description\": \"of speech in each 32 ms\"}]," \
	"\"parameters\": [{\"name\": \"model\", \"default\": \"vad\", \"description\": \"the name of the model\"}]}"

#define RATE 16000
#define FRAME 512
#define CONTEXT 64
#define STATE 256

/* When speech begins and ends, as Silero's get_speech_timestamps has it; times in samples. */
#define SPEECH 0.5f
#define SILENCE 0.35f
#define MIN_SPEECH (RATE * 250 / 1000)
#define MIN_SILENCE (RATE * 100 / 1000)
#define PADDING (RATE * 30 / 1000)

typedef struct { int64_t start, end; } stretch;

/* Asks the model about one frame: window is the context and the frame, state is carried. False after ew_fail. */
static bool ask(const char *model, const float *window, float *state, float *probability) {
	static const int64_t rate = RATE;
	ew_list *in = ew_outputs(3);
	if (!ew_output_view(in, "input", EW_FP32, EW_SHAPE(1, CONTEXT + FRAME), window, sizeof(float) * (CONTEXT + FRAME)) ||
		!ew_output_view(in, "state", EW_FP32, EW_SHAPE(2, 1, 128), state, sizeof(float) * STATE) ||
		!ew_output_view(in, "sr", EW_INT64, EW_SHAPE(1), &rate, sizeof rate)) return false;
	const ew_list *out = ew_infer(model, in);
	if (!out) {
		ew_fail_last(model);
		return false;
	}
	const ew_tensor *p = ew_find(out, "output"), *next = ew_find(out, "stateN");
	if (!p || !next || p->dtype != EW_FP32 || p->data_len != 4 || next->dtype != EW_FP32 || next->data_len != sizeof(float) * STATE) {
		ew_fail("model \"%s\" does not answer as Silero VAD 5 does", model);
		return false;
	}
	*probability = *ew_f32(p);
	memcpy(state, next->data, sizeof(float) * STATE);
	return true;
}

static bool probabilities(const char *model, const ew_sound *sound, float *out) {
	float state[STATE] = {0}, window[CONTEXT + FRAME];
	for (int64_t at = 0; at < sound->count; at += FRAME) {
		for (int64_t k = 0; k < CONTEXT + FRAME; k++) {
			int64_t i = at - CONTEXT + k;
			window[k] = i >= 0 && i < sound->count ? sound->samples[i] : 0;
		}
		ew_place mark = ew_mark();
		if (!ask(model, window, state, out++)) return false;
		ew_release(mark);
	}
	return true;
}

/* Finds the stretches. Speech goes on through silences shorter than MIN_SILENCE; stretches up to MIN_SPEECH are left out. */
static uint32_t stretches(const float *p, int64_t frames, int64_t length, stretch *found) {
	uint32_t n = 0;
	int64_t start = -1, silence = -1;
	for (int64_t i = 0; i <= frames; i++) {
		int64_t at = i * FRAME, end = -1;
		if (i == frames) end = start >= 0 ? length : -1;
		else if (p[i] >= SPEECH) {
			silence = -1;
			if (start < 0) start = at;
		} else if (p[i] < SILENCE && start >= 0) {
			if (silence < 0) silence = at;
			if (at - silence >= MIN_SILENCE) end = silence;
		}
		if (end < 0) continue;
		if (end - start > MIN_SPEECH) found[n++] = (stretch){start, end};
		start = silence = -1;
	}
	return n;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *file = ew_input(inputs, "sound", EW_BYTES);
	ew_span bytes, name = ew_parameter("model");
	uint64_t offset = 0;
	ew_sound sound = {0};
	char model[129] = "vad";
	if (!file || !ew_next(file, &offset, &bytes) || !ew_read_sound(bytes, UINT32_MAX, &sound)) return NULL;
	if (!ew_resample(&sound, RATE, UINT32_MAX)) return NULL; /* only the step's memory bounds the sound */
	if (sound.count == 0) return ew_fail("the sound is empty: want at least one sample");
	if (name.len >= sizeof model) return ew_fail("parameter \"model\": want at most 128 bytes");
	if (name.data) model[ew_format(model, sizeof model - 1, "%.*s", (int)name.len, (const char *)name.data)] = 0;

	int64_t frames = ((int64_t)sound.count + FRAME - 1) / FRAME;
	ew_list *outputs = ew_outputs(3);
	float *p = ew_output(outputs, "probability", EW_FP32, EW_SHAPE(frames));
	stretch *found = EW_ARRAY(stretch, (uint64_t)frames + 1);
	if (!p || !found || !probabilities(model, &sound, p)) return NULL;
	uint32_t n = stretches(p, frames, sound.count, found);
	float *start = ew_output(outputs, "start", EW_FP32, EW_SHAPE(n)), *end = ew_output(outputs, "end", EW_FP32, EW_SHAPE(n));
	if (!start || !end) return NULL;
	for (uint32_t i = 0; i < n; i++) {
		/* Neighbours share what lies between them when it is less than two paddings. */
		int64_t before = i > 0 ? (found[i].start - found[i - 1].end + 1) / 2 : found[i].start;
		int64_t after = i + 1 < n ? (found[i + 1].start - found[i].end) / 2 : sound.count - found[i].end;
		start[i] = (float)((double)(found[i].start - least(PADDING, before)) / RATE);
		end[i] = (float)((double)(found[i].end + least(PADDING, after)) / RATE);
	}
	return outputs;
}

EW_STEP(process, DESCRIPTION)
