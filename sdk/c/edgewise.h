/*
 * edgewise.h: write a step of the Edgewise appliance in C. One header, nothing to link.
 *
 * A step turns tensors into tensors. It is one function and one macro:
 *
 *     #include "edgewise.h"
 *
 *     static const ew_list *process(const ew_list *inputs) {
 *         const ew_tensor *x = ew_input(inputs, "x", EW_FP32);
 *         if (!x) return NULL;                                    // ew_input has said why
 *         ew_list *outputs = ew_outputs(1);
 *         float *y = ew_output(outputs, "y", EW_FP32, EW_SHAPE(1, 3));
 *         ...
 *         return outputs;
 *     }
 *     EW_STEP(process, "{\"inputs\": [...], \"outputs\": [...]}")
 *
 * Build: clang --target=wasm32-wasi -mexec-model=reactor -O3 -msimd128 -o model.wasm step.c
 *
 * Errors: a function that returns NULL or false has called ew_fail already, where its comment says so; process then
 * returns NULL. Memory from ew_alloc, ew_output, ew_infer lives until the box has read the outputs of this request.
 * Without "stateful" in the model's configuration nothing survives a request: each finds memory as ew_setup left it.
 *
 * The contract itself: docs/steps-abi.md.
 */
#ifndef EDGEWISE_H
#define EDGEWISE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tensors ---- */

/* The element types, with the numbers of the inference protocol. */
typedef enum {
	EW_BOOL = 1, EW_UINT8, EW_UINT16, EW_UINT32, EW_UINT64, EW_INT8, EW_INT16, EW_INT32, EW_INT64,
	EW_FP16, EW_FP32, EW_FP64, EW_BYTES, EW_BF16
} ew_dtype;

/* A tensor: the record of the ABI itself, so that a list from the box is read in place. */
typedef struct {
	const char *name; /* UTF-8, not terminated */
	uint32_t name_len;
	uint32_t dtype;
	uint32_t rank;
	const int64_t *shape; /* rank sizes */
	void *data;           /* row-major, at a multiple of 64 bytes in inputs; the step may write to it */
	uint64_t data_len;    /* bytes */
} ew_tensor;
_Static_assert(sizeof(ew_tensor) == 32, "steps are built for wasm32");

typedef struct {
	uint32_t count;
	uint32_t capacity; /* reserved in the ABI; of outputs, while they are built, how many have room */
	ew_tensor tensor[];
} ew_list;

/* Bytes somewhere in memory. */
typedef struct {
	const uint8_t *data;
	uint32_t len;
} ew_span;

/* A shape as two arguments, rank and sizes: EW_SHAPE(1, 3, 224, 224). A scalar is EW_SCALAR. */
#define EW_SHAPE(...) (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}
#define EW_SCALAR 0, NULL

/* The bound of the rank of a tensor. */
#define EW_MAX_RANK 32

/* ---- The box ---- */

#define EW_IMPORT(name) __attribute__((import_module("edgewise_v1"), import_name(name)))

EW_IMPORT("log") void ew_import_log(int32_t level, const void *text, uint32_t len);
EW_IMPORT("fail") void ew_import_fail(const void *text, uint32_t len);
EW_IMPORT("parameter") int32_t ew_import_parameter(const void *name, uint32_t name_len, void *dst, uint32_t cap);
EW_IMPORT("infer") const ew_list *ew_import_infer(const void *model, uint32_t model_len, const ew_list *inputs);
EW_IMPORT("last_error") int32_t ew_import_last_error(void *dst, uint32_t cap);

/*
 * The kernels: loops of the box for images and scores. What each computes, to the rounding: docs/steps-abi.md. Each returns
 * -1 when it did not work; ew_fail_last then makes its reason the step's error. A module imports only those that it calls.
 */
