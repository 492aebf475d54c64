/*
 * image.h: pictures for steps in C: reading a file through the box's decoder, and resampling in the step itself, with SIMD.
 *
 * Resampling is by a tent filter: linear interpolation where a picture grows, and where it shrinks a mean, weighted by distance,
 * over all the pixels that a new one covers. That is what Pillow's BILINEAR and Go's x/image/draw.BiLinear do, so that a
 * model sees what it saw in training. The box's kernel image_resize is faster and coarser.
 */
#ifndef EDGEWISE_IMAGE_H
#define EDGEWISE_IMAGE_H

#include <math.h>
#include <wasm_simd128.h>

#include "edgewise.h"

/* The bounds of a picture: its pixels, and the pixels of a side of what is made of it. */
#define EW_MAX_PIXELS (16 << 20)
#define EW_MAX_SIDE 8192

/* Pixels of 8 bits: red, green, blue, interleaved. One more byte can be read behind them. */
typedef struct {
	uint32_t width, height;
	uint8_t *pixels;
} ew_picture;

/* Decodes a picture's file and turns it upright. False after ew_fail. */
static inline bool ew_read_picture(ew_span file, ew_picture *picture) {
	ew_image_info info;
	if (ew_image_read_info(file.data, file.len, EW_ORIENT, &info) < 0) {
		ew_fail_last("the picture cannot be read");
		return false;
	}
	uint64_t pixels = (uint64_t)info.width * info.height;
	if (pixels == 0 || pixels > EW_MAX_PIXELS) {
		ew_fail("the picture has %ux%u pixels: at most %d are allowed", info.width, info.height, EW_MAX_PIXELS);
		return false;
	}
	*picture = (ew_picture){info.width, info.height, EW_ARRAY(uint8_t, pixels * 3 + 16)};
	if (!picture->pixels) return false;
	if (ew_image_decode(file.data, file.len, EW_ORIENT, 3, picture->pixels, (uint32_t)(pixels * 3)) < 0) {
		ew_fail_last("the picture cannot be read");
		return false;
	}
	return true;
}

/* A part of a picture, in its pixels. */
typedef struct {
	uint32_t x, y, width, height;
} ew_rect;

/* Where values go: plane (or element) c of pixel (x, y) is at data[c * channel + y * row + x * pixel]. */
typedef struct {
	float *data;
	size_t pixel, row, channel;
	float mean[3], scale[3]; /* of the target's channels: (v - mean) * scale, v from 0 to 255 */
	bool reverse;            /* channels are blue, green, red */
} ew_target;

/* The taps of one axis: of new pixel i, count[i] weights at weight + i * stride, for the pixels from first[i]. */
typedef struct {
	uint32_t *first, *count;
	float *weight;
	uint32_t stride;
} ew_taps;

/* The taps of pixels begin to begin + n_new of an axis that goes from from pixels to to. */
static inline bool ew_make_taps(uint32_t from, uint32_t to, uint32_t begin, uint32_t n_new, ew_taps *taps) {
	double scale = (double)from / to, reach = scale > 1 ? scale : 1;
	taps->stride = (uint32_t)(2 * reach) + 3;
	taps->first = EW_ARRAY(uint32_t, n_new);
	taps->count = EW_ARRAY(uint32_t, n_new);
	taps->weight = EW_ARRAY(float, (uint64_t)n_new * taps->stride);
	if (!taps->first || !taps->count || !taps->weight) return false;
	for (uint32_t i = 0; i < n_new; i++) {
		double center = (begin + i + 0.5) * scale - 0.5, sum = 0;
		int64_t low = (int64_t)ceil(center - reach), high = (int64_t)floor(center + reach);
		low = low < 0 ? 0 : low;
		high = high >= (int64_t)from ? (int64_t)from - 1 : high;
		float *w = taps->weight + (size_t)i * taps->stride;
		uint32_t n = 0;
		taps->first[i] = (uint32_t)low;
		for (int64_t k = low; k <= high; k++) {
			double distance = fabs(center - (double)k) / reach, weight = distance < 1 ? 1 - distance : 0;
			if (weight == 0 && n == 0) {
				taps->first[i] = (uint32_t)(k < high ? k + 1 : k);
				continue;
			}
			w[n++] = (float)weight;
			sum += weight;
		}
		if (n == 0) w[n++] = 1, sum = 1;
		taps->count[i] = n;
		for (uint32_t k = 0; k < n; k++) w[k] = (float)(w[k] / sum);
	}
	return true;
}

