package history

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// The layout of a ring: frames at multiples of alignment, each a head and its records. docs/decisions/0071 says why.
const (
	alignment = 64
	headBytes = 40
	maxFrame  = 256 << 10 // bytes, with the head
	magic     = 0x31485745
)

// head describes a frame.
type head struct {
	number  uint64 // counts the frames of a ring, from 1
	start   int64  // Unix time of its slot, in seconds
	seconds uint32 // of the slot that were measured; 0: another frame of the slot has them
	upTo    uint64 // of a coarse frame: the last fine frame that is in it
}

// place is where a frame is.
type place struct {
	head
	offset, size int64
}

// ring is a file of at most a fixed size, whose oldest frames are overwritten. A damaged frame costs itself only. It has
// one user at a time.
type ring struct {
	file   file
	limit  int64   // bytes
	frames []place // by number
	number uint64  // of the latest frame
	next   int64   // offset of the next one
}

// file is what a ring needs of an *os.File.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
}

// openRing opens a ring of at most limit bytes, and makes it if it is missing.
func openRing(path string, limit int64) (*ring, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, edgewise.Errorf("history.open", edgewise.Unavailable, "%w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() > limit {
		err = f.Truncate(limit)
	}
	if err != nil {
		_ = f.Close()
		return nil, edgewise.Errorf("history.open", edgewise.Unavailable, "%w", err)
	}
	return scan(f, min(info.Size(), limit), limit), nil
}

// scan finds the frames of a file. What cannot be read is left out.
func scan(f file, size, limit int64) *ring {
	r := &ring{file: f, limit: limit}
	window := make([]byte, min(4*maxFrame, size))
	for base := int64(0); base < size; {
		n, _ := f.ReadAt(window[:min(int64(len(window)), size-base)], base)
		last := base+int64(len(window)) >= size
		at := int64(0)
		for at+headBytes <= int64(n) && (last || at+maxFrame <= int64(n)) {
			h, length, ok := parseHead(window[at:n])
			if !ok {
				at += alignment
				continue
			}
			r.frames = append(r.frames, place{h, base + at, length})
			at += aligned(length)
		}
		if last {
			break
		}
		if at == 0 {
			at = maxFrame // bytes that cannot be read are passed by
		}
		base += at
	}
	slices.SortFunc(r.frames, func(a, b place) int { return int(min(1, max(-1, int64(a.number-b.number)))) })
	if n := len(r.frames); n > 0 {
		r.next, r.number = r.frames[n-1].offset+aligned(r.frames[n-1].size), r.frames[n-1].number
	}
	return r
}

func aligned(n int64) int64 { return (n + alignment - 1) / alignment * alignment }

// table is the polynomial of the checksums, which processors compute.
func table() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// parseHead reads the frame at the beginning of b. ok is false when there is none, or a damaged one.
func parseHead(b []byte) (h head, length int64, ok bool) {
	if len(b) < headBytes || binary.LittleEndian.Uint32(b) != magic {
		return h, 0, false
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n < headBytes || n > maxFrame || int64(n) > int64(len(b)) ||
		crc32.Checksum(b[12:n], table()) != binary.LittleEndian.Uint32(b[8:]) {
		return h, 0, false
	}
	h = head{
		number: binary.LittleEndian.Uint64(b[12:]), start: int64(binary.LittleEndian.Uint64(b[20:])),
		seconds: binary.LittleEndian.Uint32(b[28:]), upTo: binary.LittleEndian.Uint64(b[32:]),
	}
	return h, int64(n), true
}

// seal fills the head of a frame whose records begin behind headBytes.
func seal(frame []byte, h head) {
	binary.LittleEndian.PutUint32(frame, magic)
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(frame)))
	binary.LittleEndian.PutUint64(frame[12:], h.number)
	binary.LittleEndian.PutUint64(frame[20:], uint64(h.start))
	binary.LittleEndian.PutUint32(frame[28:], h.seconds)
	binary.LittleEndian.PutUint64(frame[32:], h.upTo)
	binary.LittleEndian.PutUint32(frame[8:], crc32.Checksum(frame[12:], table()))
}

// finished returns the last fine frame that is in a coarse ring, and forgets the frames of an hour that was not
// written to its end: only the last one of them has upTo.
func (r *ring) finished() uint64 {
	for n := len(r.frames); n > 0; n-- {
		last := r.frames[n-1]
		if last.upTo > 0 {
			return last.upTo
		}
		r.frames, r.number, r.next = r.frames[:n-1], last.number-1, last.offset
	}
	return 0
}

// add writes a frame, of at most maxFrame bytes, over the oldest ones. The frame's number is set.
func (r *ring) add(frame []byte, h head) error {
	h.number = r.number + 1
	seal(frame, h)
	p := place{h, r.next, int64(len(frame))}
	if p.offset+aligned(p.size) > r.limit {
		p.offset = 0
	}
	end := p.offset + aligned(p.size)
	r.frames = slices.DeleteFunc(r.frames, func(o place) bool { return o.offset < end && p.offset < o.offset+aligned(o.size) })
	if _, err := r.file.WriteAt(frame, p.offset); err != nil {
		return edgewise.Errorf("history.add", edgewise.Unavailable, "%w", err)
	}
	r.frames, r.number, r.next = append(r.frames, p), h.number, end
	return nil
}

// read returns the records of a frame in buf, which is grown when it is too small; nil when they are damaged by now.
func (r *ring) read(p place, buf []byte) []byte {
	buf = slices.Grow(buf[:0], int(p.size))[:p.size]
	if _, err := r.file.ReadAt(buf, p.offset); err != nil {
		return nil
	}
	if h, n, ok := parseHead(buf); !ok || h.number != p.number || n != p.size {
		return nil
	}
	return buf[headBytes:]
}
