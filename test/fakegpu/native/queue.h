// The streams, events and engines of a fake driver. Included by libcuda.c alone.
#ifndef FAKEGPU_QUEUE_H
#define FAKEGPU_QUEUE_H

#include <time.h>

#include "memory.h"

typedef struct event {
	int64_t recorded, reached; // numbers of records
	int pending;               // tasks that refer to it
	bool destroyed;
} event;

typedef struct task {
	struct task *next;
	enum { COPY, FILL, KERNEL, RECORD, WAIT } kind;
	void *to;
	const void *from;
	size_t n;
	int engine;
	event *event;
	int64_t number;
	void (*code)(const uint64_t *, unsigned);
	unsigned rows; // of the grid
	uint64_t arguments[16];
} task;

typedef struct stream {
	struct stream *next; // of all
	pthread_t thread;
	task *first, **last;
	bool busy, ending;
} stream;

enum { TO_DEVICE, TO_HOST, COMPUTE, ENGINES };
static pthread_mutex_t engine[ENGINES] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void pause_ns(int64_t ns) {
	struct timespec t = {ns / 1000000000, ns % 1000000000};
	nanosleep(&t, NULL);
}

// await_move waits until something has moved, or for a little while. The lock is held.
static void await_move(void) {
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 20000000;
	if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
	pthread_cond_timedwait(&moved, &lock, &until);
}

static void take_time(task *t) {
	int64_t ns = t->kind == KERNEL ? SET(KERNEL_NS) : SET(BANDWIDTH) > 0 ? (int64_t)(1e9 * (double)t->n / (double)SET(BANDWIDTH)) : 0;
	pause_ns(ns > 0 ? ns : 20000); // never at once: what does not wait has to be seen
}

// write_memory does what a task does to memory, unless the device is lost.
static void write_memory(task *t) {
	pthread_mutex_lock(&writing);
	if (sticky == 0) {
		if (t->kind == COPY) memcpy(t->to, t->from, t->n);
		if (t->kind == FILL) memset(t->to, (int)t->number, t->n);
		if (t->kind == KERNEL && t->code != NULL) t->code(t->arguments, t->rows);
	}
	pthread_mutex_unlock(&writing);
}

// perform does one task without the lock, but for the events.
static void perform(task *t) {
	switch (t->kind) {
	case COPY:
	case FILL:
	case KERNEL:
		pthread_mutex_lock(&engine[t->engine]);
		take_time(t);
		if (t->kind != KERNEL || fault("kernel") == 0) write_memory(t);
		pthread_mutex_unlock(&engine[t->engine]);
		break;
	case RECORD:
		while (SET(STALL) != 0 && sticky == 0) pause_ns(1000000);
		pthread_mutex_lock(&lock);
		if (t->event->reached < t->number) t->event->reached = t->number;
		pthread_mutex_unlock(&lock);
		break;
	case WAIT:
		pthread_mutex_lock(&lock);
		while (t->event->reached < t->number && sticky == 0) {
			await_move();
		}
		pthread_mutex_unlock(&lock);
		break;
	}
}

static stream *streams;

// settled notes that a task does not refer to its event any more. The lock is held.
static void settled(event *e) {
	if (e != NULL && --e->pending == 0 && e->destroyed) free(e);
}

static void *work(void *p) {
	stream *s = p;
	pthread_mutex_lock(&lock);
	while (!s->ending || s->first != NULL) {
		task *t = s->first;
		if (t == NULL) {
			pthread_cond_wait(&moved, &lock);
			continue;
		}
		s->first = t->next;
		if (s->first == NULL) s->last = &s->first;
		s->busy = true;
		pthread_mutex_unlock(&lock);
		perform(t);
		pthread_mutex_lock(&lock);
		settled(t->event);
		free(t);
		s->busy = false;
		pthread_cond_broadcast(&moved);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void push(stream *s, task t) {
	task *copy = malloc(sizeof t);
	*copy = t;
	copy->next = NULL;
	if (t.event != NULL) t.event->pending++;
	*s->last = copy;
	s->last = &copy->next;
	pthread_cond_broadcast(&moved);
}

// end ends a stream when its work is done, and forgets it.
static void end(stream *s) {
	pthread_mutex_lock(&lock);
	for (stream **at = &streams; *at != NULL; at = &(*at)->next)
		if (*at == s) {
			*at = s->next;
			break;
		}
	s->ending = true;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&lock);
	pthread_join(s->thread, NULL);
	free(s);
	COUNT(STREAMS, -1);
}

// bury forgets everything that a device has, as when its process has ended.
static void bury(void) {
	while (streams != NULL) end(streams);
	while (blocks != NULL) {
		block *gone = blocks;
		blocks = gone->next;
		if (gone->kind != OWNED) free(gone->at);
		free(gone);
	}
	for (int w = ALLOCS; w <= CONTEXTS; w++) atomic_store(&control_counts()->word[w], 0);
	atomic_store(&control_counts()->word[REGISTERED], 0);
	sticky = 0;
}

static bool idle(stream *s) { return s->first == NULL && !s->busy; }

// drain waits for a stream. The lock is held.
static void drain(stream *s) {
	COUNT(SYNCHRONIZED, 1);
	while (!idle(s)) pthread_cond_wait(&moved, &lock);
}

#endif
