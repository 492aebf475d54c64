/*
 * Probabilities of characters in each column in, text out: the likeliest class of every column, without repetitions and columns
 * without a character (greedy CTC). Spaces may have a threshold of their own, for models that are shy of them.
 */
#include <wasm_simd128.h>

#include "labels.h"

#define DESCRIPTION \
	"{\"name\": \"ctc\", \"version\": \"1.0.0\", \"description\": \"text from the probabilities of characters\"," \
	"\"inputs\": [{\"name\": \"probability\", \"datatype\": \"FP32\", \"shape\": [-1, -1, -1], \"description\": \"[lines, columns, classes]; class 0 is no character\"}]," \
	"\"outputs\": [" \
	"{\"name\": \"text\", \"datatype\": \"BYTES\", \"shape\": [-1]}," \
	"{\"name\": \"confidence\", \"datatype\": \"FP32\", \"shape\": [-1], \"description\": \"the mean over the characters, 0 for no text\"}]," \
	"\"parameters\": [" \
	"{\"name\": \"alphabet\", \"description\": \"required: a character a line, from class 1 on\"}," \
	"{\"name\": \"space\", \"default\": \"true\", \"description\": \"whether a class for the space follows the alphabet\"}," \
	"{\"name\": \"space_threshold\", \"default\": \"1\", \"description\": \"probability of a space between two characters from which there is one; 1: only where it is the likeliest class\"}]}"

/* Characters by class. */
typedef struct {
	ew_lines characters; /* of classes 1 to count */
	uint32_t space;      /* class; beyond all classes where there is none */
	float threshold;     /* of a space; 1: only where it is the likeliest class */
} alphabet;

/* The highest; no number when the first one is none. Of 64 at a time the last are read first: what they pass the others need not check. */
static float highest(const float *p, uint32_t n) {
	v128_t best[4];
	for (int k = 0; k < 4; k++) best[k] = wasm_f32x4_splat(p[0]);
	uint32_t i = 0;
	for (; i + 64 <= n; i += 64)
		for (int k = 15; k >= 0; k--) best[k % 4] = wasm_f32x4_pmax(best[k % 4], wasm_v128_load(p + i + 4 * k));
	float lanes[16], most = p[0];
	for (int k = 0; k < 4; k++) wasm_v128_store(lanes + 4 * k, best[k]);
	for (int k = 0; k < 16; k++) most = lanes[k] > most ? lanes[k] : most;
	for (; i < n; i++) most = p[i] > most ? p[i] : most;
	return most;
}

/* The first of the highest; 0 when the first one is no number. */
static uint32_t likeliest(const float *p, uint32_t n) {
	float most = highest(p, n);
	if (!(p[0] < most)) return 0; /* the class of no character is the likeliest in most columns */
	v128_t wanted = wasm_f32x4_splat(most);
	uint32_t i = 0;
	for (; i + 32 <= n; i += 32) {
		v128_t some = wasm_f32x4_eq(wasm_v128_load(p + i + 28), wanted);
		for (int k = 6; k >= 0; k--) some = wasm_v128_or(some, wasm_f32x4_eq(wasm_v128_load(p + i + 4 * k), wanted));
		if (wasm_v128_any_true(some)) break;
	}
	while (p[i] != most) i++;
	return i;
}

/* Whether a character may stand beside a space that the model is unsure of: not the @ of an address, and none of a script without spaces. */
static bool spaced(ew_span c) {
	/* In UTF-8 everything from U+2E80 on begins with E2 BA or more. */
	if (c.len == 0 || c.data[0] == '@') return false;
	return c.data[0] < 0xE2 || (c.data[0] == 0xE2 && c.len > 1 && c.data[1] < 0xBA);
}

static ew_span character(const alphabet *a, uint32_t class) { return a->characters.line[class - 1]; }

/* Whether a space stands before character c: seen tells that it was the likeliest class since the last one. */
static bool spaced_out(const alphabet *a, bool seen, bool just, float gap, uint32_t last, uint32_t c) {
	if (a->threshold >= 1) return seen;
	return gap >= a->threshold && (just || (spaced(character(a, last)) && spaced(character(a, c))));
}

/* Reads one line. text has room for a space and the longest character in every column. */
static float read_line(const alphabet *a, const float *p, uint32_t columns, uint32_t classes, uint8_t *text, uint32_t *len) {
	double sum = 0;
	uint32_t n = 0, before = 0, last = 0;
	float gap = 0;     /* the highest probability of a space since the last character */
	bool seen = false; /* whether it was the likeliest class since then */
	*len = 0;
	for (uint32_t t = 0; t < columns; t++, p += classes) {
		uint32_t best = likeliest(p, classes);
		if (best == 0 || best == a->space) {
			if (a->space < classes && p[a->space] > gap) gap = p[a->space];
			seen |= best == a->space;
		} else if (best != before) {
			ew_span c = character(a, best);
			if (n > 0 && spaced_out(a, seen, before == a->space, gap, last, best)) text[(*len)++] = ' ';
			if (c.len > 0) memcpy(text + *len, c.data, c.len);
			*len += c.len;
			sum += p[best];
			n++;
			last = best;
			gap = 0;
			seen = false;
		}
		before = best;
	}
	if (n > 0 && sum == sum) return (float)(sum / n);
	*len = 0;
	return 0;
}

static const ew_list *process(const ew_list *inputs) {
	const ew_tensor *p = ew_input(inputs, "probability", EW_FP32);
	alphabet a;
	bool space;
	double threshold;
	if (!p || !ew_parameter_bool("space", true, &space) || !ew_parameter_number("space_threshold", 1, 0, 1, &threshold)) return NULL;
	ew_span text = ew_parameter("alphabet");
	if (!text.data) return ew_fail("parameter \"alphabet\" is missing");
	if (!ew_split_lines(text, &a.characters)) return NULL;
	uint32_t lines = (uint32_t)p->shape[0], columns = (uint32_t)p->shape[1], classes = (uint32_t)p->shape[2];
	if (a.characters.count + 1 + space != classes)
		return ew_fail("input \"probability\" has %u classes: the alphabet has %u characters%s, and one class is no character", classes, a.characters.count, space ? " and a space" : "");
	a.space = space ? classes - 1 : classes;
	a.threshold = (float)threshold;

	uint32_t longest = 1;
	for (uint32_t i = 0; i < a.characters.count; i++) longest = a.characters.line[i].len > longest ? a.characters.line[i].len : longest;
	ew_list *outputs = ew_outputs(2);
	float *confidence = ew_output(outputs, "confidence", EW_FP32, EW_SHAPE(lines));
	ew_span *texts = EW_ARRAY(ew_span, lines);
	if (!confidence || !texts) return NULL;
	for (uint32_t i = 0; i < lines; i++) {
		uint8_t *buffer = EW_ARRAY(uint8_t, (uint64_t)columns * (longest + 1));
		if (!buffer) return NULL;
		texts[i].data = buffer;
		confidence[i] = read_line(&a, ew_f32(p) + (size_t)i * columns * classes, columns, classes, buffer, &texts[i].len);
	}
	return ew_output_spans(outputs, "text", EW_SHAPE(lines), texts, lines) ? outputs : NULL;
}

EW_STEP(process, DESCRIPTION)
