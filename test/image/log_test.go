package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The log of a disk's writes is what QEMU's blklogwrites keeps. A disk keeps what it was told to flush; what was written
// since, its cache may lose, in any order and in the middle of a write. Killing QEMU shows less: then everything that
// the guest has written is there. The format is that of Linux's dm-log-writes: a superblock in the first sector, then
// entries, each of a sector for its head and of the data.
const (
	logMagic   = 0x6a736677736872
	logVersion = 1
	sector     = 512 // QEMU's log-sector-size

	flagFlush   = 1
	flagFUA     = 2
	flagDiscard = 4
	flagMark    = 8
	logFlags    = flagFlush | flagFUA | flagDiscard | flagMark
)

// logEntry is a write, a discard or a flush of a disk.
type logEntry struct {
	At      int64 // where on the disk, in bytes
	Size    int64 // how much, in bytes; 0 for a flush
	Data    int64 // where in the log its data are; a discard has none
	Logged  int64 // the size of the log, in bytes, once it was in it
	Flush   bool  // what was written before it is on the disk for good
	Durable bool  // the data themselves are, too (FUA)
	Discard bool
}

// readLog reads a log of size bytes. The log of a QEMU that was killed ends anywhere: an entry that is not whole is left
// out. Errors: a log of another format.
func readLog(log io.ReaderAt, size int64) ([]logEntry, error) {
	var head [sector]byte
	if _, err := log.ReadAt(head[:], 0); err != nil {
		return nil, fmt.Errorf("the log's superblock: %w", err)
	}
	if m, v := binary.LittleEndian.Uint64(head[0:]), binary.LittleEndian.Uint64(head[8:]); m != logMagic || v != logVersion {
		return nil, fmt.Errorf("the log has magic %#x and version %d: want %#x and %d", m, v, uint64(logMagic), logVersion)
	}
	if s := binary.LittleEndian.Uint32(head[24:]); s != sector {
		return nil, fmt.Errorf("the log has sectors of %d bytes: want %d", s, sector)
	}
	var entries []logEntry
	for at := int64(sector); at+sector <= size; {
		if _, err := log.ReadAt(head[:], at); err != nil {
			return nil, fmt.Errorf("the log at %d: %w", at, err)
		}
		e, err := parseEntry(head[:], at+sector)
		if err != nil {
			return nil, fmt.Errorf("the log at %d: %w", at, err)
		}
		if e.Size == 0 && !e.Flush || e.Logged > size {
			break
		}
		entries = append(entries, e)
		at = e.Logged
	}
	return entries, nil
}

func parseEntry(head []byte, data int64) (logEntry, error) {
	first, count, set := binary.LittleEndian.Uint64(head[0:]), binary.LittleEndian.Uint64(head[8:]), binary.LittleEndian.Uint64(head[16:])
	const most = 1 << 40 // sectors: no disk of a test is as large
	if set&^uint64(logFlags) != 0 || first > most || count > most {
		return logEntry{}, errors.New("this is no entry")
	}
	e := logEntry{
		At: int64(first) * sector, Size: int64(count) * sector, Data: data, Logged: data,
		Flush: set&flagFlush != 0, Durable: set&flagFUA != 0, Discard: set&flagDiscard != 0,
	}
	if !e.Discard {
		e.Logged += e.Size
	}
	return e, nil
}
