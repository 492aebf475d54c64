// A CUDA driver for tests. Device memory is host memory filled with 0xCD. Work on a stream is done later, by a thread of that
// stream, so that what does not wait for it reads 0xCD. Copies and kernels take engines, as on a device: one for each
// direction and one for kernels. What a real driver would not survive is counted as misuse.
#define _GNU_SOURCE
#include <stdio.h>

#include "queue.h"

R cuInit(unsigned flags) {
	static int64_t revived;
	if (revived != SET(REVIVED)) revived = SET(REVIVED), bury();
	R r = (R)SET(INIT_CODE);
	if (r == 0 && SET(DEVICES) == 0) r = 100;
	if (r == 0) r = fault("cuInit");
	if (r == 0) initialized = 1;
	return flags != 0 ? 1 : r;
}
R cuDriverGetVersion(int *v) {
	R r = fault("cuDriverGetVersion");
	return r != 0 ? r : (*v = (int)SET(DRIVER_VERSION), 0);
}
R cuGetErrorName(R r, const char **s) { return *s = r == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL, *s != NULL ? 0 : 1; }
R cuGetErrorString(R r, const char **s) { return *s = r == 700 ? "an illegal memory access was encountered" : NULL, *s != NULL ? 0 : 1; }
R cuDeviceGetCount(int *n) {
	ENTER("cuDeviceGetCount");
	return *n = (int)SET(DEVICES), 0;
}
R cuDeviceGet(int *d, int i) {
	ENTER("cuDeviceGet");
	return i < 0 || i >= SET(DEVICES) ? 101 : (*d = i, 0);
}
R cuDeviceGetName(char *s, int n, int d) {
	ENTER("cuDeviceGetName");
	return snprintf(s, (size_t)n, "Fake GPU %d", d), 0;
}
R cuDeviceGetUuid_v2(unsigned char *u, int d) {
	ENTER("cuDeviceGetUuid_v2");
	memset(u, 0, 16);
	return u[15] = (unsigned char)d, 0;
}
R cuDeviceTotalMem_v2(size_t *n, int d) {
	(void)d;
	ENTER("cuDeviceTotalMem_v2");
	return *n = (size_t)SET(MEMORY), 0;
}
R cuDeviceGetPCIBusId(char *s, int n, int d) {
	ENTER("cuDeviceGetPCIBusId");
	return snprintf(s, (size_t)n, "0000:%02x:00.0", d + 1), 0;
}
R cuDeviceGetAttribute(int *v, int a, int d) {
	(void)d;
	ENTER("cuDeviceGetAttribute");
	switch (a) {
	case 16: *v = 8; break;
	case 18: *v = (int)SET(INTEGRATED); break;
	case 19: *v = 1; break;
	case 40: *v = 2; break;
	case 75: *v = (int)SET(CAPABILITY) / 10; break;
	case 76: *v = (int)SET(CAPABILITY) % 10; break;
	default: COUNT(MISUSE, 1); return 1;
	}
	return 0;
}
R cuDevicePrimaryCtxRetain(H *c, int d) {
	ENTER("cuDevicePrimaryCtxRetain");
	COUNT(CONTEXTS, 1);
	return *c = (H)(uintptr_t)(0xC0DE + d), 0;
}
R cuDevicePrimaryCtxRelease_v2(int d) {
	(void)d;
	ENTER("cuDevicePrimaryCtxRelease_v2");
	COUNT(CONTEXTS, -1);
	return 0;
}
R cuCtxSetCurrent(H c) {
	ENTER("cuCtxSetCurrent");
	return current = c, 0;
}

static void *memory(size_t n, size_t to) {
	n = (n + to - 1) / to * to;
	void *p = aligned_alloc(to, n);
	if (p != NULL) memset(p, 0xCD, n);
	return p;
}

