/*
 * pure.h: the box's kernels for scores and pixels, in the step itself, to the same definitions (docs/steps-abi.md). They need no
 * import, so a step that uses them runs in any WebAssembly engine. Softmax and the rest are SIMD; resizing is plain C, and
 * image.h has the better filter.
 */
#ifndef EDGEWISE_PURE_H
#define EDGEWISE_PURE_H

#include <math.h>
#include <wasm_simd128.h>

#include "edgewise.h"

/*
 * e to the power of each lane, for lanes of at most 0: 2 to a whole power times a polynomial on half a step to both sides. Relative
 * error below 3e-7; below -87 it is 0. NaN stays NaN.
 */
static inline v128_t ew_exp(v128_t x) {
	v128_t steps = wasm_f32x4_nearest(wasm_f32x4_mul(x, wasm_f32x4_const_splat(1.44269504f)));
	v128_t r = wasm_f32x4_sub(wasm_f32x4_sub(x, wasm_f32x4_mul(steps, wasm_f32x4_const_splat(0.693359375f))), wasm_f32x4_mul(steps, wasm_f32x4_const_splat(-2.12194440e-4f)));
	static const float c[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
	v128_t p = wasm_f32x4_splat(c[0]);
	for (int i = 1; i < 6; i++) p = wasm_f32x4_add(wasm_f32x4_mul(p, r), wasm_f32x4_splat(c[i]));
	p = wasm_f32x4_add(wasm_f32x4_add(wasm_f32x4_mul(wasm_f32x4_mul(p, r), r), r), wasm_f32x4_const_splat(1));
	v128_t power = wasm_i32x4_shl(wasm_i32x4_add(wasm_i32x4_trunc_sat_f32x4(steps), wasm_i32x4_const_splat(127)), 23);
	v128_t tiny = wasm_f32x4_lt(x, wasm_f32x4_const_splat(-87));
	return wasm_v128_andnot(wasm_f32x4_mul(p, power), tiny);
}

/* Softmax over each row of src; dst may be src. A row with NaN, or without anything above -infinity, becomes NaN. */
static inline void ew_softmax(const float *src, float *dst, uint32_t rows, uint32_t cols) {
	for (uint32_t r = 0; r < rows; r++, src += cols, dst += cols) {
		float highest = -INFINITY;
		bool nan = false;
		for (uint32_t i = 0; i < cols; i++) {
			highest = src[i] > highest ? src[i] : highest;
			nan |= src[i] != src[i];
		}
		if (nan || highest == -INFINITY || highest == INFINITY) {
			for (uint32_t i = 0; i < cols; i++) dst[i] = NAN;
			continue;
		}
		v128_t top = wasm_f32x4_splat(highest), sums = wasm_f32x4_const_splat(0);
		uint32_t i = 0;
		for (; i + 4 <= cols; i += 4) {
			v128_t e = ew_exp(wasm_f32x4_sub(wasm_v128_load(src + i), top));
			wasm_v128_store(dst + i, e);
			sums = wasm_f32x4_add(sums, e);
		}
		float sum = wasm_f32x4_extract_lane(sums, 0) + wasm_f32x4_extract_lane(sums, 1) + wasm_f32x4_extract_lane(sums, 2) + wasm_f32x4_extract_lane(sums, 3);
		for (; i < cols; i++) sum += dst[i] = wasm_f32x4_extract_lane(ew_exp(wasm_f32x4_splat(src[i] - highest)), 0);
		for (i = 0; i < cols; i++) dst[i] /= sum;
	}
}

/* Whether a is ranked before b: larger, and numbers before NaN. */
static inline bool ew_before(float a, float b) { return a > b || (a == a && b != b); }

/* The k <= cols largest of each row, in falling order, of equal ones the lower index first, NaN last. */
static inline void ew_top_k(const float *src, uint32_t rows, uint32_t cols, uint32_t k, float *values, int32_t *indices) {
	for (uint32_t r = 0; r < rows && k > 0; r++, src += cols, values += k, indices += k) {
		uint32_t kept = 0;
		for (uint32_t i = 0; i < cols; i++) {
			if (kept == k && !ew_before(src[i], values[k - 1])) continue;
			uint32_t at = kept < k ? kept++ : k - 1;
			for (; at > 0 && ew_before(src[i], values[at - 1]); at--) {
				values[at] = values[at - 1];
				indices[at] = indices[at - 1];
			}
			values[at] = src[i];
			indices[at] = (int32_t)i;
		}
	}
}

/* Intersection over union of two boxes x1, y1, x2, y2; 0 where both are empty. */
static inline float ew_overlap(const float *a, const float *b) {
	float w = fminf(a[2], b[2]) - fmaxf(a[0], b[0]), h = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
	float common = w > 0 && h > 0 ? w * h : 0;
	float whole = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common;
	return whole > 0 ? common / whole : 0;
}

/* Sorts order, indices into scores, by falling score, equal ones by rising index. Merge sort; spare has room for n. */
static inline void ew_sort(const float *scores, int32_t *order, int32_t *spare, uint32_t n) {
	for (uint32_t width = 1; width < n; width *= 2) {
		for (uint32_t from = 0; from < n; from += 2 * width) {
			uint32_t middle = from + width < n ? from + width : n, end = from + 2 * width < n ? from + 2 * width : n;
			uint32_t a = from, b = middle;
			for (uint32_t i = from; i < end; i++)
				spare[i] = a < middle && (b >= end || !(scores[order[b]] > scores[order[a]])) ? order[a++] : order[b++];
		}
		memcpy(order, spare, n * sizeof *order);
	}
}

/*
 * Non-maximum suppression: writes the indices of the boxes to keep, at most max, the highest score first, and returns how many.
 * classes may be NULL. Boxes with NaN or a negative side, and those below score, are never kept. -1 after ew_fail.
 */
static inline int32_t ew_nms(const float *boxes, const float *scores, const int32_t *classes, uint32_t count, float iou, float score, int32_t *dst, uint32_t max) {
	int32_t *order = EW_ARRAY(int32_t, count), *spare = EW_ARRAY(int32_t, count);
	if (!order || !spare) return -1;
	uint32_t n = 0, kept = 0;
	for (uint32_t i = 0; i < count; i++) {
		const float *b = boxes + 4 * (size_t)i;
		if (scores[i] >= score && b[2] >= b[0] && b[3] >= b[1]) order[n++] = (int32_t)i;
	}
	ew_sort(scores, order, spare, n);
	for (uint32_t i = 0; i < n && kept < max; i++) {
		bool free = true;
		for (uint32_t k = 0; k < kept && free; k++)
			free = (classes && classes[dst[k]] != classes[order[i]]) || !(ew_overlap(boxes + 4 * (size_t)dst[k], boxes + 4 * (size_t)order[i]) > iou);
		if (free) dst[kept++] = order[i];
	}
	return (int32_t)kept;
}

/* The taps of one axis of a resize: of new sample i, count[i] weights at weight + i * stride, for the samples from first[i]. */
typedef struct {
	uint32_t *first, *count;
	float *weight;
	uint32_t stride;
} ew_axis;

static inline bool ew_make_axis(uint32_t from, uint32_t to, int mode, ew_axis *axis) {
	double scale = (double)from / to;
	axis->stride = mode == EW_AREA ? (uint32_t)scale + 2 : 2;
	axis->first = EW_ARRAY(uint32_t, to), axis->count = EW_ARRAY(uint32_t, to), axis->weight = EW_ARRAY(float, (uint64_t)to * axis->stride);
	if (!axis->first || !axis->count || !axis->weight) return false;
	for (uint32_t i = 0; i < to; i++) {
		float *w = axis->weight + (size_t)i * axis->stride;
		double at = (i + 0.5) * scale, begin = i * scale, end = (i + 1) * scale;
		if (mode == EW_NEAREST) {
			axis->first[i] = (uint32_t)at < from ? (uint32_t)at : from - 1, axis->count[i] = 1, w[0] = 1;
		} else if (mode == EW_BILINEAR) {
			at = at - 0.5 < 0 ? 0 : at - 0.5 > from - 1 ? from - 1 : at - 0.5;
			uint32_t low = (uint32_t)at, most = from > 2 ? from - 2 : 0;
			axis->first[i] = low < most ? low : most, axis->count[i] = from > 1 ? 2 : 1;
			w[1] = (float)(at - axis->first[i]), w[0] = from > 1 ? 1 - w[1] : 1;
		} else {
			uint32_t low = (uint32_t)begin, high = (uint32_t)ceil(end - 1e-9);
			high = high > from ? from : high;
			axis->first[i] = low, axis->count[i] = high > low ? high - low : 1;
			for (uint32_t k = 0; k < axis->count[i]; k++) w[k] = (float)((fmin(end, low + k + 1.0) - fmax(begin, (double)low + k)) / scale);
		}
	}
	return true;
}

/* As the kernel image_resize. False after ew_fail. */
static inline bool ew_resize(const uint8_t *src, uint32_t src_w, uint32_t src_h, uint8_t *dst, uint32_t dst_w, uint32_t dst_h, uint32_t channels, int mode) {
	ew_axis across, down;
	float *wide = EW_ARRAY(float, (uint64_t)dst_w * src_h * channels);
	if (!wide || !ew_make_axis(src_w, dst_w, mode, &across) || !ew_make_axis(src_h, dst_h, mode, &down)) return false;
	float *to = wide;
	for (uint32_t y = 0; y < src_h; y++, src += (size_t)src_w * channels)
		for (uint32_t x = 0; x < dst_w; x++)
			for (uint32_t c = 0; c < channels; c++, to++) {
				*to = 0;
				for (uint32_t k = 0; k < across.count[x]; k++) *to += across.weight[(size_t)x * across.stride + k] * src[(size_t)(across.first[x] + k) * channels + c];
			}
	size_t row = (size_t)dst_w * channels;
	for (uint32_t y = 0; y < dst_h; y++)
		for (size_t i = 0; i < row; i++) {
			float sum = 0.5f;
			for (uint32_t k = 0; k < down.count[y]; k++) sum += down.weight[(size_t)y * down.stride + k] * wide[(down.first[y] + k) * row + i];
			*dst++ = (uint8_t)fminf(sum, 255.5f);
		}
	return true;
}

/* As the kernel image_letterbox. False after ew_fail. */
static inline bool ew_letterbox(const uint8_t *src, uint32_t src_w, uint32_t src_h, uint8_t *dst, uint32_t dst_w, uint32_t dst_h, uint32_t channels, int mode, uint8_t fill, ew_letterbox_map *map) {
	double scale = fmin((double)dst_w / src_w, (double)dst_h / src_h);
	uint32_t w = (uint32_t)fmin(dst_w, fmax(1, floor(src_w * scale + 0.5))), h = (uint32_t)fmin(dst_h, fmax(1, floor(src_h * scale + 0.5)));
	uint32_t x = (dst_w - w) / 2, y = (dst_h - h) / 2;
	uint8_t *small = EW_ARRAY(uint8_t, (uint64_t)w * h * channels);
	if (!small || !ew_resize(src, src_w, src_h, small, w, h, channels, mode)) return false;
	memset(dst, fill, (size_t)dst_w * dst_h * channels);
	for (uint32_t r = 0; r < h; r++) memcpy(dst + ((size_t)(y + r) * dst_w + x) * channels, small + (size_t)r * w * channels, (size_t)w * channels);
	if (map) *map = (ew_letterbox_map){(float)w / (float)src_w, (float)h / (float)src_h, (float)x, (float)y};
	return true;
}

/* As the kernel image_normalize, to FP32. mean and scale may be NULL. */
static inline void ew_normalize(const uint8_t *src, uint32_t w, uint32_t h, uint32_t channels, float *dst, int flags, const float *mean, const float *scale) {
	size_t n = (size_t)w * h;
	for (uint32_t c = 0; c < channels; c++) {
		uint32_t to = flags & EW_REVERSE_CHANNELS ? channels - 1 - c : c;
		float m = mean ? mean[c] : 0, s = scale ? scale[c] : 1;
		for (size_t i = 0; i < n; i++) dst[flags & EW_INTERLEAVED ? i * channels + to : to * n + i] = ((float)src[i * channels + c] - m) * s;
	}
}

/* 1 / (1 + e^-x). */
static inline float ew_sigmoid(float x) { return 1 / (1 + expf(-x)); }

#endif
