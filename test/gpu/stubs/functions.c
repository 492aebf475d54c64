// The functions that must do something, each a paragraph of its own. All others return 0.

void *__cudaRegisterFatBinary(void *x) {
	static void *p;
	return &p;
}

int cudaGetDeviceCount(int *n) {
	return *n = 8, 0;
}

int cudaGetDevice(int *n) {
	return *n = device, 0;
}

int cudaSetDevice(int n) {
	return device = n, 0;
}

int cudaGetDeviceProperties(void *p, int d) {
	memset(p, 0, 1008);
	strcpy(p, "Fake GPU");
	((int *)((char *)p + 360))[0] = 9;
	return 0;
}

int cudaDeviceGetAttribute(int *v, int a, int d) {
	return *v = a == 75 ? 9 : a == 76 ? 0 : a == 16 ? 132 : 1024, 0;
}

int cudaDriverGetVersion(int *v) {
	return *v = 13000, 0;
}

int cudaRuntimeGetVersion(int *v) {
	return *v = 13000, 0;
}

int cudaMemGetInfo(size_t *f, size_t *t) {
	return *f = *t = 1UL << 33, 0;
}

int cudaMalloc(void **p, size_t n) {
	say("malloc %zu\n", n);
	if (getenv("GPUSTUB_OOM")) return 2;
	return (*p = aligned_alloc(256, (n + 255) & ~255UL)) ? 0 : 2;
}

int cudaFree(void *p) {
	return free(p), 0;
}

int cudaHostAlloc(void **p, size_t n, unsigned f) {
	return *p = aligned_alloc(4096, (n + 4095) & ~4095UL), 0;
}

int cudaMallocHost(void **p, size_t n) {
	return *p = aligned_alloc(4096, (n + 4095) & ~4095UL), 0;
}

int cudaFreeHost(void *p) {
	return free(p), 0;
}

int cudaMemcpy(void *d, const void *s, size_t n, int k) {
	say("memcpy %zu\n", n);
	return memcpy(d, s, n), 0;
}

int cudaMemcpyAsync(void *d, const void *s, size_t n, int k, void *st) {
	say("memcpyAsync %zu on %lu\n", n, (unsigned long)st);
	return memcpy(d, s, n), 0;
}

int cudaMemset(void *d, int v, size_t n) {
	return memset(d, v, n), 0;
}

int cudaMemsetAsync(void *d, int v, size_t n, void *s) {
	return memset(d, v, n), 0;
}

int cudaStreamCreate(void **s) {
	say("stream\n");
	return *s = malloc(8), 0;
}

int cudaStreamCreateWithFlags(void **s, unsigned f) {
	say("stream\n");
	return *s = malloc(8), 0;
}

int cudaStreamSynchronize(void *s) {
	say("wait for %lu\n", (unsigned long)s);
	return 0;
}

int cudaStreamDestroy(void *s) {
	return free(s), 0;
}

int cudaStreamIsCapturing(void *s, int *v) {
	return *v = 0, 0;
}

int cudaStreamBeginCapture(void *s, int m) {
	say("capture\n");
	return 0;
}

int cudaStreamEndCapture(void *s, void **g) {
	return *g = malloc(8), 0;
}

int cudaGraphInstantiate(void **e, void *g, unsigned long long f) {
	return *e = malloc(8), 0;
}

int cudaGraphLaunch(void *e, void *s) {
	say("graph on %lu\n", (unsigned long)s);
	return 0;
}

int cudaEventCreate(void **e) {
	return *e = malloc(8), 0;
}

int cudaEventCreateWithFlags(void **e, unsigned f) {
	return *e = malloc(8), 0;
}

int cudaEventDestroy(void *e) {
	return free(e), 0;
}

int cudaLaunchKernel(const void *f, unsigned long long a, unsigned b, unsigned long long c, unsigned d,
		void **args, size_t m, void *s) {
	say("kernel\n");
	return 0;
}

const char *cudaGetErrorString(int e) {
	return "stub error";
}

const char *cudaGetErrorName(int e) {
	return "cudaErrorStub";
}

int cublasCreate_v2(void **h) {
	return *h = malloc(8), 0;
}

int cublasLtCreate(void **h) {
	return *h = malloc(8), 0;
}

const char *cublasGetStatusName(int e) {
	return "STUB";
}

const char *cublasGetStatusString(int e) {
	return "STUB";
}

const char *cublasLtGetStatusString(int e) {
	return "STUB";
}

int cublasLtMatmulAlgoGetHeuristic(void *a, void *b, void *c, void *d, void *e, void *f, void *g, int n,
		void *r, int *found) {
	return *found = 1, 0;
}
