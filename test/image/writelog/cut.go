package writelog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
)

// Disk is what a log is played onto.
type Disk interface {
	io.WriterAt
	// Discard makes size bytes zero.
	Discard(at, size int64) error
}

// Durable returns how many of the first n entries a disk holds for good after a power cut: those before the last flush
// among them. 0 <= n <= len(entries).
func Durable(entries []Entry, n int) int {
	for n > 0 && !entries[n-1].Flush {
		n--
	}
	return n
}

// Play does what entries say, all of it.
func Play(disk Disk, log io.ReaderAt, entries []Entry) error {
	for _, e := range entries {
		if err := e.do(disk, log, e.Size); err != nil {
			return err
		}
	}
	return nil
}

// Lose does of entries, which no flush follows, what a cache that lost its power may have brought to the disk: of each
// write all, nothing or its first sectors. FUA writes are there.
func Lose(disk Disk, log io.ReaderAt, entries []Entry, random *rand.Rand) error {
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
func (e Entry) do(disk Disk, log io.ReaderAt, size int64) error {
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
		if err := put(disk, data, e.At+done); err != nil {
			return err
		}
	}
	return nil
}

// chunk is how much is read at a time: zeros that are written to a whole partition are one entry.
const chunk = 1 << 20

// put writes data; zeros are a hole.
func put(disk Disk, data []byte, at int64) error {
	if len(bytes.TrimLeft(data, "\x00")) == 0 {
		return disk.Discard(at, int64(len(data)))
	}
	_, err := disk.WriteAt(data, at)
	return err
}
