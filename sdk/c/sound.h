/*
 * sound.h: a WAV file as samples from -1 to 1, its channels mixed into one, and frames of them. resample.h brings them to another rate.
 * The other SDKs have the same helpers, with the same answers to the bit.
 *
 * limit is the most samples, of four bytes each, that a helper may make: set it to what the step's memory holds.
 */
#ifndef EDGEWISE_SOUND_H
#define EDGEWISE_SOUND_H

#include <float.h>

#include "edgewise.h"

#define EW_MIN_SAMPLE_RATE 1000 /* samples a second */
#define EW_MAX_SAMPLE_RATE 768000
#define EW_MAX_CHANNELS 64

typedef struct {
	uint32_t rate; /* samples a second */
	uint32_t count;
	float *samples;
} ew_sound;

/* The fmt chunk of a WAV file; code is 1 for integers, 3 for floats, 0 before there is one. */
typedef struct { uint32_t code, channels, rate, bits; } ew_wav;

static inline uint32_t ew_u16le(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static inline uint32_t ew_u32le(const uint8_t *p) { return ew_u16le(p) | ew_u16le(p + 2) << 16; }

/* Whether a rate is within the bounds. False after ew_fail, which says what has the rate. */
static inline bool ew_rate(const char *what, uint32_t rate) {
	if (rate >= EW_MIN_SAMPLE_RATE && rate <= EW_MAX_SAMPLE_RATE) return true;
	ew_fail("%s %u samples a second: want %d to %d", what, rate, EW_MIN_SAMPLE_RATE, EW_MAX_SAMPLE_RATE);
	return false;
}

/* One sample. A float that is no number, or that 32 bits do not hold, is silence. */
static inline double ew_sample(const uint8_t *p, const ew_wav *wav) {
	double v = 0;
	if (wav->code == 3 && wav->bits == 32) {
		float single;
		memcpy(&single, p, 4);
		v = single;
	} else if (wav->code == 3) memcpy(&v, p, 8);
	else if (wav->bits == 8) return ((double)p[0] - 128) / 128;
	else if (wav->bits == 16) return (double)(int16_t)ew_u16le(p) / 32768;
	else if (wav->bits == 24) return (double)(int32_t)(ew_u16le(p) << 8 | (uint32_t)p[2] << 24) / 2147483648.0;
	else return (double)(int32_t)ew_u32le(p) / 2147483648.0;
	return v >= -FLT_MAX && v <= FLT_MAX ? v : 0;
}

/* Reads n samples of 16 bits, as most sounds have them; two channels become one. */
static inline void ew_read_16(const uint8_t *p, uint32_t channels, uint32_t n, float *out) {
	if (channels == 1) {
#pragma clang loop unroll_count(8)
		for (uint32_t i = 0; i < n; i++) out[i] = (float)(int16_t)ew_u16le(p + 2 * i) / 32768;
		return;
	}
#pragma clang loop unroll_count(8)
	for (uint32_t i = 0; i < n; i++) out[i] = (float)((int16_t)ew_u16le(p + 4 * i) + (int16_t)ew_u16le(p + 4 * i + 2)) / 65536;
}

/* Reads the fmt chunk. False after ew_fail. */
static inline bool ew_read_format(const uint8_t *body, uint32_t size, ew_wav *wav) {
	if (size < 16) {
		ew_fail("the sound's format has %u bytes: want at least 16", size);
		return false;
	}
	*wav = (ew_wav){ew_u16le(body), ew_u16le(body + 2), ew_u32le(body + 4), ew_u16le(body + 14)};
	if (wav->code == 0xFFFE && size >= 26) wav->code = ew_u16le(body + 24); /* WAVE_FORMAT_EXTENSIBLE: the sub-format */
	if (!ew_rate("the sound has", wav->rate)) return false;
	if (wav->channels < 1 || wav->channels > EW_MAX_CHANNELS) {
		ew_fail("the sound has %u channels: want 1 to %d", wav->channels, EW_MAX_CHANNELS);
		return false;
	}
	uint32_t bits = wav->bits;
	if ((wav->code == 1 && (bits == 8 || bits == 16 || bits == 24 || bits == 32)) || (wav->code == 3 && (bits == 32 || bits == 64))) return true;
	ew_fail("the sound has encoding %u with %u bits: want integers (1) of 8, 16, 24 or 32 bits or floats (3) of 32 or 64", wav->code, bits);
	return false;
}

/* Reads the data chunk: the mean of the channels. What is left of an incomplete last sample is left out. False after ew_fail. */
static inline bool ew_read_samples(const uint8_t *body, uint32_t size, const ew_wav *wav, uint32_t limit, ew_sound *sound) {
	uint32_t step = wav->bits / 8, all = step * wav->channels, count = size / all;
	if (count > limit) {
		ew_fail("the sound has %u samples: at most %u are taken", count, limit);
		return false;
	}
	float *samples = EW_ARRAY(float, count);
	if (!samples) return false;
	*sound = (ew_sound){wav->rate, count, samples};
	if (wav->code == 1 && wav->bits == 16 && wav->channels <= 2) {
		ew_read_16(body, wav->channels, count, samples);
		return true;
	}
	for (uint32_t i = 0; i < count; i++, body += all) {
		double sum = 0;
		for (uint32_t c = 0; c < wav->channels; c++) sum += ew_sample(body + c * step, wav);
		samples[i] = (float)(sum / wav->channels);
	}
	return true;
}

/*
 * Reads a WAV file: integers of 8, 16, 24 or 32 bits or floats of 32 or 64. Channels are mixed into one by their mean. A chunk that says
 * it is longer than the file, as recorders leave it when they are cut off, ends with the file. False after ew_fail.
 */
static inline bool ew_read_sound(ew_span file, uint32_t limit, ew_sound *sound) {
	ew_wav wav = {0};
	if (file.len < 12 || memcmp(file.data, "RIFF", 4) || memcmp(file.data + 8, "WAVE", 4)) {
		ew_fail("the sound is not a WAV file");
		return false;
	}
	for (uint32_t at = 12; file.len - at >= 8;) {
		const uint8_t *name = file.data + at, *body = name + 8;
		uint32_t size = ew_u32le(name + 4), room = file.len - at - 8;
		if (size > room) size = room;
		if (!memcmp(name, "fmt ", 4)) {
			if (!ew_read_format(body, size, &wav)) return false;
		} else if (!memcmp(name, "data", 4)) {
			if (wav.code) return ew_read_samples(body, size, &wav, limit, sound);
			ew_fail("the sound's samples come before its format");
			return false;
		}
		at += 8 + (size < room ? size + (size & 1) : size);
	}
	ew_fail("the sound has no samples: want a WAV file with a fmt and a data chunk");
	return false;
}

/*
 * Frames of width samples, one every hop samples, of a sound with before and after samples of silence around it: as many whole ones as
 * there are. They lie behind one another. NULL after ew_fail.
 */
static inline float *ew_frames(const ew_sound *sound, uint32_t width, uint32_t hop, uint32_t before, uint32_t after, uint32_t limit, uint32_t *frames) {
	if (width == 0 || hop == 0) return ew_fail("frames of %u samples, one every %u: want 1 or more", width, hop);
	uint64_t all = (uint64_t)before + sound->count + after, n = all < width ? 0 : 1 + (all - width) / hop;
	if (n > limit / width) return ew_fail("%llu frames of %u samples: at most %u samples are taken", (unsigned long long)n, width, limit);
	float *to = EW_ARRAY(float, n * width);
	if (!to) return NULL;
	if (n > 0) memset(to, 0, (size_t)n * width * sizeof *to);
	for (uint64_t i = 0; i < n; i++) {
		int64_t from = (int64_t)(i * hop) - before, low = from < 0 ? -from : 0, high = (int64_t)sound->count - from;
		if (high > width) high = width;
		if (low < high) memcpy(to + i * width + low, sound->samples + from + low, (size_t)(high - low) * sizeof *to);
	}
	*frames = (uint32_t)n;
	return to;
}

#endif
