package gpustub

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// bodies are the functions that must do something. All others return 0.
var bodies = map[string]string{
	"__cudaRegisterFatBinary":        "void *__cudaRegisterFatBinary(void *x) { static void *p; return &p; }",
	"cudaGetDeviceCount":             "int cudaGetDeviceCount(int *n) { return *n = 8, 0; }",
	"cudaGetDevice":                  "int cudaGetDevice(int *n) { return *n = device, 0; }",
	"cudaSetDevice":                  "int cudaSetDevice(int n) { return device = n, 0; }",
	"cudaGetDeviceProperties":        "int cudaGetDeviceProperties(void *p, int d) { memset(p, 0, 1008); strcpy(p, \"Fake GPU\"); ((int *)((char *)p + 360))[0] = 9; return 0; }",
	"cudaDeviceGetAttribute":         "int cudaDeviceGetAttribute(int *v, int a, int d) { return *v = a == 75 ? 9 : a == 76 ? 0 : a == 16 ? 132 : 1024, 0; }",
	"cudaDriverGetVersion":           "int cudaDriverGetVersion(int *v) { return *v = 13000, 0; }",
	"cudaRuntimeGetVersion":          "int cudaRuntimeGetVersion(int *v) { return *v = 13000, 0; }",
	"cudaMemGetInfo":                 "int cudaMemGetInfo(size_t *f, size_t *t) { return *f = *t = 1UL << 33, 0; }",
	"cudaMalloc":                     "int cudaMalloc(void **p, size_t n) { say(\"malloc %zu\\n\", n); if (getenv(\"GPUSTUB_OOM\")) return 2; return (*p = aligned_alloc(256, (n + 255) & ~255UL)) ? 0 : 2; }",
	"cudaFree":                       "int cudaFree(void *p) { return free(p), 0; }",
	"cudaHostAlloc":                  "int cudaHostAlloc(void **p, size_t n, unsigned f) { return *p = aligned_alloc(4096, (n + 4095) & ~4095UL), 0; }",
	"cudaMallocHost":                 "int cudaMallocHost(void **p, size_t n) { return *p = aligned_alloc(4096, (n + 4095) & ~4095UL), 0; }",
	"cudaFreeHost":                   "int cudaFreeHost(void *p) { return free(p), 0; }",
	"cudaMemcpy":                     "int cudaMemcpy(void *d, const void *s, size_t n, int k) { say(\"memcpy %zu\\n\", n); return memcpy(d, s, n), 0; }",
	"cudaMemcpyAsync":                "int cudaMemcpyAsync(void *d, const void *s, size_t n, int k, void *st) { say(\"memcpyAsync %zu on %lu\\n\", n, (unsigned long)st); return memcpy(d, s, n), 0; }",
	"cudaMemset":                     "int cudaMemset(void *d, int v, size_t n) { return memset(d, v, n), 0; }",
	"cudaMemsetAsync":                "int cudaMemsetAsync(void *d, int v, size_t n, void *s) { return memset(d, v, n), 0; }",
	"cudaStreamCreate":               "int cudaStreamCreate(void **s) { say(\"stream\\n\"); return *s = malloc(8), 0; }",
	"cudaStreamCreateWithFlags":      "int cudaStreamCreateWithFlags(void **s, unsigned f) { say(\"stream\\n\"); return *s = malloc(8), 0; }",
	"cudaStreamSynchronize":          "int cudaStreamSynchronize(void *s) { say(\"wait for %lu\\n\", (unsigned long)s); return 0; }",
	"cudaStreamDestroy":              "int cudaStreamDestroy(void *s) { return free(s), 0; }",
	"cudaStreamIsCapturing":          "int cudaStreamIsCapturing(void *s, int *v) { return *v = 0, 0; }",
	"cudaStreamBeginCapture":         "int cudaStreamBeginCapture(void *s, int m) { say(\"capture\\n\"); return 0; }",
	"cudaStreamEndCapture":           "int cudaStreamEndCapture(void *s, void **g) { return *g = malloc(8), 0; }",
	"cudaGraphInstantiate":           "int cudaGraphInstantiate(void **e, void *g, unsigned long long f) { return *e = malloc(8), 0; }",
	"cudaGraphLaunch":                "int cudaGraphLaunch(void *e, void *s) { say(\"graph on %lu\\n\", (unsigned long)s); return 0; }",
	"cudaEventCreate":                "int cudaEventCreate(void **e) { return *e = malloc(8), 0; }",
	"cudaEventCreateWithFlags":       "int cudaEventCreateWithFlags(void **e, unsigned f) { return *e = malloc(8), 0; }",
	"cudaEventDestroy":               "int cudaEventDestroy(void *e) { return free(e), 0; }",
	"cudaLaunchKernel":               "int cudaLaunchKernel(const void *f, unsigned long long a, unsigned b, unsigned long long c, unsigned d, void **args, size_t m, void *s) { say(\"kernel\\n\"); return 0; }",
	"cudaGetErrorString":             "const char *cudaGetErrorString(int e) { return \"stub error\"; }",
	"cudaGetErrorName":               "const char *cudaGetErrorName(int e) { return \"cudaErrorStub\"; }",
	"cublasCreate_v2":                "int cublasCreate_v2(void **h) { return *h = malloc(8), 0; }",
	"cublasLtCreate":                 "int cublasLtCreate(void **h) { return *h = malloc(8), 0; }",
	"cublasGetStatusName":            "const char *cublasGetStatusName(int e) { return \"STUB\"; }",
	"cublasGetStatusString":          "const char *cublasGetStatusString(int e) { return \"STUB\"; }",
	"cublasLtGetStatusString":        "const char *cublasLtGetStatusString(int e) { return \"STUB\"; }",
	"cublasLtMatmulAlgoGetHeuristic": "int cublasLtMatmulAlgoGetHeuristic(void *a, void *b, void *c, void *d, void *e, void *f, void *g, int n, void *r, int *found) { return *found = 1, 0; }",
}