R cuMemAlloc_v2(P *p, size_t n) {
	ENTER_CONTEXT("cuMemAlloc_v2");
	if (n == 0) return COUNT(MISUSE, 1), 1;
	if (COUNT(BYTES, 0) + SET(USED) + (int64_t)n > SET(MEMORY)) return 2;
	void *m = memory(n, 256);
	if (m == NULL) return 2;
	pthread_mutex_lock(&lock);
	add(m, n, DEVICE);
	pthread_mutex_unlock(&lock);
	COUNT(ALLOCS, 1), COUNT(BYTES, (int64_t)n);
	return *p = (P)(uintptr_t)m, 0;
}
R cuMemFree_v2(P p) {
	ENTER_CONTEXT("cuMemFree_v2");
	pthread_mutex_lock(&lock);
	bool ok = drop((void *)(uintptr_t)p, DEVICE);
	pthread_mutex_unlock(&lock);
	if (ok) COUNT(ALLOCS, -1);
	return ok ? 0 : 1;
}
R cuMemHostAlloc(void **p, size_t n, unsigned flags) {
	ENTER_CONTEXT("cuMemHostAlloc");
	if (n == 0 || flags > 7) return COUNT(MISUSE, 1), 1;
	if ((*p = memory(n, 4096)) == NULL) return 2;
	pthread_mutex_lock(&lock);
	add(*p, n, PINNED);
	pthread_mutex_unlock(&lock);
	COUNT(HOST, 1);
	return 0;
}
R cuMemFreeHost(void *p) {
	ENTER_CONTEXT("cuMemFreeHost");
	pthread_mutex_lock(&lock);
	bool ok = drop(p, PINNED);
	pthread_mutex_unlock(&lock);
	if (ok) COUNT(HOST, -1);
	return ok ? 0 : 1;
}
R cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
	ENTER_CONTEXT("cuMemHostRegister_v2");
	if (n == 0 || flags > 15 || (uintptr_t)p % 4096 != 0) return COUNT(MISUSE, 1), 1;
	pthread_mutex_lock(&lock);
	add(p, n, OWNED);
	pthread_mutex_unlock(&lock);
	COUNT(REGISTERED, 1);
	return 0;
}
R cuMemHostUnregister(void *p) {
	ENTER_CONTEXT("cuMemHostUnregister");
	pthread_mutex_lock(&lock);
	bool ok = drop(p, OWNED);
	pthread_mutex_unlock(&lock);
	if (ok) COUNT(REGISTERED, -1);
	return ok ? 0 : 1;
}
R cuMemHostGetDevicePointer_v2(P *d, void *p, unsigned flags) {
	ENTER_CONTEXT("cuMemHostGetDevicePointer_v2");
	if (flags != 0 || SET(INTEGRATED) == 0) return 1;
	return *d = (P)(uintptr_t)p, 0;
}

// copy begins a copy. Host memory that is not pinned is copied at once, as by a driver that stages it, and counted.
static R copy(void *to, const void *from, size_t n, H on, int direction) {
	const void *device = direction == TO_DEVICE ? to : from, *host = direction == TO_DEVICE ? from : to;
	COUNT(COPIES, 1);
	pthread_mutex_lock(&lock);
	block *d = find(device, n), *h = direction == COMPUTE ? find(to, n) : find(host, n);
	if (d == NULL || d->kind == PINNED) {
		pthread_mutex_unlock(&lock);
		COUNT(MISUSE, 1);
		lose(700);
		return 700;
	}
	if (h == NULL) {
		COUNT(PAGEABLE, 1);
		if (on != NULL) drain(on);
		memcpy(to, from, n);
	} else {
		push(on, (task){.kind = COPY, .to = to, .from = from, .n = n, .engine = direction});
	}
	pthread_mutex_unlock(&lock);
	return 0;
}
R cuMemcpyHtoDAsync_v2(P to, const void *from, size_t n, H on) {
	ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
	return copy((void *)(uintptr_t)to, from, n, on, TO_DEVICE);
}
R cuMemcpyDtoHAsync_v2(void *to, P from, size_t n, H on) {
	ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
	return copy(to, (const void *)(uintptr_t)from, n, on, TO_HOST);
}
static R copy_now(void *to, const void *from, size_t n, const void *device) {
	pthread_mutex_lock(&lock);
	block *d = find(device, n);
	pthread_mutex_unlock(&lock);
	if (d == NULL) return COUNT(MISUSE, 1), lose(700), 700;
	memcpy(to, from, n);
	return 0;
}
R cuMemcpyHtoD_v2(P to, const void *from, size_t n) {
	ENTER_CONTEXT("cuMemcpyHtoD_v2");
	return copy_now((void *)(uintptr_t)to, from, n, (void *)(uintptr_t)to);
}
R cuMemcpyDtoH_v2(void *to, P from, size_t n) {
	ENTER_CONTEXT("cuMemcpyDtoH_v2");
	return copy_now(to, (void *)(uintptr_t)from, n, (void *)(uintptr_t)from);
}
R cuMemsetD8Async(P to, unsigned char value, size_t n, H on) {
	ENTER_CONTEXT("cuMemsetD8Async");
	pthread_mutex_lock(&lock);
	bool ok = find((void *)(uintptr_t)to, n) != NULL;
	if (ok) push(on, (task){.kind = FILL, .to = (void *)(uintptr_t)to, .n = n, .number = value, .engine = COMPUTE});
	pthread_mutex_unlock(&lock);
	return ok ? 0 : (COUNT(MISUSE, 1), lose(700), 700);
}