/* Of 16 bytes the four at quarter q, as numbers. */
static inline v128_t ew_quarter(v128_t bytes, int q) {
	v128_t half = q < 2 ? wasm_u16x8_extend_low_u8x16(bytes) : wasm_u16x8_extend_high_u8x16(bytes);
	return wasm_f32x4_convert_i32x4(q % 2 ? wasm_u32x4_extend_high_u16x8(half) : wasm_u32x4_extend_low_u16x8(half));
}

/* Adds count rows of bytes, stride apart, each times its weight, to row, or makes row of them. count is a constant where this is used, at most 4. */
static inline __attribute__((always_inline)) void ew_some_rows(float *restrict row, const uint8_t *restrict bytes, size_t stride, const float *weight, const uint32_t count, bool add, size_t n) {
	size_t i = 0;
	v128_t w[4];
	for (uint32_t k = 0; k < count; k++) w[k] = wasm_v128_load32_splat(weight + k);
	for (; i + 16 <= n; i += 16) {
		v128_t sum[4];
		for (int q = 0; q < 4; q++) sum[q] = add ? wasm_v128_load(row + i + 4 * q) : wasm_f32x4_const_splat(0);
		for (uint32_t k = 0; k < count; k++) {
			v128_t v = wasm_v128_load(bytes + k * stride + i);
			for (int q = 0; q < 4; q++) sum[q] = wasm_f32x4_add(sum[q], wasm_f32x4_mul(w[k], ew_quarter(v, q)));
		}
		for (int q = 3; q >= 0; q--) wasm_v128_store(row + i + 4 * q, sum[q]);
	}
	for (; i < n; i++) {
		float sum = add ? row[i] : 0;
		for (uint32_t k = 0; k < count; k++) sum += weight[k] * bytes[k * stride + i];
		row[i] = sum;
	}
}

/* Makes row of count rows of bytes, stride apart, each times its weight: four at a time, so that sums stay in registers. */
static inline void ew_sum_rows(float *restrict row, const uint8_t *restrict bytes, size_t stride, const float *weight, uint32_t count, size_t n) {
	switch (count) {
	case 1: ew_some_rows(row, bytes, stride, weight, 1, false, n); return;
	case 2: ew_some_rows(row, bytes, stride, weight, 2, false, n); return;
	case 3: ew_some_rows(row, bytes, stride, weight, 3, false, n); return;
	}
	ew_some_rows(row, bytes, stride, weight, 4, false, n);
	uint32_t k = 4;
	for (; k + 4 <= count; k += 4) ew_some_rows(row, bytes + k * stride, stride, weight + k, 4, true, n);
	for (; k < count; k++) ew_some_rows(row, bytes + k * stride, stride, weight + k, 1, true, n);
}

/* The sum of count pixels of three numbers, each times its weight, in the first three lanes. */
static inline __attribute__((always_inline)) v128_t ew_sum_pixels(const float *pixel, const float *weight, uint32_t count) {
	v128_t sum = wasm_f32x4_const_splat(0);
	for (uint32_t k = 0; k < count; k++) sum = wasm_f32x4_add(sum, wasm_f32x4_mul(wasm_v128_load32_splat(weight + k), wasm_v128_load(pixel + 3 * k)));
	return sum;
}

