// NVML, opened at run time. One call reads everything about one device.
#ifndef EDGEWISE_NVML_H
#define EDGEWISE_NVML_H

#include <stdint.h>

typedef int32_t nv_result;
typedef void *nv_device;

enum {
	NV_UTILIZATION, NV_MEMORY_UTILIZATION, NV_ENCODER, NV_DECODER, // percent
	NV_MEMORY_TOTAL, NV_MEMORY_USED,                               // bytes
	NV_TEMPERATURE,                                                // degrees Celsius
	NV_POWER, NV_POWER_LIMIT,                                      // milliwatts
	NV_ENERGY,                                                     // millijoules since the driver was loaded
	NV_CLOCK_GRAPHICS, NV_CLOCK_SM, NV_CLOCK_MEMORY,               // megahertz
	NV_CLOCK_GRAPHICS_MAX, NV_CLOCK_SM_MAX, NV_CLOCK_MEMORY_MAX,
	NV_FAN,                                                        // percent
	NV_REASONS,                                                    // a bit for each reason of a lower clock
	NV_ECC,                                                        // uncorrected memory errors
	NV_LINK_GENERATION, NV_LINK_WIDTH,
	NV_VALUES
};

// nv_sample has a bit in present for each value that the device has.
typedef struct nv_sample {
	uint64_t present;
	double value[NV_VALUES];
} nv_sample;

typedef struct nv_library nv_library;

// nv_open loads a library. It returns NULL and a message to be freed when there is none or it is not NVML.
nv_library *nv_open(const char *name, char **message);
nv_result nv_init(nv_library *l);
const char *nv_text(nv_library *l, nv_result r);
nv_result nv_count(nv_library *l, unsigned *n);
nv_result nv_handle(nv_library *l, unsigned index, nv_device *d);
nv_result nv_uuid(nv_library *l, nv_device d, char *text, unsigned size);
// nv_read returns the error that says that the device is gone; a value that a device does not have is no error.
nv_result nv_read(nv_library *l, nv_device d, nv_sample *s);

#endif