R cuStreamCreate(H *out, unsigned flags) {
	ENTER_CONTEXT("cuStreamCreate");
	if (flags > 1) return COUNT(MISUSE, 1), 1;
	stream *s = calloc(1, sizeof *s);
	s->last = &s->first;
	if (pthread_create(&s->thread, NULL, work, s) != 0) return free(s), 2;
	pthread_mutex_lock(&lock);
	s->next = streams, streams = s;
	pthread_mutex_unlock(&lock);
	COUNT(STREAMS, 1);
	return *out = s, 0;
}
R cuStreamDestroy_v2(H h) {
	ENTER_CONTEXT("cuStreamDestroy_v2");
	return end(h), 0;
}
R cuStreamSynchronize(H h) {
	ENTER_CONTEXT("cuStreamSynchronize");
	pthread_mutex_lock(&lock);
	drain(h);
	pthread_mutex_unlock(&lock);
	return sticky;
}
R cuCtxSynchronize(void) {
	ENTER_CONTEXT("cuCtxSynchronize");
	return sticky;
}
R cuStreamWaitEvent(H h, H e, unsigned flags) {
	ENTER_CONTEXT("cuStreamWaitEvent");
	pthread_mutex_lock(&lock);
	push(h, (task){.kind = WAIT, .event = e, .number = ((event *)e)->recorded});
	pthread_mutex_unlock(&lock);
	return flags == 0 ? 0 : 1;
}
R cuEventCreate(H *out, unsigned flags) {
	ENTER_CONTEXT("cuEventCreate");
	COUNT(EVENTS, 1);
	return *out = calloc(1, sizeof(event)), flags > 3 ? 1 : 0;
}
R cuEventDestroy_v2(H e) {
	ENTER_CONTEXT("cuEventDestroy_v2");
	COUNT(EVENTS, -1);
	pthread_mutex_lock(&lock);
	event *gone = e;
	gone->destroyed = true;
	if (gone->pending == 0) free(gone);
	pthread_mutex_unlock(&lock);
	return 0;
}
R cuEventRecord(H h, H on) {
	ENTER_CONTEXT("cuEventRecord");
	event *e = h;
	pthread_mutex_lock(&lock);
	push(on, (task){.kind = RECORD, .event = e, .number = ++e->recorded});
	pthread_mutex_unlock(&lock);
	return 0;
}
R cuEventSynchronize(H h) {
	ENTER_CONTEXT("cuEventSynchronize");
	COUNT(SYNCHRONIZED, 1);
	event *e = h;
	pthread_mutex_lock(&lock);
	int64_t want = e->recorded;
	while (e->reached < want && sticky == 0) {
		await_move();
	}
	pthread_mutex_unlock(&lock);
	return sticky;
}

// ---- kernels: what the driver compiles PTX into, here a table of the same computations in C

void fake_scale(const uint64_t *a, unsigned rows);
void fake_preprocess_f32(const uint64_t *a, unsigned rows);
void fake_preprocess_f16(const uint64_t *a, unsigned rows);

static const struct {
	const char *name;
	void (*code)(const uint64_t *, unsigned);
} kernels[] = {{"scale", fake_scale}, {"preprocess_f32", fake_preprocess_f32}, {"preprocess_f16", fake_preprocess_f16}};

R cuModuleLoadDataEx(H *m, const void *image, unsigned n, int *options, void **values) {
	ENTER_CONTEXT("cuModuleLoadDataEx");
	const char *ptx = image;
	size_t length = strlen(ptx);
	if (strstr(ptx, ".version") == NULL || strstr(ptx, ".target") == NULL || strstr(ptx, ".entry") == NULL || length < 2 || strrchr(ptx, '}') == NULL) {
		for (unsigned i = 0; i < n; i++)
			if (options[i] == 5) strcpy(values[i], "ptxas fatal: unexpected end of input");
		return 218;
	}
	COUNT(MODULES, 1);
	return *m = strdup(ptx), 0;
}
R cuModuleUnload(H m) {
	ENTER_CONTEXT("cuModuleUnload");
	COUNT(MODULES, -1);
	return free(m), 0;
}
R cuModuleGetFunction(H *f, H m, const char *name) {
	ENTER_CONTEXT("cuModuleGetFunction");
	char entry[128];
	snprintf(entry, sizeof entry, ".entry %s(", name);
	if (strstr(m, entry) == NULL) return 500;
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		if (strcmp(kernels[i].name, name) == 0) return *f = (H)&kernels[i], 0;
	return 500;
}
R cuLaunchKernel(H f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, H on, void **arguments, void **extra) {
	ENTER_CONTEXT("cuLaunchKernel");
	if (gx * gy * gz == 0 || bx * by * bz == 0 || bx * by * bz > 1024 || shared > 49152 || extra != NULL) return COUNT(MISUSE, 1), 1;
	typedef __typeof__(kernels[0]) *kernel;
	task t = {.kind = KERNEL, .engine = COMPUTE, .code = ((kernel)f)->code, .rows = gy};
	// The number of arguments is not known here: the caller's words stand in one array of 16.
	memcpy(t.arguments, arguments[0], sizeof t.arguments);
	COUNT(LAUNCHES, 1);
	pthread_mutex_lock(&lock);
	push(on, t);
	pthread_mutex_unlock(&lock);
	return 0;
}