typedef struct { uint32_t width, height, channels, format; } ew_image_info; /* format 1 JPEG, 2 PNG, 3 WebP */
typedef struct { float scale_x, scale_y, pad_x, pad_y; } ew_letterbox_map;   /* x_dst = x_src * scale_x + pad_x */
enum { EW_ORIENT = 1 };                                   /* flag of image_info and image_decode: turn as EXIF says */
enum { EW_NEAREST = 0, EW_BILINEAR = 1, EW_AREA = 2 };    /* mode of image_resize and image_letterbox */
enum { EW_INTERLEAVED = 1, EW_REVERSE_CHANNELS = 2 };     /* flags of image_normalize */

EW_IMPORT("image_info") int32_t ew_image_read_info(const void *src, uint32_t src_len, uint32_t flags, ew_image_info *dst);
EW_IMPORT("image_decode") int32_t ew_image_decode(const void *src, uint32_t src_len, uint32_t flags, uint32_t channels, void *dst, uint32_t dst_len);
EW_IMPORT("image_resize") int32_t ew_image_resize(const void *src, uint32_t src_w, uint32_t src_h, void *dst, uint32_t dst_w, uint32_t dst_h, uint32_t channels, uint32_t mode);
EW_IMPORT("image_letterbox") int32_t ew_image_letterbox(const void *src, uint32_t src_w, uint32_t src_h, void *dst, uint32_t dst_w, uint32_t dst_h, uint32_t channels, uint32_t mode, uint32_t fill, ew_letterbox_map *map);
EW_IMPORT("image_normalize") int32_t ew_image_normalize(const void *src, uint32_t w, uint32_t h, uint32_t channels, void *dst, uint32_t dtype, uint32_t flags, const float *mean, const float *scale);
/*
 * A row of a tensor of pictures: part crop {x, y, width, height} of src (red, green, blue; NULL: all of it), scaled to dst_w x dst_h, as planes at dst,
 * EW_FP32 or EW_FP16. dst is there when the step has returned, and neither src nor dst may be changed before. Where the tensor goes to a model on a
 * GPU and nowhere else, the GPU makes it.
 */
EW_IMPORT("image_tensor") int32_t ew_image_tensor(const void *src, uint32_t src_w, uint32_t src_h, const uint32_t *crop, void *dst, uint32_t dst_w, uint32_t dst_h, uint32_t dtype, const float *mean, const float *scale);
EW_IMPORT("softmax") int32_t ew_kernel_softmax(const float *src, float *dst, uint32_t rows, uint32_t cols);
EW_IMPORT("top_k") int32_t ew_kernel_top_k(const float *src, uint32_t rows, uint32_t cols, uint32_t k, float *values, int32_t *indices);
EW_IMPORT("nms") int32_t ew_kernel_nms(const float *boxes, const float *scores, const int32_t *classes, uint32_t count, float iou, float score, int32_t *dst, uint32_t max);

/* ---- Text ---- */

/* The bound of a message or a log line, as the box cuts it. */
#define EW_MAX_TEXT 4096

typedef struct {
	char *text;
	size_t len, cap;
} ew_writer;

static inline void ew_put(ew_writer *w, const char *s, size_t n) {
	if (n > w->cap - w->len) n = w->cap - w->len;
	if (n > 0) memcpy(w->text + w->len, s, n);
	w->len += n;
}

static inline void ew_put_number(ew_writer *w, uint64_t v, bool negative) {
	char digits[21];
	size_t at = sizeof digits;
	do digits[--at] = (char)('0' + v % 10); while (v /= 10);
	if (negative) digits[--at] = '-';
	ew_put(w, digits + at, sizeof digits - at);
}

static inline void ew_put_signed(ew_writer *w, int64_t v) { ew_put_number(w, v < 0 ? -(uint64_t)v : (uint64_t)v, v < 0); }

