// NVML for tests. Every value comes from the file named by FAKEGPU_NVML, which is read for each call: lines of "name value".
// A value that is not there is not supported. "fail N" makes every call on a device return N.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int text(const char *name, char *to, unsigned size) {
	const char *path = getenv("FAKEGPU_NVML");
	FILE *f = path == NULL ? NULL : fopen(path, "r");
	char key[64], value[128];
	int r = 3;
	while (f != NULL && fscanf(f, "%63s %127[^\n]\n", key, value) == 2)
		if (strcmp(key, name) == 0) {
			snprintf(to, size, "%s", value);
			r = 0;
		}
	if (f != NULL) fclose(f);
	return r;
}

static int failing(void) {
	char s[32];
	return text("fail", s, sizeof s) == 0 ? atoi(s) : 0;
}

static int number(const char *name, unsigned long long *v) {
	char s[64];
	int r = failing();
	if (r == 0) r = text(name, s, sizeof s);
	if (r == 0) *v = strtoull(s, NULL, 0);
	return r;
}

static int small(const char *name, unsigned *v) {
	unsigned long long n;
	int r = number(name, &n);
	if (r == 0) *v = (unsigned)n;
	return r;
}

typedef struct {
	unsigned version;
	unsigned long long total, reserved, unused, used;
} memory_v2;
typedef struct {
	unsigned gpu, memory;
} utilization;

int nvmlInit_v2(void) {
	char s[32];
	return text("init", s, sizeof s) == 0 ? atoi(s) : 0;
}
const char *nvmlErrorString(int r) { return r == 9 ? "Driver Not Loaded" : r == 15 ? "GPU is lost" : r == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned *n) {
	if (small("count", n) != 0) *n = 1;
	return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { return *d = (void *)(unsigned long)(i + 1), 0; }
int nvmlDeviceGetUUID(void *d, char *to, unsigned size) { return snprintf(to, size, "GPU-00000000-0000-0000-0000-%012lx", (unsigned long)d - 1), 0; }
int nvmlDeviceGetMemoryInfo_v2(void *d, memory_v2 *m) {
	(void)d;
	if (m->version != (40 | 2 << 24)) return 25;
	int r = number("memory_total", &m->total);
	return r != 0 ? r : number("memory_used", &m->used);
}
int nvmlDeviceGetUtilizationRates(void *d, utilization *u) {
	(void)d;
	int r = small("utilization", &u->gpu);
	return r != 0 ? r : small("memory_utilization", &u->memory);
}
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *v) { return (void)d, sensor != 0 ? 2 : small("temperature", v); }
int nvmlDeviceGetPowerUsage(void *d, unsigned *v) { return (void)d, small("power", v); }
int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *v) { return (void)d, small("power_limit", v); }
int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *v) { return (void)d, number("energy", v); }
int nvmlDeviceGetClockInfo(void *d, int which, unsigned *v) { return (void)d, small(which == 0 ? "clock_graphics" : which == 1 ? "clock_sm" : "clock_memory", v); }
int nvmlDeviceGetMaxClockInfo(void *d, int which, unsigned *v) { return (void)d, small(which == 0 ? "max_clock_graphics" : which == 1 ? "max_clock_sm" : "max_clock_memory", v); }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *v) { return (void)d, number("reasons", v); }
int nvmlDeviceGetFanSpeed_v2(void *d, unsigned fan, unsigned *v) { return (void)d, fan != 0 ? 2 : small("fan", v); }
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *v) { return (void)d, kind != 1 || counter != 0 ? 2 : number("ecc", v); }
