package wasm

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Error numbers of WASI preview 1.
const (
	wasiOK    = 0
	wasiBadF  = 8
	wasiInval = 28
	wasiNoSys = 52
	wasiSPipe = 70
)

// clockStep is what a guest's clock advances by: enough for a language's runtime, too coarse to time others.
const clockStep = time.Millisecond

// maxVectors bounds the pieces of one fd_write.
const maxVectors = 1024

// wasiFunctions are all of WASI preview 1: a few that languages need to start, and refusals.
func wasiFunctions() []hostFunction {
	list := []hostFunction{
		{"clock_time_get", "iIi:i", wasiClock},
		{"clock_res_get", "ii:i", func(a arguments) { a.put64("resolution", a.u32(1), uint64(clockStep)) }},
		{"random_get", "ii:i", wasiRandom},
		{"fd_write", "iiii:i", wasiWrite},
		{"fd_close", "i:i", wasiStandard(func(arguments) int32 { return wasiOK })},
		{"fd_fdstat_get", "ii:i", wasiStandard(wasiStat)},
		{"fd_seek", "iIii:i", wasiStandard(func(arguments) int32 { return wasiSPipe })},
		{"environ_sizes_get", "ii:i", wasiNothing},
		{"environ_get", "ii:i", func(a arguments) { a.result(wasiOK) }},
		{"args_sizes_get", "ii:i", wasiNothing},
		{"args_get", "ii:i", func(a arguments) { a.result(wasiOK) }},
		{"sched_yield", ":i", func(a arguments) { a.result(wasiOK) }},
		{"proc_exit", "i:", func(a arguments) {
			a.c.end(edgewise.Guest, "step: %s: it called proc_exit(%d)", a.c.export, int32(a.u32(0)))
		}},
	}
	for _, line := range strings.Fields(wasiRefused) {
		name, sign, _ := strings.Cut(line, "=")
		number := int32(wasiBadF)
		if !strings.HasPrefix(name, "fd_") && !strings.HasPrefix(name, "path_") {
			number = wasiNoSys
		}
		list = append(list, hostFunction{name, signature(sign), func(a arguments) { a.result(number) }})
	}
	return list
}

// wasiRefused lists the functions that only refuse, with their types.
const wasiRefused = `fd_advise=iIIi:i fd_allocate=iII:i fd_datasync=i:i fd_fdstat_set_flags=ii:i
fd_fdstat_set_rights=iII:i fd_filestat_get=ii:i
fd_filestat_set_size=iI:i fd_filestat_set_times=iIIi:i fd_pread=iiiIi:i fd_prestat_get=ii:i fd_prestat_dir_name=iii:i fd_pwrite=iiiIi:i
fd_read=iiii:i fd_readdir=iiiIi:i fd_renumber=ii:i fd_sync=i:i fd_tell=ii:i path_create_directory=iii:i path_filestat_get=iiiii:i
path_filestat_set_times=iiiiIIi:i path_link=iiiiiii:i path_open=iiiiiIIii:i path_readlink=iiiiii:i path_remove_directory=iii:i
path_rename=iiiiii:i path_symlink=iiiii:i path_unlink_file=iii:i poll_oneoff=iiii:i proc_raise=i:i sock_accept=iii:i sock_recv=iiiiii:i
sock_send=iiiii:i sock_shutdown=ii:i`

// wasiStandard answers for the three standard descriptors and refuses others.
func wasiStandard(f func(arguments) int32) func(arguments) {
	return func(a arguments) {
		if a.u32(0) > 2 {
			a.result(wasiBadF)
			return
		}
		a.result(f(a))
	}
}

// wasiStat says that a descriptor is a character device that can be written to.
func wasiStat(a arguments) int32 {
	stat := a.view("stat", a.u32(1), 24)
	clear(stat)
	stat[0] = 2
	binary.LittleEndian.PutUint64(stat[8:], 1<<6) // the right fd_write
	return wasiOK
}

// wasiNothing says that there are no arguments, or no environment.
func wasiNothing(a arguments) {
	binary.LittleEndian.PutUint32(a.view("count", a.u32(0), 4), 0)
	binary.LittleEndian.PutUint32(a.view("size", a.u32(1), 4), 0)
	a.result(wasiOK)
}

func (a arguments) put64(what string, pointer uint32, v uint64) {
	binary.LittleEndian.PutUint64(a.view(what, pointer, 8), v)
	a.result(wasiOK)
}

// wasiClock knows the wall clock (0) and a monotonic one (1), both coarse.
func wasiClock(a arguments) {
	var now time.Duration
	switch a.u32(0) {
	case 0:
		now = time.Duration(time.Now().UnixNano())
	case 1:
		now = time.Since(a.c.p.epoch)
	default:
		a.result(wasiInval)
		return
	}
	a.put64("time", a.u32(2), uint64(now.Truncate(clockStep)))
}

// wasiRandom fills memory from a generator that is seeded by the module, so that a run can be repeated. It keeps no
// secret.
func wasiRandom(a arguments) {
	dst := a.bytes("buf", 0)
	source := a.c.random()
	for len(dst) > 0 {
		n := min(len(dst), randomChunk)
		_, _ = source.Read(dst[:n]) // it never fails
		dst = dst[n:]
		a.c.check(a.c.used())
	}
	a.result(wasiOK)
}

// randomChunk is how many bytes are made between two looks at the clock.
const randomChunk = 1 << 20

// random returns the generator of this call's guest.
func (c *call) random() *rand.ChaCha8 {
	if c.source == nil {
		var seed [32]byte
		copy(seed[:], c.p.seed[:])
		binary.LittleEndian.PutUint64(seed[24:], c.p.created.Load())
		c.source = rand.NewChaCha8(seed)
	}
	return c.source
}

// wasiWrite writes standard output and error into the step's log, a line each.
func wasiWrite(a arguments) {
	fd := a.u32(0)
	if fd != 1 && fd != 2 {
		a.result(wasiBadF)
		return
	}
	count := a.u32(2)
	if count > maxVectors {
		a.result(wasiInval)
		return
	}
	vectors := a.view("iovs", a.u32(1), 8*uint64(count))
	var text []byte
	written := uint32(0)
	for ; len(vectors) > 0; vectors = vectors[8:] {
		pointer, size := binary.LittleEndian.Uint32(vectors), binary.LittleEndian.Uint32(vectors[4:])
		piece := a.view("iovs", pointer, uint64(size))
		text = append(text, piece[:min(len(piece), MaxLogBytes-len(text))]...)
		written += size
	}
	for line := range strings.Lines(string(text)) {
		a.c.p.log(levelInfo+level(fd-1), strings.TrimRight(line, "\r\n"))
	}
	binary.LittleEndian.PutUint32(a.view("nwritten", a.u32(3), 4), written)
	a.result(wasiOK)
}