/* Formats %s %.*s %c %d %u %lld %llu %zu %%, and nothing else: printf of the C library is larger than most steps. */
static inline size_t ew_vformat(char *dst, size_t cap, const char *format, va_list args) {
	ew_writer w = {dst, 0, cap};
	for (const char *f = format; *f; f++) {
		if (*f != '%') {
			ew_put(&w, f, 1);
			continue;
		}
		f++;
		if (!strncmp(f, "lld", 3)) { ew_put_signed(&w, va_arg(args, long long)); f += 2; }
		else if (!strncmp(f, "llu", 3)) { ew_put_number(&w, va_arg(args, unsigned long long), false); f += 2; }
		else if (!strncmp(f, "zu", 2)) { ew_put_number(&w, va_arg(args, size_t), false); f += 1; }
		else if (!strncmp(f, ".*s", 3)) { int n = va_arg(args, int); ew_put(&w, va_arg(args, const char *), n < 0 ? 0 : (size_t)n); f += 2; }
		else if (*f == 's') { const char *s = va_arg(args, const char *); ew_put(&w, s, strlen(s)); }
		else if (*f == 'd') ew_put_signed(&w, va_arg(args, int));
		else if (*f == 'u') ew_put_number(&w, va_arg(args, unsigned), false);
		else if (*f == 'c') { char c = (char)va_arg(args, int); ew_put(&w, &c, 1); }
		else ew_put(&w, f, *f ? 1 : 0);
		if (!*f) break;
	}
	return w.len;
}

/* Formats into dst, without a terminator. Returns the bytes written, at most cap. */
__attribute__((format(printf, 3, 4))) static inline size_t ew_format(char *dst, size_t cap, const char *format, ...) {
	va_list args;
	va_start(args, format);
	size_t n = ew_vformat(dst, cap, format, args);
	va_end(args);
	return n;
}

enum { EW_DEBUG = 0, EW_INFO = 1, EW_WARNING = 2, EW_ERROR = 3 };

/* Writes a line to the step's log. The box limits their rate and their length. */
__attribute__((format(printf, 2, 3))) static inline void ew_log(int level, const char *format, ...) {
	char text[EW_MAX_TEXT];
	va_list args;
	va_start(args, format);
	ew_import_log(level, text, (uint32_t)ew_vformat(text, sizeof text, format, args));
	va_end(args);
}

/* Says why the step fails. Always returns NULL: "return ew_fail(...)". The last call before process returns counts. */
__attribute__((format(printf, 1, 2))) static inline void *ew_fail(const char *format, ...) {
	char text[EW_MAX_TEXT];
	va_list args;
	va_start(args, format);
	ew_import_fail(text, (uint32_t)ew_vformat(text, sizeof text, format, args));
	va_end(args);
	return NULL;
}

/* Copies the reason of the last import that failed in this request. Returns the bytes copied, at most cap. */
static inline size_t ew_last_error(char *dst, size_t cap) {
	int32_t n = ew_import_last_error(dst, (uint32_t)cap);
	return n < 0 ? 0 : (size_t)n < cap ? (size_t)n : cap;
}

/* As ew_fail, with "what: " and the reason of the last import that failed. Always returns NULL. */
static inline void *ew_fail_last(const char *what) {
	char text[EW_MAX_TEXT];
	return ew_fail("%s: %.*s", what, (int)ew_last_error(text, sizeof text), text);
}

/* ---- Memory of a request ---- */

/* Blocks are kept from request to request and filled from the front. EW_STEP defines the one arena of a module. */
typedef struct ew_block {
	struct ew_block *next;
	size_t size, used; /* bytes behind the header */
} ew_block;

typedef struct {
	ew_block *first, *current;
} ew_arena;
extern ew_arena ew_request;

#define EW_BLOCK_BYTES 65536

static inline void *ew_take(ew_block *b, size_t size, size_t align) {
	uintptr_t base = (uintptr_t)(b + 1);
	uintptr_t at = (base + b->used + align - 1) & ~(uintptr_t)(align - 1);
	if (at < base || at - base > b->size || size > b->size - (at - base)) return NULL;
	b->used = at - base + size;
	return (void *)at;
}

