/* The conformance step in C: what it does, and why, is in sdk/conformance/README.md. */
#include "edgewise.h"

#define DESCRIPTION \
	"{\"name\": \"conformance\", \"version\": \"1.0.0\", \"description\": \"exercises the whole ABI\"," \
	"  \"inputs\": [" \
	"    {\"name\": \"bool\", \"datatype\": \"BOOL\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"uint8\", \"datatype\": \"UINT8\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"uint16\", \"datatype\": \"UINT16\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"uint32\", \"datatype\": \"UINT32\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"uint64\", \"datatype\": \"UINT64\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"int8\", \"datatype\": \"INT8\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"int16\", \"datatype\": \"INT16\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"int32\", \"datatype\": \"INT32\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"int64\", \"datatype\": \"INT64\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"fp16\", \"datatype\": \"FP16\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"fp32\", \"datatype\": \"FP32\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"fp64\", \"datatype\": \"FP64\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"bf16\", \"datatype\": \"BF16\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"bytes\", \"datatype\": \"BYTES\", \"shape\": [-1], \"optional\": true}," \
	"    {\"name\": \"deep\", \"datatype\": \"FP32\", \"shape\": [-1, -1, -1, -1], \"optional\": true}," \
	"    {\"name\": \"scalar\", \"datatype\": \"FP64\", \"shape\": [], \"optional\": true}]," \
	"  \"outputs\": [" \
	"    {\"name\": \"bool\", \"datatype\": \"BOOL\", \"shape\": [-1]}," \
	"    {\"name\": \"uint8\", \"datatype\": \"UINT8\", \"shape\": [-1]}," \
	"    {\"name\": \"uint16\", \"datatype\": \"UINT16\", \"shape\": [-1]}," \
	"    {\"name\": \"uint32\", \"datatype\": \"UINT32\", \"shape\": [-1]}," \
	"    {\"name\": \"uint64\", \"datatype\": \"UINT64\", \"shape\": [-1]}," \
	"    {\"name\": \"int8\", \"datatype\": \"INT8\", \"shape\": [-1]}," \
	"    {\"name\": \"int16\", \"datatype\": \"INT16\", \"shape\": [-1]}," \
	"    {\"name\": \"int32\", \"datatype\": \"INT32\", \"shape\": [-1]}," \
	"    {\"name\": \"int64\", \"datatype\": \"INT64\", \"shape\": [-1]}," \
	"    {\"name\": \"fp16\", \"datatype\": \"FP16\", \"shape\": [-1]}," \
	"    {\"name\": \"fp32\", \"datatype\": \"FP32\", \"shape\": [-1]}," \
	"    {\"name\": \"fp64\", \"datatype\": \"FP64\", \"shape\": [-1]}," \
	"    {\"name\": \"bf16\", \"datatype\": \"BF16\", \"shape\": [-1]}," \
	"    {\"name\": \"bytes\", \"datatype\": \"BYTES\", \"shape\": [-1]}," \
	"    {\"name\": \"deep\", \"datatype\": \"FP32\", \"shape\": [-1, -1, -1, -1]}," \
	"    {\"name\": \"scalar\", \"datatype\": \"FP64\", \"shape\": []}]," \
	"  \"parameters\": [{\"name\": \"do\", \"description\": \"what to do\"}]}"

static bool is(ew_span what, const char *name) { return what.len == strlen(name) && !memcmp(what.data, name, what.len); }

static const ew_list *echo(const ew_list *inputs, bool reverse) {
	ew_list *outputs = ew_outputs(inputs->count);
	for (uint32_t i = 0; i < inputs->count; i++)
		if (!ew_output_tensor(outputs, &inputs->tensor[reverse ? inputs->count - 1 - i : i])) return NULL;
	return outputs;
}

static const ew_list *one_text(ew_span text) {
	ew_list *outputs = ew_outputs(1);
	return ew_output_spans(outputs, "bytes", EW_SHAPE(1), &text, 1) ? outputs : NULL;
}

/* The first text of the input bytes; data is NULL after ew_fail. */
static ew_span first_text(const ew_list *inputs) {
	ew_span text = {NULL, 0};
	uint64_t offset = 0;
	const ew_tensor *t = ew_input(inputs, "bytes", EW_BYTES);
	if (t && !ew_next(t, &offset, &text)) ew_fail("input \"bytes\" is empty");
	return text;
}

static const ew_list *fail(const ew_list *inputs) {
	ew_span text = first_text(inputs);
	return text.data ? ew_fail("%.*s", (int)text.len, (const char *)text.data) : NULL;
}

