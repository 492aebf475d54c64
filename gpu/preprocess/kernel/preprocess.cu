// One batch of pictures, bytes in rows of pixels with three channels each, to one tensor of planes: cut out, scale by bilinear
// interpolation, subtract, multiply. A thread computes one pixel of one picture. Compiled by clang alone, without CUDA's headers;
// "make ptx" does it.
#define GLOBAL extern "C" __attribute__((global))
#define DEVICE static __attribute__((device)) inline

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned long long u64;

// Picture describes where a picture is and what of it is wanted. The same layout stands in preprocess.go.
struct Picture {
	u64 at;            // address of the first pixel of the part that is wanted
	int stride;        // bytes from row to row
	int width, height; // of that part, in pixels
	float sx, sy;      // pixels of the part for one of the tensor
	int unused;
};

DEVICE float mix(float a, float b, float t) { return a + (b - a) * t; }

DEVICE void put(float *to, float v) { *to = v; }
DEVICE void put(u16 *to, float v) {
	u16 h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
	*to = h;
}

template <typename T>
DEVICE void pixel(const Picture *pictures, T *out, int width, int height, const float *mean, const float *scale) {
	int i = (int)(__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x());
	if (i >= width * height) return;
	int picture = (int)__nvvm_read_ptx_sreg_ctaid_y();
	const Picture p = pictures[picture];
	float fx = ((float)(i % width) + 0.5f) * p.sx - 0.5f, fy = ((float)(i / width) + 0.5f) * p.sy - 0.5f;
	fx = fx < 0.0f ? 0.0f : fx;
	fy = fy < 0.0f ? 0.0f : fy;
	int x0 = (int)fx, y0 = (int)fy;
	x0 = x0 < p.width ? x0 : p.width - 1;
	y0 = y0 < p.height ? y0 : p.height - 1;
	int x1 = x0 + 1 < p.width ? x0 + 1 : p.width - 1, y1 = y0 + 1 < p.height ? y0 + 1 : p.height - 1;
	float tx = fx - (float)x0, ty = fy - (float)y0;
	const u8 *top = (const u8 *)p.at + (long long)y0 * p.stride, *bottom = (const u8 *)p.at + (long long)y1 * p.stride;
	long long plane = (long long)width * height;
	T *to = out + 3 * plane * picture + i;
	for (int c = 0; c < 3; c++) {
		float a = mix(top[3 * x0 + c], top[3 * x1 + c], tx), b = mix(bottom[3 * x0 + c], bottom[3 * x1 + c], tx);
		put(to + plane * c, (mix(a, b, ty) - mean[c]) * scale[c]);
	}
}

GLOBAL void preprocess_f32(const Picture *pictures, float *out, int width, int height, float m0, float m1, float m2, float s0, float s1, float s2) {
	const float mean[3] = {m0, m1, m2}, scale[3] = {s0, s1, s2};
	pixel(pictures, out, width, height, mean, scale);
}

GLOBAL void preprocess_f16(const Picture *pictures, u16 *out, int width, int height, float m0, float m1, float m2, float s0, float s1, float s2) {
	const float mean[3] = {m0, m1, m2}, scale[3] = {s0, s1, s2};
	pixel(pictures, out, width, height, mean, scale);
}