/* Memory until the end of the request, not cleared; align is a power of two. NULL, without ew_fail, when there is none. */
static inline void *ew_alloc(size_t size, size_t align) {
	for (ew_block *b = ew_request.current; b; b = b->next) {
		void *p = ew_take(b, size, align);
		ew_request.current = b;
		if (p) return p;
	}
	size_t room = size + align;
	if (room < size || room > SIZE_MAX / 2) return NULL;
	if (room < EW_BLOCK_BYTES) room = EW_BLOCK_BYTES;
	ew_block *b = malloc(sizeof *b + room);
	if (!b) return NULL;
	*b = (ew_block){NULL, room, 0};
	if (ew_request.current) ew_request.current->next = b;
	else ew_request.first = b;
	ew_request.current = b;
	return ew_take(b, size, align);
}

static inline void ew_reset(void) {
	for (ew_block *b = ew_request.first; b; b = b->next) b->used = 0;
	ew_request.current = ew_request.first;
}

/* A place in the arena. What is allocated after ew_mark, the answers of ew_infer included, is given back by ew_release. */
typedef struct {
	ew_block *block;
	size_t used;
} ew_place;

static inline ew_place ew_mark(void) { return (ew_place){ew_request.current, ew_request.current ? ew_request.current->used : 0}; }

static inline void ew_release(ew_place place) {
	if (!place.block) {
		ew_reset();
		return;
	}
	for (ew_block *b = place.block->next; b; b = b->next) b->used = 0;
	place.block->used = place.used;
	ew_request.current = place.block;
}

/* An array of n elements of type, NULL after ew_fail when there is no memory. */
#define EW_ARRAY(type, n) ((type *)ew_array((n), sizeof(type)))
static inline void *ew_array(uint64_t n, size_t size) {
	void *p = n <= SIZE_MAX / 2 / size ? ew_alloc((size_t)n * size, 64) : NULL;
	return p ? p : ew_fail("out of memory: %llu elements of %zu bytes", (unsigned long long)n, size);
}

/* ---- Reading inputs ---- */

/* Bytes of one element, 0 for EW_BYTES. */
static inline uint32_t ew_dtype_size(uint32_t dtype) {
	static const uint8_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0, 2};
	return dtype < sizeof sizes ? sizes[dtype] : 0;
}

