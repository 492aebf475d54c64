// The page that a test shares with a fake library, also across processes: what the fake is to do, and what it has counted.
// The same layout stands in control.go.
#ifndef FAKEGPU_CONTROL_H
#define FAKEGPU_CONTROL_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	// set by the test
	DEVICES, MEMORY, INIT_CODE, FAULT_CODE, FAULT_AFTER, FAULT_STICKY, BANDWIDTH, KERNEL_NS, STALL, CAPABILITY, INTEGRATED, DRIVER_VERSION, USED,
	ARMED,   // changes with each fault that is set
	REVIVED, // changes when the device is to be as new at the next cuInit, as for another process
	// counted by the fake
	COUNTS = 32,
	PAGEABLE = COUNTS, ALLOCS, BYTES, HOST, STREAMS, EVENTS, MODULES, CONTEXTS, COPIES, LAUNCHES, MISUSE, SYNCHRONIZED, REGISTERED, MATCHED,
	WORDS = 64,
};

typedef struct {
	_Atomic int64_t word[WORDS];
	char symbol[64];
} control_page;

// own_counts is where a process counts that may only read the page.
static control_page own_counts;
static control_page *counts_page = &own_counts;

static control_page *control_counts(void) { return counts_page; }

// control_beside opens the page that stands beside this library, which a process that has no environment and writes no files
// can still read.
static int control_beside(void) {
	Dl_info info;
	char path[4096];
	if (dladdr((void *)control_counts, &info) == 0 || info.dli_fname == NULL) return -1;
	const char *slash = strrchr(info.dli_fname, '/');
	if (slash == NULL) return -1;
	snprintf(path, sizeof path, "%.*s/control", (int)(slash - info.dli_fname), info.dli_fname);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static control_page *control_open(void) {
	static control_page nothing;
	const char *path = getenv("FAKEGPU_CONTROL");
	int writable = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
	int fd = writable < 0 ? control_beside() : writable;
	if (fd < 0) {
		nothing.word[DEVICES] = 1;
		nothing.word[MEMORY] = (int64_t)1 << 30;
		nothing.word[CAPABILITY] = 90;
		nothing.word[DRIVER_VERSION] = 13000;
		return &nothing;
	}
	void *p = mmap(NULL, sizeof(control_page), PROT_READ | (writable < 0 ? 0 : PROT_WRITE), MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED) return &nothing;
	if (writable >= 0) counts_page = p;
	return p;
}

#endif