const head = `#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static __thread int device;
// say appends a line to the file named by GPUSTUB_LOG.
static void say(const char *format, ...) {
	const char *path = getenv("GPUSTUB_LOG");
	FILE *f = path == NULL ? NULL : fopen(path, "a");
	if (f == NULL) return;
	va_list list;
	va_start(list, format);
	vfprintf(f, format, list);
	va_end(list);
	fclose(f);
}
`

// Make writes libraries into dir that have everything that a provider needs of NVIDIA's, the driver excepted.
func Make(provider, dir string) error {
	f, err := elf.Open(provider)
	if err != nil {
		return err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return err
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, library := range needed {
		if !strings.HasPrefix(library, "libcu") || strings.HasPrefix(library, "libcuda.") {
			continue
		}
		var own []string
		for _, s := range symbols {
			if s.Library == library || s.Version == library {
				own = append(own, s.Name)
			}
		}
		slices.Sort(own)
		if err := compile(dir, library, slices.Compact(own)); err != nil {
			return err
		}
	}
	return nil
}

// compile makes one library, whose symbols have its name as their version, as NVIDIA's do.
func compile(dir, library string, symbols []string) error {
	var source strings.Builder
	source.WriteString(head)
	for _, name := range symbols {
		if body, ok := bodies[name]; ok {
			source.WriteString(body + "\n")
			continue
		}
		fmt.Fprintf(&source, "int %s(void) { return 0; }\n", name)
	}
	c, script := filepath.Join(dir, library+".c"), filepath.Join(dir, library+".map")
	if err := os.WriteFile(c, []byte(source.String()), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(script, []byte(library+" { global: *; };\n"), 0o600); err != nil {
		return err
	}
	out, err := exec.Command("cc", "-w", "-O1", "-shared", "-fPIC", "-Wl,-soname,"+library, "-Wl,--version-script="+script,
		"-o", filepath.Join(dir, library), c).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cc: %w\n%s", err, out)
	}
	return nil
}