/* The name on the wire, such as "FP32". */
static inline const char *ew_dtype_name(uint32_t dtype) {
	static const char names[][7] = {"?", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES", "BF16"};
	return names[dtype < sizeof names / sizeof names[0] ? dtype : 0];
}

static inline bool ew_named(const ew_tensor *t, const char *name) {
	return strlen(name) == t->name_len && !memcmp(name, t->name, t->name_len);
}

/* The tensor called name, or NULL, without ew_fail, when the list has none: for optional inputs. */
static inline const ew_tensor *ew_find(const ew_list *list, const char *name) {
	for (uint32_t i = 0; i < list->count; i++)
		if (ew_named(&list->tensor[i], name)) return &list->tensor[i];
	return NULL;
}

/* The tensor called name, which must be of dtype; NULL after ew_fail. */
static inline const ew_tensor *ew_input(const ew_list *list, const char *name, ew_dtype dtype) {
	const ew_tensor *t = ew_find(list, name);
	if (!t) return ew_fail("input \"%s\" is missing", name);
	if (t->dtype != dtype) return ew_fail("input \"%s\" is %s: want %s", name, ew_dtype_name(t->dtype), ew_dtype_name(dtype));
	return t;
}

/* The number of elements. The box has checked that the product fits. */
static inline uint64_t ew_elements(const ew_tensor *t) {
	uint64_t n = 1;
	for (uint32_t i = 0; i < t->rank; i++) n *= (uint64_t)t->shape[i];
	return n;
}

/* The elements in place, or NULL, without ew_fail, when they have another type: ew_f32(t)[i]. */
#define EW_VIEW(view, ctype, type) \
	static inline ctype *ew_##view(const ew_tensor *t) { return t && t->dtype == (type) ? (ctype *)t->data : NULL; }
EW_VIEW(bool, uint8_t, EW_BOOL)
EW_VIEW(u8, uint8_t, EW_UINT8)
EW_VIEW(u16, uint16_t, EW_UINT16)
EW_VIEW(u32, uint32_t, EW_UINT32)
EW_VIEW(u64, uint64_t, EW_UINT64)
EW_VIEW(i8, int8_t, EW_INT8)
EW_VIEW(i16, int16_t, EW_INT16)
EW_VIEW(i32, int32_t, EW_INT32)
EW_VIEW(i64, int64_t, EW_INT64)
EW_VIEW(f16, uint16_t, EW_FP16) /* bit patterns */
EW_VIEW(bf16, uint16_t, EW_BF16)
EW_VIEW(f32, float, EW_FP32)
EW_VIEW(f64, double, EW_FP64)

/* Walks through the elements of an EW_BYTES tensor, in place: offset is 0 before the first. False behind the last. */
static inline bool ew_next(const ew_tensor *t, uint64_t *offset, ew_span *element) {
	if (t->data_len < 4 || *offset > t->data_len - 4) return false;
	const uint8_t *at = (const uint8_t *)t->data + *offset;
	uint32_t len;
	memcpy(&len, at, 4);
	if (len > t->data_len - 4 - *offset) return false;
	*element = (ew_span){at + 4, len};
	*offset += 4 + (uint64_t)len;
	return true;
}

/* ---- Making outputs ---- */

/* A list with room for capacity tensors; NULL after ew_fail. */
static inline ew_list *ew_outputs(uint32_t capacity) {
	if (capacity > UINT32_MAX / 64) return ew_fail("out of memory: a list of %u tensors", capacity);
	ew_list *list = ew_alloc(sizeof(ew_list) + capacity * sizeof(ew_tensor), 8);
	if (!list) return ew_fail("out of memory: a list of %u tensors", capacity);
	*list = (ew_list){0, capacity};
	return list;
}

/*
 * Adds a tensor whose elements exist already, in an input or elsewhere: nothing is copied but the shape. name stays where
 * it is. The elements must not change until the request ends, and no two outputs may share any. False after ew_fail.
 */
static inline bool ew_output_view(ew_list *list, const char *name, ew_dtype dtype, uint32_t rank, const int64_t *shape, const void *data, uint64_t data_len) {
	if (!list) return false;
	if (list->count >= list->capacity || rank > EW_MAX_RANK) {
		ew_fail("output \"%s\": the list has room for %u tensors of at most %u dimensions", name, list->capacity, EW_MAX_RANK);
		return false;
	}
	int64_t *copy = ew_alloc(rank * sizeof(int64_t), 8);
	if (!copy) {
		ew_fail("out of memory: output \"%s\"", name);
		return false;
	}
	if (rank > 0) memcpy(copy, shape, rank * sizeof(int64_t));
	list->tensor[list->count++] = (ew_tensor){name, (uint32_t)strlen(name), dtype, rank, copy, (void *)data, data_len};
	return true;
}

/* Adds a tensor of another list as it is, under its own name: nothing is copied. False after ew_fail. */
static inline bool ew_output_tensor(ew_list *list, const ew_tensor *t) {
	if (!ew_output_view(list, "", (ew_dtype)t->dtype, t->rank, t->shape, t->data, t->data_len)) return false;
	list->tensor[list->count - 1].name = t->name;
	list->tensor[list->count - 1].name_len = t->name_len;
	return true;
}

/* Adds a tensor and returns its elements, not cleared, for the step to fill; not for EW_BYTES. NULL after ew_fail. */
static inline void *ew_output(ew_list *list, const char *name, ew_dtype dtype, uint32_t rank, const int64_t *shape) {
	uint64_t bytes = ew_dtype_size(dtype);
	if (bytes == 0) return ew_fail("output \"%s\": %s has no fixed size", name, ew_dtype_name(dtype));
	for (uint32_t i = 0; i < rank; i++)
		if (shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes)) return ew_fail("output \"%s\": the shape is too large", name);
	void *data = bytes <= SIZE_MAX / 2 ? ew_alloc((size_t)bytes, 64) : NULL;
	if (!data) return ew_fail("out of memory: output \"%s\" of %llu bytes", name, (unsigned long long)bytes);
	return ew_output_view(list, name, dtype, rank, shape, data, bytes) ? data : NULL;
}

