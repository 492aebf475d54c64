// What a fake driver knows of memory, and the calls that it is to fail. Included by libcuda.c alone.
#ifndef FAKEGPU_MEMORY_H
#define FAKEGPU_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "control.h"

typedef int32_t R;
typedef uint64_t P;
typedef void *H;

static control_page *page;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static _Atomic int sticky;
static _Atomic int initialized;
static __thread H current;

#define SET(w) atomic_load(&page->word[w])
#define COUNT(w, n) atomic_fetch_add(&control_counts()->word[w], n)

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static int64_t armed, left; // which fault is counted down, and how far it is

__attribute__((constructor)) static void begin(void) {
	page = control_open();
	// A process that may only read the page came after the fault that ended the one before it.
	if (control_counts() != page) armed = SET(ARMED);
}

// writing is held while a task writes to memory: once a device is lost, none does any more.
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

// lose ends the device for this process.
static void lose(R code) {
	pthread_mutex_lock(&writing);
	sticky = code;
	pthread_mutex_unlock(&writing);
	pthread_cond_broadcast(&moved);
}

// fault tells whether this call is the one that is to fail, and counts the calls of the function that is watched.
static R fault(const char *symbol) {
	int s = sticky;
	if (s != 0) return s;
	if (strncmp(page->symbol, symbol, sizeof page->symbol) != 0) return 0;
	COUNT(MATCHED, 1);
	if (SET(FAULT_CODE) == 0) return 0;
	pthread_mutex_lock(&counting);
	if (armed != SET(ARMED)) armed = SET(ARMED), left = SET(FAULT_AFTER);
	bool now = --left == 0;
	pthread_mutex_unlock(&counting);
	if (!now) return 0;
	R code = (R)SET(FAULT_CODE);
	if (SET(FAULT_STICKY) != 0) lose(code);
	return code;
}

#define ENTER(name)                  \
	do {                             \
		if (!initialized) return 3;  \
		R r_ = fault(name);          \
		if (r_ != 0) return r_;      \
	} while (0)
#define ENTER_CONTEXT(name)            \
	do {                               \
		if (current == NULL) {         \
			COUNT(MISUSE, 1);          \
			return 201;                \
		}                              \
		ENTER(name);                   \
	} while (0)

typedef struct block {
	struct block *next;
	char *at;
	size_t size;
	enum { DEVICE, PINNED, OWNED } kind; // OWNED: pinned memory of the caller
} block;

static block *blocks;

static block *find(const void *p, size_t n) {
	for (block *b = blocks; b != NULL; b = b->next)
		if ((char *)p >= b->at && (char *)p + n <= b->at + b->size) return b;
	return NULL;
}

static void add(void *p, size_t n, int kind) {
	block *b = calloc(1, sizeof *b);
	b->at = p, b->size = n, b->kind = kind, b->next = blocks;
	blocks = b;
}

static bool drop(void *p, int kind) {
	for (block **b = &blocks; *b != NULL; b = &(*b)->next)
		if ((*b)->at == (char *)p && (*b)->kind == kind) {
			block *gone = *b;
			*b = gone->next;
			if (kind == DEVICE) COUNT(BYTES, -(int64_t)gone->size);
			if (kind != OWNED) {
				memset(gone->at, 0xDD, gone->size);
				free(gone->at);
			}
			free(gone);
			return true;
		}
	COUNT(MISUSE, 1);
	return false;
}

#endif