/* One new row: a weighted sum of pixels for each new pixel, rounded to whole steps. Weights are not negative and sum to 1, so it is 0 to 255. */
static inline void ew_resample_row(const float *restrict row, const ew_taps *across, uint32_t width, const ew_target *to, float *restrict out) {
	const uint32_t *first = across->first, *count = across->count, stride = across->stride;
	const float *w = across->weight;
	const v128_t mean = wasm_f32x4_make(to->mean[0], to->mean[1], to->mean[2], 0), scale = wasm_f32x4_make(to->scale[0], to->scale[1], to->scale[2], 0);
	const size_t step = to->pixel, channel = to->channel;
	const bool reverse = to->reverse, together = step == 3 && channel == 1;
	for (uint32_t x = 0; x < width; x++, w += stride, out += step) {
		const float *pixel = row + 3 * (size_t)first[x];
		v128_t sum;
		switch (count[x]) {
		case 2: sum = ew_sum_pixels(pixel, w, 2); break;
		case 3: sum = ew_sum_pixels(pixel, w, 3); break;
		case 4: sum = ew_sum_pixels(pixel, w, 4); break;
		default: sum = ew_sum_pixels(pixel, w, count[x]);
		}
		sum = wasm_f32x4_floor(wasm_f32x4_add(sum, wasm_f32x4_const_splat(0.5f)));
		if (reverse) sum = wasm_i32x4_shuffle(sum, sum, 2, 1, 0, 3);
		v128_t v = wasm_f32x4_mul(wasm_f32x4_sub(sum, mean), scale);
		if (together && x + 1 < width) {
			wasm_v128_store(out, v); /* the next pixel begins at the fourth number */
			continue;
		}
		wasm_v128_store32_lane(out, v, 0);
		wasm_v128_store32_lane(out + channel, v, 1);
		wasm_v128_store32_lane(out + 2 * channel, v, 2);
	}
}

/*
 * Resamples part, which lies within the picture and is not empty, to width x height pixels, and writes those of them that lie in
 * window. False after ew_fail.
 */
static inline bool ew_resample_window(const ew_picture *picture, ew_rect part, uint32_t width, uint32_t height, ew_rect window, const ew_target *to) {
	ew_taps across, down;
	size_t n = 3 * (size_t)part.width;
	float *row = EW_ARRAY(float, n + 4);
	if (!row || !ew_make_taps(part.width, width, window.x, window.width, &across) || !ew_make_taps(part.height, height, window.y, window.height, &down)) return false;
	memset(row + n, 0, 4 * sizeof *row);
	for (uint32_t y = 0; y < window.height; y++) {
		size_t from = ((size_t)part.y + down.first[y]) * picture->width + part.x;
		ew_sum_rows(row, picture->pixels + 3 * from, 3 * (size_t)picture->width, down.weight + (size_t)y * down.stride, down.count[y], n);
		ew_resample_row(row, &across, window.width, to, to->data + y * to->row);
	}
	return true;
}

/* Resamples part to width x height pixels. False after ew_fail. */
static inline bool ew_resample(const ew_picture *picture, ew_rect part, uint32_t width, uint32_t height, const ew_target *to) {
	return ew_resample_window(picture, part, width, height, (ew_rect){0, 0, width, height}, to);
}

/* All of a picture. */
static inline ew_rect ew_whole(const ew_picture *p) { return (ew_rect){0, 0, p->width, p->height}; }

/* The target of values from data on, width x height pixels: planes, or interleaved. The range is 0 to 255. */
static inline ew_target ew_planar(float *data, uint32_t width, uint32_t height) {
	return (ew_target){data, 1, width, (size_t)width * height, {0, 0, 0}, {1, 1, 1}, false};
}
static inline ew_target ew_interleaved(float *data, uint32_t width) {
	return (ew_target){data, 3, 3 * (size_t)width, 1, {0, 0, 0}, {1, 1, 1}, false};
}

/* The target that begins at pixel (x, y) of to. */
static inline ew_target ew_at(const ew_target *to, uint32_t x, uint32_t y) {
	ew_target moved = *to;
	moved.data += y * to->row + x * to->pixel;
	return moved;
}

