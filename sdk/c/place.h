/* place.h: coordinates of a model's input back to the picture, by the tensor "map" that letterbox and face_input make. */
#ifndef EDGEWISE_PLACE_H
#define EDGEWISE_PLACE_H

#include "edgewise.h"

/* x in the model's input is x in the picture times scale_x plus pad_x. */
typedef struct {
	float scale_x, scale_y, pad_x, pad_y, width, height;
} ew_map;

/* Reads row i of the input "map", FP32 [n, 6]; without one, places stay as they are. False after ew_fail. */
static inline bool ew_read_map(const ew_list *inputs, uint32_t i, ew_map *map) {
	const ew_tensor *t = ew_find(inputs, "map");
	*map = (ew_map){1, 1, 0, 0, 1e9f, 1e9f};
	if (!t) return true;
	if (t->dtype != EW_FP32 || t->rank != 2 || t->shape[0] <= (int64_t)i || t->shape[1] != 6) {
		ew_fail("input \"map\": want FP32 [%u, 6] at least", i + 1);
		return false;
	}
	memcpy(map, ew_f32(t) + 6 * (size_t)i, sizeof *map);
	if (map->scale_x > 0 && map->scale_y > 0) return true;
	ew_fail("input \"map\": row %u has a scale that is not above 0", i);
	return false;
}

static inline float ew_back_x(const ew_map *m, float x) { return (x - m->pad_x) / m->scale_x; }
static inline float ew_back_y(const ew_map *m, float y) { return (y - m->pad_y) / m->scale_y; }

static inline float ew_clamp(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

#endif
