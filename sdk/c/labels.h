/* labels.h: names for classes, from the parameter "labels": one a line. */
#ifndef EDGEWISE_LABELS_H
#define EDGEWISE_LABELS_H

#include "edgewise.h"

/* The lines of a text. */
typedef struct {
	ew_span *line;
	uint32_t count;
} ew_lines;

/* Splits text at newlines; one at the end begins no further line. False after ew_fail. */
static inline bool ew_split_lines(ew_span text, ew_lines *lines) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < text.len; i++) count += text.data[i] == '\n' || i + 1 == text.len;
	*lines = (ew_lines){EW_ARRAY(ew_span, count), 0};
	if (!lines->line) return false;
	for (uint32_t i = 0, from = 0; i < text.len; i++) {
		bool newline = text.data[i] == '\n';
		if (!newline && i + 1 < text.len) continue;
		lines->line[lines->count++] = (ew_span){text.data + from, (newline ? i : i + 1) - from};
		from = i + 1;
	}
	return true;
}

/* Adds an EW_BYTES output with the label of each of n classes, the number of a class where it has none. False after ew_fail. */
static inline bool ew_output_labels(ew_list *outputs, const char *name, uint32_t rank, const int64_t *shape, const int32_t *classes, uint32_t n) {
	ew_lines lines;
	ew_span *labels = EW_ARRAY(ew_span, n);
	if (!labels || !ew_split_lines(ew_parameter("labels"), &lines)) return false;
	for (uint32_t i = 0; i < n; i++) {
		if ((uint32_t)classes[i] < lines.count && lines.line[classes[i]].len > 0) {
			labels[i] = lines.line[classes[i]];
			continue;
		}
		char *number = EW_ARRAY(char, 12);
		if (!number) return false;
		labels[i] = (ew_span){(uint8_t *)number, (uint32_t)ew_format(number, 12, "%d", classes[i])};
	}
	return ew_output_spans(outputs, name, rank, shape, labels, n);
}

#endif
