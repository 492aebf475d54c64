// The memory that ONNX Runtime keeps for the runs of a process's sessions on the CPU.
#ifndef EDGEWISE_ARENA_H
#define EDGEWISE_ARENA_H

#include "ort.h"

// ew_arena_share makes the arena that sessions with the entry "session.use_env_allocators" share. Keys and values
// configure it; see OrtApi::CreateArenaCfgV2. It is called once in a process.
ew_error ew_arena_share(const ew_api *api, const char *const *keys, const size_t *values, size_t n);

// ew_arena_unused returns how many bytes the arena of a session holds that no tensor takes.
ew_error ew_arena_unused(const ew_api *api, void *session, int64_t *unused);

#endif