/* Adds an EW_BYTES tensor of n elements, copied; n is the product of shape. False after ew_fail. */
static inline bool ew_output_spans(ew_list *list, const char *name, uint32_t rank, const int64_t *shape, const ew_span *elements, uint32_t n) {
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < n; i++) bytes += 4 + (uint64_t)elements[i].len;
	uint8_t *data = bytes <= SIZE_MAX / 2 ? ew_alloc((size_t)bytes, 64) : NULL;
	if (!data) {
		ew_fail("out of memory: output \"%s\" of %llu bytes", name, (unsigned long long)bytes);
		return false;
	}
	uint8_t *at = data;
	for (uint32_t i = 0; i < n; i++) {
		memcpy(at, &elements[i].len, 4);
		if (elements[i].len > 0) memcpy(at + 4, elements[i].data, elements[i].len);
		at += 4 + elements[i].len;
	}
	return ew_output_view(list, name, EW_BYTES, rank, shape, data, bytes);
}

/* ---- Parameters ---- */

/* The text of a parameter of the request, else of the model's configuration. data is NULL when there is none. */
static inline ew_span ew_parameter(const char *name) {
	uint32_t name_len = (uint32_t)strlen(name);
	int32_t len = ew_import_parameter(name, name_len, NULL, 0);
	if (len < 0) return (ew_span){NULL, 0};
	uint8_t *text = ew_alloc((size_t)len + 1, 1);
	if (!text) return (ew_span){NULL, 0};
	ew_import_parameter(name, name_len, text, (uint32_t)len);
	return (ew_span){text, (uint32_t)len};
}

/* Reads a decimal number such as -12, 0.45 or 1e-3 that fills s. Exact where it has at most 15 digits. */
static inline bool ew_parse_number(ew_span s, double *value) {
	const char *p = (const char *)s.data, *end = p + s.len;
	bool negative = p < end && *p == '-', digits = false;
	p += negative;
	double mantissa = 0;
	int exponent = 0;
	for (; p < end && *p >= '0' && *p <= '9'; p++, digits = true) mantissa = mantissa * 10 + (*p - '0');
	if (p < end && *p == '.')
		for (p++; p < end && *p >= '0' && *p <= '9'; p++, digits = true, exponent--) mantissa = mantissa * 10 + (*p - '0');
	if (digits && p < end && (*p == 'e' || *p == 'E')) {
		bool minus = ++p < end && *p == '-';
		p += p < end && (*p == '-' || *p == '+');
		int e = 0;
		for (digits = false; p < end && *p >= '0' && *p <= '9'; p++, digits = true) e = e < 1000 ? e * 10 + (*p - '0') : e;
		exponent += minus ? -e : e;
	}
	double power = 1;
	for (int e = exponent < 0 ? -exponent : exponent; e > 0 && power < 1e300; e--) power *= 10;
	*value = (exponent < 0 ? mantissa / power : mantissa * power) * (negative ? -1 : 1);
	return digits && p == end;
}

/* A parameter as a number within low and high; fallback where it is not set. False after ew_fail. */
static inline bool ew_parameter_number(const char *name, double fallback, double low, double high, double *value) {
	ew_span text = ew_parameter(name);
	*value = fallback;
	if (!text.data || (ew_parse_number(text, value) && *value >= low && *value <= high)) return true;
	ew_fail("parameter \"%s\" is \"%.*s\": want a number from %lld to %lld", name, (int)text.len, (const char *)text.data, (long long)low, (long long)high);
	return false;
}