static const ew_list *parameters(const ew_list *inputs) {
	const ew_tensor *names = ew_input(inputs, "bytes", EW_BYTES);
	ew_span name, *texts = names ? EW_ARRAY(ew_span, ew_elements(names)) : NULL;
	if (!texts) return NULL;
	uint32_t n = 0;
	for (uint64_t offset = 0; ew_next(names, &offset, &name); n++) {
		char terminated[257] = {0};
		memcpy(terminated, name.data, name.len < 256 ? name.len : 256);
		texts[n] = ew_parameter(terminated);
		if (!texts[n].data) texts[n] = (ew_span){(const uint8_t *)"(none)", 6};
	}
	ew_list *outputs = ew_outputs(1);
	return ew_output_spans(outputs, "bytes", EW_SHAPE(n), texts, n) ? outputs : NULL;
}

static const ew_list *write_log(const ew_list *inputs) {
	const ew_tensor *lines = ew_input(inputs, "bytes", EW_BYTES);
	if (!lines) return NULL;
	ew_span line;
	int level = EW_DEBUG;
	for (uint64_t offset = 0; ew_next(lines, &offset, &line); level++) ew_log(level % 4, "%.*s", (int)line.len, (const char *)line.data);
	return ew_outputs(0);
}

/* Runs the model that the parameter names; NULL when it failed. */
static const ew_list *infer(const ew_list *inputs) {
	ew_span name = ew_parameter("model");
	char model[129] = {0};
	memcpy(model, name.data ? name.data : (const uint8_t *)"", name.len < 128 ? name.len : 128);
	return ew_infer(model, (ew_list *)echo(inputs, false));
}

static const ew_list *infer_or_fail(const ew_list *inputs) {
	const ew_list *answer = infer(inputs);
	return answer ? echo(answer, false) : ew_fail_last("infer");
}

static const ew_list *infer_error(const ew_list *inputs) {
	char text[EW_MAX_TEXT];
	if (infer(inputs)) return ew_fail("the model answered");
	return one_text((ew_span){(const uint8_t *)text, (uint32_t)ew_last_error(text, sizeof text)});
}

static const ew_list *emit_error(const ew_list *inputs) {
	char text[EW_MAX_TEXT];
	if (ew_emit((ew_list *)echo(inputs, false))) return ew_fail("the response was sent");
	return one_text((ew_span){(const uint8_t *)text, (uint32_t)ew_last_error(text, sizeof text)});
}

static const ew_list *softmax(const ew_list *inputs) {
	const ew_tensor *x = ew_input(inputs, "fp32", EW_FP32);
	if (!x) return NULL;
	ew_list *outputs = ew_outputs(1);
	float *y = ew_output(outputs, "fp32", EW_FP32, x->rank, x->shape);
	if (!y) return NULL;
	return ew_kernel_softmax(ew_f32(x), y, 1, (uint32_t)ew_elements(x)) < 0 ? ew_fail_last("softmax") : outputs;
}

static const ew_list *decode(const ew_list *inputs) {
	ew_span file = first_text(inputs);
	uint8_t pixels[16];
	if (!file.data) return NULL;
	return ew_image_decode(file.data, file.len, 0, 3, pixels, sizeof pixels) < 0 ? ew_fail_last("decode") : ew_outputs(0);
}

static const ew_list *process(const ew_list *inputs) {
	ew_span what = ew_parameter("do");
	if (is(what, "echo")) return echo(inputs, false);
	if (is(what, "reverse")) return echo(inputs, true);
	if (is(what, "fail")) return fail(inputs);
	if (is(what, "type")) return ew_input(inputs, "fp32", EW_INT32) ? ew_outputs(0) : NULL;
	if (is(what, "parameter")) return parameters(inputs);
	if (is(what, "log")) return write_log(inputs);
	if (is(what, "infer")) return infer_or_fail(inputs);
	if (is(what, "infer_twice")) {
		const ew_list *answer = infer(inputs);
		return answer ? infer_or_fail(answer) : ew_fail_last("infer");
	}
	if (is(what, "infer_error")) return infer_error(inputs);
	if (is(what, "emit")) return emit_error(inputs);
	if (is(what, "softmax")) return softmax(inputs);
	if (is(what, "decode")) return decode(inputs);
	return ew_fail("do \"%.*s\" is unknown", (int)what.len, (const char *)what.data);
}

EW_STEP(process, DESCRIPTION)
