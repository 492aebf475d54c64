package image

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
)

// target is what a log is played onto.
type target interface {
	io.WriterAt
	// Discard makes size bytes zero.
	Discard(at, size int64) error
}

// durable returns how many of the first n entries a disk holds for good after a power cut: those before the last flush
// among them. 0 <= n <= len(entries).
func durable(entries []logEntry, n int) int {
	for n > 0 && !entries[n-1].Flush {
		n--
	}
	return n
}

// play does what entries say, all of it.
func play(disk target, log io.ReaderAt, entries []logEntry) error {
	for _, e := range entries {
		if err := e.do(disk, log, e.Size); err != nil {
			return err
		}
	}
	return nil
}

// lose does of entries, which no flush follows, what a cache that lost its power may have brought to the disk: of each
// write all, nothing or its first sectors. FUA writes are there.
func lose(disk target, log io.ReaderAt, entries []logEntry, random *rand.Rand) error {
	for _, e := range entries {
		kept := e.Size
		if !e.Durable && e.Size > 0 {
			switch random.IntN(4) {
			case 0:
				kept = 0
			case 1:
				kept = random.Int64N(e.Size/sector+1) * sector
			}
		}
		if err := e.do(disk, log, kept); err != nil {
			return err
		}
	}
	return nil
}

// do does the first size bytes of an entry.
func (e logEntry) do(disk target, log io.ReaderAt, size int64) error {
	if size == 0 {
		return nil
	}
	if e.Discard {
		return disk.Discard(e.At, size)
	}
	buffer := make([]byte, min(size, chunk))
	for done := int64(0); done < size; done += chunk {
		data := buffer[:min(chunk, size-done)]
		if _, err := log.ReadAt(data, e.Data+done); err != nil {
			return fmt.Errorf("the data of a write in the log: %w", err)
		}
		if err := writeData(disk, data, e.At+done); err != nil {
			return err
		}
	}
	return nil
}

// chunk is how much is read at a time: zeros that are written to a whole partition are one entry.
const chunk = 1 << 20

// writeData writes data; zeros are a hole.
func writeData(disk target, data []byte, at int64) error {
	if len(bytes.TrimLeft(data, "\x00")) == 0 {
		return disk.Discard(at, int64(len(data)))
	}
	_, err := disk.WriteAt(data, at)
	return err
}