/* As ew_parameter_number, for whole numbers of at most 2^53. False after ew_fail. */
static inline bool ew_parameter_int(const char *name, int64_t fallback, int64_t low, int64_t high, int64_t *value) {
	ew_span text = ew_parameter(name);
	double number = (double)fallback;
	bool ok = !text.data || (ew_parse_number(text, &number) && number >= (double)low && number <= (double)high && number == (double)(int64_t)number);
	*value = ok ? (int64_t)number : fallback;
	if (!ok) ew_fail("parameter \"%s\" is \"%.*s\": want a whole number from %lld to %lld", name, (int)text.len, (const char *)text.data, (long long)low, (long long)high);
	return ok;
}

/* A parameter that is "true" or "false"; fallback where it is not set. False after ew_fail. */
static inline bool ew_parameter_bool(const char *name, bool fallback, bool *value) {
	ew_span text = ew_parameter(name);
	*value = text.data ? text.len == 4 && !memcmp(text.data, "true", 4) : fallback;
	if (!text.data || *value || (text.len == 5 && !memcmp(text.data, "false", 5))) return true;
	ew_fail("parameter \"%s\" is \"%.*s\": want true or false", name, (int)text.len, (const char *)text.data);
	return false;
}

/* A parameter that is one of two words: whether it is the second. The first stands where it is not set. False after ew_fail. */
static inline bool ew_parameter_choice(const char *name, const char *first, const char *second, bool *is_second) {
	ew_span text = ew_parameter(name);
	*is_second = text.data && text.len == strlen(second) && !memcmp(text.data, second, text.len);
	if (!text.data || *is_second || (text.len == strlen(first) && !memcmp(text.data, first, text.len))) return true;
	ew_fail("parameter \"%s\" is \"%.*s\": want %s or %s", name, (int)text.len, (const char *)text.data, first, second);
	return false;
}

/* ---- Other models ---- */

/* Runs another model on inputs, which are built like outputs. The answer is read in place. NULL, without ew_fail, when it failed: see ew_fail_last. */
static inline const ew_list *ew_infer(const char *model, ew_list *inputs) {
	if (!inputs) return NULL;
	inputs->capacity = 0;
	return ew_import_infer(model, (uint32_t)strlen(model), inputs);
}

/* ---- Streams ---- */

EW_IMPORT("emit") int32_t ew_import_emit(const ew_list *outputs);

/*
 * Sends outputs as a response of a decoupled model, and goes on. It waits while the client reads slowly. What was allocated for them after
 * ew_mark may be given back then. False, without ew_fail, when it did not work: see ew_fail_last.
 */
static inline bool ew_emit(ew_list *outputs) {
	if (!outputs) return false;
	outputs->capacity = 0;
	return ew_import_emit(outputs) == 0;
}

/* ---- The step ---- */

#define EW_EXPORT(name) __attribute__((export_name(name), used))

/*
 * Makes process the step of this module; once in a module, at file level. description is the JSON of edgewise_describe as a
 * string literal. setup, of type void(void), runs once, before the first request: for tables that all
 * requests use.
 */
#define EW_STEP_SETUP(process, description, setup) \
	ew_arena ew_request; \
	EW_EXPORT("edgewise_step_v1") void ew_export_step(void) { setup(); } \
	EW_EXPORT("edgewise_alloc") void *ew_export_alloc(uint32_t size, uint32_t align) { return ew_alloc(size, align); } \
	EW_EXPORT("edgewise_reset") void ew_export_reset(void) { ew_reset(); } \
	EW_EXPORT("edgewise_describe") const void *ew_export_describe(void) { \
		static const struct { uint32_t len; char json[sizeof(description)]; } text = {sizeof(description) - 1, description}; \
		return &text; \
	} \
	EW_EXPORT("edgewise_process") const ew_list *ew_export_process(const ew_list *inputs) { \
		ew_list *outputs = (ew_list *)process(inputs); \
		if (outputs) outputs->capacity = 0; \
		return outputs; \
	}

static inline void ew_no_setup(void) {}
#define EW_STEP(process, description) EW_STEP_SETUP(process, description, ew_no_setup)

#endif
