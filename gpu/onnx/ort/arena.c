#include "arena.h"
#include "call.h"

// Slots of the table, counted in the header of API version 24.
enum {
	CREATE_ENV = 3,
	CREATE_CPU_MEMORY_INFO = 69,
	RELEASE_ENV = 92,
	RELEASE_MEMORY_INFO = 94,
	CREATE_ALLOCATOR = 131,
	RELEASE_ALLOCATOR = 132,
	REGISTER_ALLOCATOR = 144,
	RELEASE_ARENA_CFG = 157,
	CREATE_ARENA_CFG = 164,
	GET_KEY_VALUE = 297,
	RELEASE_KEY_VALUES = 300,
	GET_STATS = 319,
};

enum { LEVEL_FATAL = 4, ARENA_ALLOCATOR = 1, MEMORY_DEFAULT = 0 };

static ew_error memory_info(const ew_api *api, void **memory) {
	return take(api, CALL(CREATE_CPU_MEMORY_INFO, status *, int, int, void **)(ARENA_ALLOCATOR, MEMORY_DEFAULT, memory));
}

static ew_error register_arena(const ew_api *api, void *env, const void *config) {
	void *memory;
	ew_error e = memory_info(api, &memory);
	if (e.code != 0) return e;
	e = take(api, CALL(REGISTER_ALLOCATOR, status *, void *, const void *, const void *)(env, memory, config));
	CALL(RELEASE_MEMORY_INFO, void, void *)(memory);
	return e;
}

ew_error ew_arena_share(const ew_api *api, const char *const *keys, const size_t *values, size_t n) {
	void *env, *config;
	// The process has one environment: this takes another reference to it.
	TRY(CALL(CREATE_ENV, status *, int, const char *, void **)(LEVEL_FATAL, "edgewise", &env));
	ew_error e = take(api, CALL(CREATE_ARENA_CFG, status *, const char *const *, const size_t *, size_t, void **)(keys, values, n, &config));
	if (e.code == 0) {
		e = register_arena(api, env, config);
		CALL(RELEASE_ARENA_CFG, void, void *)(config);
	}
	CALL(RELEASE_ENV, void, void *)(env);
	return e;
}

static int64_t number(const ew_api *api, const void *pairs, const char *key) {
	const char *text = CALL(GET_KEY_VALUE, const char *, const void *, const char *)(pairs, key);
	return text == NULL ? 0 : strtoll(text, NULL, 10);
}

static ew_error read_unused(const ew_api *api, const void *allocator, int64_t *unused) {
	void *pairs;
	TRY(CALL(GET_STATS, status *, const void *, void **)(allocator, &pairs));
	*unused = number(api, pairs, "TotalAllocated") - number(api, pairs, "InUse");
	CALL(RELEASE_KEY_VALUES, void, void *)(pairs);
	return (ew_error){0, NULL};
}

ew_error ew_arena_unused(const ew_api *api, void *session, int64_t *unused) {
	void *memory, *allocator;
	ew_error e = memory_info(api, &memory);
	if (e.code != 0) return e;
	e = take(api, CALL(CREATE_ALLOCATOR, status *, void *, const void *, void **)(session, memory, &allocator));
	CALL(RELEASE_MEMORY_INFO, void, void *)(memory);
	if (e.code != 0) return e;
	e = read_unused(api, allocator, unused);
	CALL(RELEASE_ALLOCATOR, void, void *)(allocator);
	return e;
}
