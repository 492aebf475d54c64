// The page that a test shares with a fake library, also across processes: what the fake is to do, and what it has counted.
// The same layout stands in control.go.
#ifndef FAKEGPU_CONTROL_H
#define FAKEGPU_CONTROL_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	// set by the test
	DEVICES, MEMORY, INIT_CODE, FAULT_CODE, FAULT_AFTER, FAULT_STICKY, BANDWIDTH, KERNEL_NS, STALL, CAPABILITY, INTEGRATED, DRIVER_VERSION, USED,
	// counted by the fake
	COUNTS = 32,
	PAGEABLE = COUNTS, ALLOCS, BYTES, HOST, STREAMS, EVENTS, MODULES, CONTEXTS, COPIES, LAUNCHES, MISUSE, SYNCHRONIZED, REGISTERED,
	WORDS = 64,
};

typedef struct {
	_Atomic int64_t word[WORDS];
	char symbol[64];
} control_page;

static control_page *control_open(void) {
	static control_page nothing;
	const char *path = getenv("FAKEGPU_CONTROL");
	int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		nothing.word[DEVICES] = 1;
		nothing.word[MEMORY] = (int64_t)1 << 30;
		nothing.word[CAPABILITY] = 90;
		nothing.word[DRIVER_VERSION] = 13000;
		return &nothing;
	}
	void *p = mmap(NULL, sizeof(control_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? &nothing : p;
}

#endif
