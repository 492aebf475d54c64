/* resample.h: a sound at another rate, by a windowed sinc: 24 zero crossings a side, a Kaiser window, about 90 dB of stop band. */
#ifndef EDGEWISE_RESAMPLE_H
#define EDGEWISE_RESAMPLE_H

#include <math.h>
#include <wasm_simd128.h>

#include "sound.h"

#define EW_PI 3.14159265358979323846
#define EW_RESAMPLE_ZEROS 24
#define EW_RESAMPLE_BETA 8.6
#define EW_RESAMPLE_BAND 0.95
#define EW_RESAMPLE_PHASES 4096 /* fractions of a sample of the lower rate at which an output sample may lie; others are rounded */

/* The sine of pi * r is r times this polynomial of r * r, for r from -0.5 to 0.5. The SDKs share it: their C libraries' sines differ. */
static const double ew_sine[11] = {3.141592653589793, -5.16771278004997, 2.5501640398773455, -0.5992645293207921, 0.08214588661112823, -0.0073704309457143504, 0.00046630280576761255, -2.1915353447830217e-05, 7.952054001475513e-07, -2.2948428997269873e-08, 5.392664662608129e-10};

/* 1 / (k!)^2 of every other k, from the least on. */
static const double ew_bessel_even[11] = {1.0, 0.25, 0.001736111111111111, 1.9290123456790124e-06, 6.151187326782565e-10, 7.594058428126623e-14, 4.358389823304995e-18, 1.3157800456783586e-22, 2.2843403570804838e-27, 2.4395962632753253e-32, 1.6894710964510564e-37};
static const double ew_bessel_odd[11] = {1.0, 0.027777777777777776, 6.944444444444444e-05, 3.936759889140842e-08, 7.594058428126624e-12, 6.276081345559193e-16, 2.5789288895295828e-20, 5.8479113141260385e-25, 7.904291893012054e-30, 6.757884385804225e-35, 3.8310002187098785e-40};

/* The modified Bessel function of the first kind of order zero, by its power series; x is at most EW_RESAMPLE_BETA. */
static inline double ew_bessel(double x) {
	double t = x * x / 4, u = t * t, even = ew_bessel_even[10], odd = ew_bessel_odd[10];
#pragma clang loop unroll(full)
	for (int k = 9; k >= 0; k--) even = even * u + ew_bessel_even[k], odd = odd * u + ew_bessel_odd[k];
	return even + t * odd;
}

/* The sine of pi * t over pi * t; t is less than 2^31 to both sides. */
static inline double ew_sinc(double t) {
	if (t == 0) return 1;
	double whole = floor(t + 0.5), r = t - whole, s = r * r, p = ew_sine[10];
#pragma clang loop unroll(full)
	for (int k = 9; k >= 0; k--) p = p * s + ew_sine[k];
	return ((int32_t)whole & 1 ? -r * p : r * p) / (EW_PI * t);
}

/* The taps of one phase, which sum to 1: the value at offset after the half-th of them. */
static inline void ew_resample_phase(float *taps, int half, double offset, double cutoff, double window) {
	double sum = 0;
	for (int k = 0; k < 2 * half; k++) {
		double x = k - half + 1 - offset, at = x / half;
		double kaiser = at < -1 || at > 1 ? 0 : ew_bessel(EW_RESAMPLE_BETA * sqrt(1 - at * at)) / window;
		double tap = ew_sinc(cutoff * x) * kaiser;
		taps[k] = (float)tap;
		sum += tap;
	}
	for (int k = 0; k < 2 * half; k++) taps[k] = (float)(taps[k] / sum);
}

/* The sum of the products of n pairs. */
static inline float ew_dot(const float *a, const float *b, size_t n) {
	v128_t sum[4] = {wasm_f32x4_const_splat(0), wasm_f32x4_const_splat(0), wasm_f32x4_const_splat(0), wasm_f32x4_const_splat(0)};
	size_t i = 0;
	for (; i + 32 <= n; i += 32)
		for (int q = 0; q < 8; q++) sum[q % 4] = wasm_f32x4_add(sum[q % 4], wasm_f32x4_mul(wasm_v128_load(a + i + 4 * q), wasm_v128_load(b + i + 4 * q)));
	for (; i + 4 <= n; i += 4) sum[0] = wasm_f32x4_add(sum[0], wasm_f32x4_mul(wasm_v128_load(a + i), wasm_v128_load(b + i)));
	v128_t all = wasm_f32x4_add(wasm_f32x4_add(sum[0], sum[1]), wasm_f32x4_add(sum[2], sum[3]));
	float total = wasm_f32x4_extract_lane(all, 0) + wasm_f32x4_extract_lane(all, 1) + wasm_f32x4_extract_lane(all, 2) + wasm_f32x4_extract_lane(all, 3);
	for (; i < n; i++) total += a[i] * b[i];
	return total;
}

/* How many phases there are between two rates: the taps of all of them stay below a megabyte. */
static inline uint32_t ew_resample_phases(uint32_t from, uint32_t to) {
	uint32_t a = from, b = to;
	while (b) {
		uint32_t rest = a % b;
		a = b, b = rest;
	}
	uint32_t most = from > to ? (uint32_t)((uint64_t)EW_RESAMPLE_PHASES * to / from) : EW_RESAMPLE_PHASES;
	return to / a < most ? to / a : most;
}

/* Brings a sound to rate. Beyond both ends there is silence. False after ew_fail. */
static inline bool ew_resample(ew_sound *sound, uint32_t rate, uint32_t limit) {
	uint32_t from = sound->rate;
	if (!ew_rate("the sound has", from) || !ew_rate("the sound is brought to", rate)) return false;
	uint64_t count = ((uint64_t)sound->count * rate + from - 1) / from;
	if (count > limit) {
		ew_fail("the sound has %llu samples at %u a second: at most %u are taken", (unsigned long long)count, rate, limit);
		return false;
	}
	if (from == rate) return true;
	uint32_t phases = ew_resample_phases(from, rate);
	double cutoff = EW_RESAMPLE_BAND * fmin(1, (double)rate / from);
	int half = (int)ceil(EW_RESAMPLE_ZEROS / cutoff);
	float *bank = EW_ARRAY(float, (uint64_t)(phases + 1) * 2 * (uint64_t)half), *to = EW_ARRAY(float, count);
	if (!bank || !to) return false;
	double window = ew_bessel(EW_RESAMPLE_BETA);
	for (uint32_t p = 0; p <= phases / 2; p++) {
		/* The last phases are the first ones, the other way round. */
		float *taps = bank + (size_t)p * 2 * half, *mirror = bank + (size_t)(phases - p) * 2 * half;
		ew_resample_phase(taps, half, (double)p / phases, cutoff, window);
		for (int k = 0; k < 2 * half; k++) mirror[2 * half - 1 - k] = taps[k];
	}
	for (uint64_t i = 0; i < count; i++) {
		uint64_t position = i * from, part = position % rate;
		int64_t first = (int64_t)(position / rate) - half + 1;
		const float *taps = bank + (size_t)((part * phases + rate / 2) / rate) * 2 * half;
		int64_t low = first < 0 ? -first : 0, high = first + 2 * half > (int64_t)sound->count ? (int64_t)sound->count - first : 2 * half;
		to[i] = low < high ? ew_dot(taps + low, sound->samples + first + low, (size_t)(high - low)) : 0;
	}
	sound->samples = to, sound->count = (uint32_t)count, sound->rate = rate;
	return true;
}

#endif
