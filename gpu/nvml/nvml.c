#define _GNU_SOURCE
#include "nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { GPU_LOST = 15, MEMORY_V2 = 40 | 2 << 24 };

typedef struct {
	unsigned version;
	unsigned long long total, reserved, unused, used;
} memory_v2;
typedef struct {
	unsigned long long total, unused, used;
} memory_v1;
typedef struct {
	unsigned gpu, memory;
} utilization;

struct nv_library {
	nv_result (*init)(void);
	const char *(*error)(nv_result);
	nv_result (*count)(unsigned *);
	nv_result (*handle)(unsigned, nv_device *);
	nv_result (*uuid)(nv_device, char *, unsigned);
	// what follows may be missing
	nv_result (*memory2)(nv_device, memory_v2 *);
	nv_result (*memory1)(nv_device, memory_v1 *);
	nv_result (*rates)(nv_device, utilization *);
	nv_result (*temperature)(nv_device, int, unsigned *);
	nv_result (*power)(nv_device, unsigned *);
	nv_result (*limit)(nv_device, unsigned *);
	nv_result (*energy)(nv_device, unsigned long long *);
	nv_result (*clock)(nv_device, int, unsigned *);
	nv_result (*max_clock)(nv_device, int, unsigned *);
	nv_result (*reasons)(nv_device, unsigned long long *);
	nv_result (*fan)(nv_device, unsigned, unsigned *);
	nv_result (*generation)(nv_device, unsigned *);
	nv_result (*width)(nv_device, unsigned *);
	nv_result (*ecc)(nv_device, int, int, unsigned long long *);
	nv_result (*encoder)(nv_device, unsigned *, unsigned *);
	nv_result (*decoder)(nv_device, unsigned *, unsigned *);
};

nv_library *nv_open(const char *name, char **message) {
	void *h = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (h == NULL) {
		*message = strdup(dlerror());
		return NULL;
	}
	nv_library *l = calloc(1, sizeof *l);
	if (l == NULL) return NULL;
#define FIND(field, symbol) *(void **)&l->field = dlsym(h, symbol)
	FIND(init, "nvmlInit_v2");
	FIND(error, "nvmlErrorString");
	FIND(count, "nvmlDeviceGetCount_v2");
	FIND(handle, "nvmlDeviceGetHandleByIndex_v2");
	FIND(uuid, "nvmlDeviceGetUUID");
	FIND(memory2, "nvmlDeviceGetMemoryInfo_v2");
	FIND(memory1, "nvmlDeviceGetMemoryInfo");
	FIND(rates, "nvmlDeviceGetUtilizationRates");
	FIND(temperature, "nvmlDeviceGetTemperature");
	FIND(power, "nvmlDeviceGetPowerUsage");
	FIND(limit, "nvmlDeviceGetEnforcedPowerLimit");
	FIND(energy, "nvmlDeviceGetTotalEnergyConsumption");
	FIND(clock, "nvmlDeviceGetClockInfo");
	FIND(max_clock, "nvmlDeviceGetMaxClockInfo");
	FIND(reasons, "nvmlDeviceGetCurrentClocksEventReasons");
	if (l->reasons == NULL) FIND(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
	FIND(fan, "nvmlDeviceGetFanSpeed_v2");
	FIND(generation, "nvmlDeviceGetCurrPcieLinkGeneration");
	FIND(width, "nvmlDeviceGetCurrPcieLinkWidth");
	FIND(ecc, "nvmlDeviceGetTotalEccErrors");
	FIND(encoder, "nvmlDeviceGetEncoderUtilization");
	FIND(decoder, "nvmlDeviceGetDecoderUtilization");
	if (!l->init || !l->error || !l->count || !l->handle || !l->uuid) {
		*message = strdup("it is not NVML, or too old a one");
		free(l);
		dlclose(h);
		return NULL;
	}
	return l;
}

nv_result nv_init(nv_library *l) { return l->init(); }
const char *nv_text(nv_library *l, nv_result r) { return l->error(r); }
nv_result nv_count(nv_library *l, unsigned *n) { return l->count(n); }
nv_result nv_handle(nv_library *l, unsigned index, nv_device *d) { return l->handle(index, d); }
nv_result nv_uuid(nv_library *l, nv_device d, char *text, unsigned size) { return l->uuid(d, text, size); }

static void put(nv_sample *s, int which, double value) {
	s->present |= 1ull << which;
	s->value[which] = value;
}

static int memory(nv_library *l, nv_device d, nv_sample *s) {
	memory_v2 two = {.version = MEMORY_V2};
	memory_v1 one = {0};
	nv_result r = l->memory2 == NULL ? -1 : l->memory2(d, &two);
	if (r == 0) {
		put(s, NV_MEMORY_TOTAL, (double)two.total);
		put(s, NV_MEMORY_USED, (double)two.used);
	} else if (l->memory1 != NULL && (r = l->memory1(d, &one)) == 0) {
		put(s, NV_MEMORY_TOTAL, (double)one.total);
		put(s, NV_MEMORY_USED, (double)one.used);
	}
	return r;
}

nv_result nv_read(nv_library *l, nv_device d, nv_sample *s) {
	static const int clocks[] = {NV_CLOCK_GRAPHICS, NV_CLOCK_SM, NV_CLOCK_MEMORY};
	memset(s, 0, sizeof *s);
	unsigned u, period;
	unsigned long long big;
	utilization rates;
	if (memory(l, d, s) == GPU_LOST) return GPU_LOST;
	if (l->rates && l->rates(d, &rates) == 0) {
		put(s, NV_UTILIZATION, rates.gpu);
		put(s, NV_MEMORY_UTILIZATION, rates.memory);
	}
	if (l->encoder && l->encoder(d, &u, &period) == 0) put(s, NV_ENCODER, u);
	if (l->decoder && l->decoder(d, &u, &period) == 0) put(s, NV_DECODER, u);
	if (l->temperature && l->temperature(d, 0, &u) == 0) put(s, NV_TEMPERATURE, u);
	if (l->power && l->power(d, &u) == 0) put(s, NV_POWER, u);
	if (l->limit && l->limit(d, &u) == 0) put(s, NV_POWER_LIMIT, u);
	if (l->energy && l->energy(d, &big) == 0) put(s, NV_ENERGY, (double)big);
	for (int i = 0; i < 3; i++) {
		if (l->clock && l->clock(d, i, &u) == 0) put(s, clocks[i], u);
		if (l->max_clock && l->max_clock(d, i, &u) == 0) put(s, clocks[i] + 3, u);
	}
	if (l->fan && l->fan(d, 0, &u) == 0) put(s, NV_FAN, u);
	if (l->reasons && l->reasons(d, &big) == 0) put(s, NV_REASONS, (double)big);
	if (l->ecc && l->ecc(d, 1, 0, &big) == 0) put(s, NV_ECC, (double)big);
	if (l->generation && l->generation(d, &u) == 0) put(s, NV_LINK_GENERATION, u);
	if (l->width && l->width(d, &u) == 0) put(s, NV_LINK_WIDTH, u);
	return 0;
}