/* Sets every pixel of a target of width x height to v, before mean and scale. */
static inline void ew_fill(const ew_target *to, uint32_t width, uint32_t height, float v) {
	for (uint32_t c = 0; c < 3; c++) {
		float value = (v - to->mean[c]) * to->scale[c];
		for (uint32_t y = 0; y < height; y++) {
			float *row = to->data + c * to->channel + y * to->row;
			if (to->pixel == 1)
				for (uint32_t x = 0; x < width; x++) row[x] = value;
			else
				for (uint32_t x = 0; x < width; x++) row[x * to->pixel] = value;
		}
	}
}

/* Sets what lies around a part of a target of width x height. */
static inline void ew_fill_around(const ew_target *to, uint32_t width, uint32_t height, ew_rect part, float v) {
	uint32_t right = part.x + part.width, low = part.y + part.height;
	ew_target below = ew_at(to, 0, low), left = ew_at(to, 0, part.y), beside = ew_at(to, right, part.y);
	ew_fill(to, width, part.y, v);
	ew_fill(&below, width, height - low, v);
	ew_fill(&left, part.x, part.height, v);
	ew_fill(&beside, width - right, part.height, v);
}

/* Reads three numbers separated by commas into numbers. False after ew_fail; a parameter that is not set changes nothing. */
static inline bool ew_parameter_triple(const char *name, float numbers[3]) {
	ew_span text = ew_parameter(name);
	if (!text.data) return true;
	const uint8_t *p = text.data, *end = p + text.len;
	for (int i = 0; i < 3; i++) {
		const uint8_t *stop = memchr(p, ',', (size_t)(end - p));
		double v;
		if (!stop || i == 2) stop = end;
		if (!ew_parse_number((ew_span){p, (uint32_t)(stop - p)}, &v)) {
			ew_fail("parameter \"%s\" is \"%.*s\": want three numbers separated by commas", name, (int)text.len, (const char *)text.data);
			return false;
		}
		numbers[i] = (float)v;
		p = stop < end ? stop + 1 : end;
	}
	return true;
}

/*
 * How the caller wants pictures: what the parameters mean and std (in steps of 0 to 255, of the target's channels), layout (nchw
 * or nhwc) and channels (rgb or bgr) say. mean and std hold the defaults. False after ew_fail.
 */
typedef struct {
	float mean[3], std[3];
	bool nhwc, bgr;
} ew_wanted;

static inline bool ew_read_wanted(ew_wanted *w) {
	if (!ew_parameter_triple("mean", w->mean) || !ew_parameter_triple("std", w->std)) return false;
	for (int c = 0; c < 3; c++)
		if (!(w->std[c] > 0)) {
			ew_fail("parameter \"std\": want three numbers above 0");
			return false;
		}
	return ew_parameter_choice("layout", "nchw", "nhwc", &w->nhwc) && ew_parameter_choice("channels", "rgb", "bgr", &w->bgr);
}

/* The target of a picture of width x height at data as w wants it. */
static inline ew_target ew_target_of(const ew_wanted *w, float *data, uint32_t width, uint32_t height) {
	ew_target to = w->nhwc ? ew_interleaved(data, width) : ew_planar(data, width, height);
	for (int c = 0; c < 3; c++) to.mean[c] = w->mean[c], to.scale[c] = 1 / w->std[c];
	to.reverse = w->bgr;
	return to;
}

/* Adds the output name for n pictures of width x height as w wants them, and returns its elements; NULL after ew_fail. */
static inline float *ew_output_pictures(ew_list *outputs, const char *name, const ew_wanted *w, int64_t n, int64_t width, int64_t height) {
	if (w->nhwc) return ew_output(outputs, name, EW_FP32, EW_SHAPE(n, height, width, 3));
	return ew_output(outputs, name, EW_FP32, EW_SHAPE(n, 3, height, width));
}

#endif
