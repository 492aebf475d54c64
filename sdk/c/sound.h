/* sound.h: a WAV file as samples from -1 to 1, its channels mixed into one. */
#ifndef EDGEWISE_SOUND_H
#define EDGEWISE_SOUND_H

#include "edgewise.h"

typedef struct {
	uint32_t rate; /* samples a second */
	uint32_t count;
	float *samples;
} ew_sound;

static inline uint32_t ew_u16le(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static inline uint32_t ew_u32le(const uint8_t *p) { return ew_u16le(p) | ew_u16le(p + 2) << 16; }

/* One sample of 8, 16, 24 or 32 bits, or a float of 32. */
static inline float ew_sample(const uint8_t *p, uint32_t bits, bool is_float) {
	if (is_float) {
		float v;
		memcpy(&v, p, 4);
		return v;
	}
	switch (bits) {
	case 8: return ((float)p[0] - 128) / 128;
	case 16: return (float)(int16_t)ew_u16le(p) / 32768;
	case 24: return (float)((int32_t)((ew_u16le(p) | (uint32_t)p[2] << 16) << 8) >> 8) / 8388608;
	}
	return (float)((double)(int32_t)ew_u32le(p) / 2147483648.0);
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

/* Reads a WAV file of integers of 8 to 32 bits or floats of 32. False after ew_fail. */
static inline bool ew_read_sound(ew_span file, ew_sound *sound) {
	const uint8_t *p = file.data, *end = p + file.len;
	uint32_t code = 0, channels = 0, bits = 0;
	if (file.len < 12 || memcmp(p, "RIFF", 4) || memcmp(p + 8, "WAVE", 4)) {
		ew_fail("the sound is not a WAV file");
		return false;
	}
	for (p += 12; end - p >= 8;) {
		uint32_t size = ew_u32le(p + 4), room = (uint32_t)(end - p) - 8;
		const uint8_t *body = p + 8;
		if (size > room) size = room; /* recorders that are cut off leave it too long */
		if (!memcmp(p, "fmt ", 4) && size >= 16) {
			code = ew_u16le(body), channels = ew_u16le(body + 2), sound->rate = ew_u32le(body + 4), bits = ew_u16le(body + 14);
			if (code == 0xFFFE && size >= 40) code = ew_u16le(body + 24);
		} else if (!memcmp(p, "data", 4)) {
			bool integer = code == 1 && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
			if ((!integer && !(code == 3 && bits == 32)) || channels == 0 || channels > 64 || sound->rate == 0) {
				ew_fail("the sound has format %u, %u bits, %u channels: want integers of 8 to 32 bits or floats of 32", code, bits, channels);
				return false;
			}
			uint32_t step = bits / 8, frame = step * channels;
			sound->count = size / frame;
			sound->samples = EW_ARRAY(float, sound->count);
			if (!sound->samples) return false;
			if (code == 1 && bits == 16 && channels <= 2) {
				ew_read_16(body, channels, sound->count, sound->samples);
				return true;
			}
			for (uint32_t i = 0; i < sound->count; i++, body += frame) {
				float sum = 0;
				for (uint32_t c = 0; c < channels; c++) sum += ew_sample(body + c * step, bits, code == 3);
				sound->samples[i] = sum / (float)channels;
			}
			return true;
		}
		if (size + (size & 1) > room) break;
		p = body + size + (size & 1);
	}
	ew_fail("the sound has no samples: want a WAV file with a fmt and a data chunk");
	return false;
}

#endif
