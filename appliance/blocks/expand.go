package blocks

import (
	"errors"
	"io"
)

// Errors of Expand beside those of its reader.
var (
	ErrFull    = errors.New("blocks: no room")
	ErrTooLong = errors.New("blocks: longer than the limit")
)

// expansionStart is how many times its length expanded data is expected to have at first.
const expansionStart = 4

// Expand reads r, which expands encoded bytes, to its end into a block, from start on. It counts memory as it is
// needed: a block that is too small is replaced by one of twice its size. The block is the caller's. Errors: ErrFull,
// ErrTooLong when r has more than limit bytes, and those of r.
func (m *Memory) Expand(r io.Reader, encoded int64, start int, limit int64) (b *Block, size int, err error) {
	if b = m.Take(min(expansionStart*encoded, limit+1)); b == nil {
		return nil, 0, ErrFull
	}
	for {
		n, err := r.Read(b.Bytes[start+size:])
		size += n
		switch {
		case int64(size) > limit:
			b.Free()
			return nil, 0, ErrTooLong
		case errors.Is(err, io.EOF):
			return b, size, nil
		case err != nil:
			b.Free()
			return nil, 0, err
		case start+size < len(b.Bytes):
			continue
		}
		larger := m.Take(min(2*int64(len(b.Bytes)), limit+Alignment+1))
		if larger == nil {
			b.Free()
			return nil, 0, ErrFull
		}
		copy(larger.Bytes[start:], b.Bytes[start:start+size])
		b.Free()
		b = larger
	}
}
