// What the project's kernels compute, in C, for the fake driver: written from their description, not from their source.
#include <stdint.h>
#include <string.h>

static float f32(uint64_t word) {
	uint32_t low = (uint32_t)word;
	float f;
	memcpy(&f, &low, 4);
	return f;
}

// scale(from, to, n, factor): to[i] = from[i] * factor
void fake_scale(const uint64_t *a) {
	const float *from = (const float *)(uintptr_t)a[0];
	float *to = (float *)(uintptr_t)a[1];
	for (int64_t i = 0; i < (int32_t)a[2]; i++) to[i] = from[i] * f32(a[3]);
}
