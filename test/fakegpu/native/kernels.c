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
void fake_scale(const uint64_t *a, unsigned rows) {
	(void)rows;
	const float *from = (const float *)(uintptr_t)a[0];
	float *to = (float *)(uintptr_t)a[1];
	for (int64_t i = 0; i < (int32_t)a[2]; i++) to[i] = from[i] * f32(a[3]);
}

// A picture of the table: address, bytes of a row, width, height, and how many of its pixels are one of the tensor.
typedef struct {
	uint64_t at;
	int32_t stride, width, height;
	float sx, sy;
	int32_t unused;
} picture;

static int clamp(int v, int most) { return v < 0 ? 0 : v > most ? most : v; }

static float sample(const picture *p, int x, int y, int c) { return ((const unsigned char *)(uintptr_t)p->at)[(int64_t)clamp(y, p->height - 1) * p->stride + 3 * clamp(x, p->width - 1) + c]; }

// preprocess(pictures, out, width, height, means, scales) for one channel of one pixel: bilinear, then (v - mean) * scale.
static float preprocessed(const uint64_t *a, const picture *p, int x, int y, int c) {
	float fx = ((float)x + 0.5f) * p->sx - 0.5f, fy = ((float)y + 0.5f) * p->sy - 0.5f;
	if (fx < 0) fx = 0;
	if (fy < 0) fy = 0;
	int x0 = clamp((int)fx, p->width - 1), y0 = clamp((int)fy, p->height - 1);
	float tx = fx - (float)x0, ty = fy - (float)y0;
	float l = sample(p, x0, y0, c), r = sample(p, x0 + 1, y0, c), top = l + (r - l) * tx;
	l = sample(p, x0, y0 + 1, c), r = sample(p, x0 + 1, y0 + 1, c);
	float bottom = l + (r - l) * tx;
	return (top + (bottom - top) * ty - f32(a[4 + c])) * f32(a[7 + c]);
}

static void preprocess(const uint64_t *a, unsigned rows, int half) {
	int width = (int32_t)a[2], height = (int32_t)a[3];
	for (unsigned n = 0; n < rows; n++)
		for (int c = 0; c < 3; c++)
			for (int y = 0; y < height; y++)
				for (int x = 0; x < width; x++) {
					float v = preprocessed(a, (const picture *)(uintptr_t)a[0] + n, x, y, c);
					int64_t at = (((int64_t)n * 3 + c) * height + y) * width + x;
					if (half)
						((_Float16 *)(uintptr_t)a[1])[at] = (_Float16)v;
					else
						((float *)(uintptr_t)a[1])[at] = v;
				}
}

void fake_preprocess_f32(const uint64_t *a, unsigned rows) { preprocess(a, rows, 0); }
void fake_preprocess_f16(const uint64_t *a, unsigned rows) { preprocess(a, rows, 1); }
