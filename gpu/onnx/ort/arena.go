package ort

/*
#include "bind.h"
*/
import "C"

import "github.com/edgewise-ai/edgewise"

// SharedArenaEntry is the session configuration entry, with the value "1", of sessions that take from the arena of ShareArena.
const SharedArenaEntry = "session.use_env_allocators"

// ShareArena makes an arena of a device's memory from which sessions take that have SharedArenaEntry. It stays until the process ends; a second
// call for a device fails. most bounds its bytes, 0: nothing does. powers makes it grow by powers of two and not by what is asked for. Sessions
// that share it must work on one stream, or wait at the end of each run: what one of them has given back, the next one takes. Error: Unavailable.
func (l *Library) ShareArena(device int, most int64, powers bool) error {
	same := C.int(1)
	if powers {
		same = 0
	}
	return failed("ort.ShareArena", edgewise.Unavailable, "making an arena for several sessions", C.ew_share_arena(l.api, C.int(device), C.size_t(most), same))
}
