/* resample.h: a sound at another rate, by a windowed sinc: 24 zero crossings a side, a Kaiser window, about 90 dB of stop band. */
#ifndef EDGEWISE_RESAMPLE_H
#define EDGEWISE_RESAMPLE_H

#include <math.h>

#include "sound.h"

#define EW_PI 3.14159265358979323846
#define EW_RESAMPLE_ZEROS 24
#define EW_RESAMPLE_BETA 8.6
#define EW_RESAMPLE_BAND 0.95
#define EW_RESAMPLE_PHASES 4096 /* fractions of a sample at which an output sample may lie; others are rounded */
#define EW_RESAMPLE_RATE 768000 /* the highest rate that is taken */

/* The modified Bessel function of the first kind of order zero, by its power series. */
static inline double ew_bessel(double x) {
	double sum = 1, term = 1;
	for (double k = 1; term > 1e-12 * sum; k++) sum += term *= x * x / (4 * k * k);
	return sum;
}

/* The taps of one phase, which sum to 1: the value at offset after the half-th of them. */
static inline void ew_resample_phase(float *taps, int half, double offset, double cutoff) {
	double sum = 0, window = ew_bessel(EW_RESAMPLE_BETA);
	for (int k = 0; k < 2 * half; k++) {
		double x = k - half + 1 - offset, at = x / half, angle = EW_PI * cutoff * x;
		double sinc = angle == 0 ? 1 : sin(angle) / angle;
		double kaiser = at < -1 || at > 1 ? 0 : ew_bessel(EW_RESAMPLE_BETA * sqrt(1 - at * at)) / window;
		taps[k] = (float)(sinc * kaiser);
		sum += sinc * kaiser;
	}
	for (int k = 0; k < 2 * half; k++) taps[k] = (float)(taps[k] / sum);
}

/* Brings a sound to rate. Beyond both ends there is silence. False after ew_fail. */
static inline bool ew_resample(ew_sound *sound, uint32_t rate) {
	uint32_t from = sound->rate, a = from, b = rate;
	if (from == rate) return true;
	if (from > EW_RESAMPLE_RATE) {
		ew_fail("the sound has %u samples a second: at most %d are taken", from, EW_RESAMPLE_RATE);
		return false;
	}
	while (b) {
		uint32_t rest = a % b;
		a = b, b = rest;
	}
	uint32_t phases = rate / a < EW_RESAMPLE_PHASES ? rate / a : EW_RESAMPLE_PHASES;
	double cutoff = EW_RESAMPLE_BAND * fmin(1, (double)rate / from);
	int half = (int)ceil(EW_RESAMPLE_ZEROS / cutoff);
	uint64_t count = ((uint64_t)sound->count * rate + from - 1) / from;
	float *bank = EW_ARRAY(float, (uint64_t)(phases + 1) * 2 * (uint64_t)half), *to = EW_ARRAY(float, count);
	if (!bank || !to) return false;
	for (uint32_t p = 0; p <= phases; p++) ew_resample_phase(bank + (size_t)p * 2 * half, half, (double)p / phases, cutoff);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t position = i * from, part = position % rate;
		int64_t first = (int64_t)(position / rate) - half + 1;
		const float *taps = bank + (size_t)((part * phases + rate / 2) / rate) * 2 * half;
		float sum = 0;
		for (int64_t k = first < 0 ? -first : 0; k < 2 * half && first + k < sound->count; k++) sum += taps[k] * sound->samples[first + k];
		to[i] = sum;
	}
	sound->samples = to, sound->count = (uint32_t)count, sound->rate = rate;
	return true;
}

#endif
