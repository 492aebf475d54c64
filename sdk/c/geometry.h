/* geometry.h: points, quads and rectangles at any angle, in pixels. */
#ifndef EDGEWISE_GEOMETRY_H
#define EDGEWISE_GEOMETRY_H

#include <math.h>

#include "edgewise.h"

typedef struct { double x, y; } ew_point;

static inline ew_point ew_add(ew_point p, ew_point q) { return (ew_point){p.x + q.x, p.y + q.y}; }
static inline ew_point ew_sub(ew_point p, ew_point q) { return (ew_point){p.x - q.x, p.y - q.y}; }
static inline ew_point ew_times(ew_point p, double f) { return (ew_point){p.x * f, p.y * f}; }
static inline double ew_dot(ew_point p, ew_point q) { return p.x * q.x + p.y * q.y; }
static inline double ew_cross(ew_point p, ew_point q) { return p.x * q.y - p.y * q.x; }
static inline double ew_length(ew_point p) { return hypot(p.x, p.y); }

/* A region with four corners, clockwise as one sees it, from the top left corner of what is in it. */
typedef struct { ew_point corner[4]; } ew_quad;

static inline double ew_quad_width(const ew_quad *q) { return fmax(ew_length(ew_sub(q->corner[1], q->corner[0])), ew_length(ew_sub(q->corner[2], q->corner[3]))); }
static inline double ew_quad_height(const ew_quad *q) { return fmax(ew_length(ew_sub(q->corner[3], q->corner[0])), ew_length(ew_sub(q->corner[2], q->corner[1]))); }

/* The same region with corner n as the first. */
static inline ew_quad ew_rotated(const ew_quad *q, int n) {
	return (ew_quad){{q->corner[n % 4], q->corner[(n + 1) % 4], q->corner[(n + 2) % 4], q->corner[(n + 3) % 4]}};
}

/* A rectangle at any angle: along is the unit vector of the sides that width counts. */
typedef struct {
	ew_point center, along;
	double width, height;
} ew_rectangle;

/* The corners of the convex hull of n points, sorted by x, then y, in order. hull has room for 2n + 1. Returns how many. */
static inline uint32_t ew_hull(const ew_point *points, uint32_t n, ew_point *hull) {
	uint32_t count = 0;
	for (int way = 0; way < 2; way++) {
		uint32_t floor = way == 0 ? 0 : count - 1, steps = way == 0 ? n : n - 1;
		for (uint32_t i = 0; i < steps; i++) {
			ew_point p = points[way == 0 ? i : n - 2 - i];
			while (count >= floor + 2 && ew_cross(ew_sub(hull[count - 1], hull[count - 2]), ew_sub(p, hull[count - 1])) <= 0) count--;
			hull[count++] = p;
		}
	}
	return count > 1 ? count - 1 : count;
}

/* The rectangle around points that has sides along a unit vector. */
static inline ew_rectangle ew_fit(const ew_point *points, uint32_t n, ew_point along) {
	ew_point across = {-along.y, along.x}, low = {INFINITY, INFINITY}, high = {-INFINITY, -INFINITY};
	for (uint32_t i = 0; i < n; i++) {
		double u = ew_dot(points[i], along), v = ew_dot(points[i], across);
		low = (ew_point){fmin(low.x, u), fmin(low.y, v)};
		high = (ew_point){fmax(high.x, u), fmax(high.y, v)};
	}
	ew_point middle = ew_times(ew_add(low, high), 0.5);
	return (ew_rectangle){ew_add(ew_times(along, middle.x), ew_times(across, middle.y)), along, high.x - low.x, high.y - low.y};
}

/* The rectangle of the smallest area around a convex hull: one side of it lies on a side of the hull. */
static inline ew_rectangle ew_smallest(const ew_point *hull, uint32_t n) {
	ew_rectangle best = {hull[0], {1, 0}, 0, 0};
	double smallest = INFINITY;
	for (uint32_t i = 0; i < n; i++) {
		ew_point side = ew_sub(hull[(i + 1) % n], hull[i]);
		if (ew_length(side) == 0) continue;
		ew_rectangle r = ew_fit(hull, n, ew_times(side, 1 / ew_length(side)));
		if (r.width * r.height < smallest) best = r, smallest = r.width * r.height;
	}
	return best;
}

/* The corners, from the upper one of the two on the left: right for what is turned by less than 45 degrees. */
static inline ew_quad ew_corners(const ew_rectangle *r) {
	ew_point u = ew_times(r->along, r->width / 2), v = ew_times((ew_point){-r->along.y, r->along.x}, r->height / 2);
	ew_quad q = {{ew_sub(ew_sub(r->center, u), v), ew_sub(ew_add(r->center, u), v), ew_add(ew_add(r->center, u), v), ew_add(ew_sub(r->center, u), v)}};
	int first = 0;
	for (int i = 1; i < 4; i++)
		if (q.corner[i].x + q.corner[i].y < q.corner[first].x + q.corner[first].y) first = i;
	return ew_rotated(&q, first);
}

#endif
