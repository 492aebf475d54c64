package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/aligned"
	"github.com/edgewise-ai/edgewise/store/disk"
)

const (
	// bufferBytes is how much is read, hashed and written at a time: a write past the page cache waits for the disk, and
	// a smaller one leaves it idle half of the time.
	bufferBytes = 1 << 20
	// ringBuffers take turns: one is filled and written, one is hashed, the rest wait to be hashed.
	ringBuffers = 3
	// reserveStep is how many bytes are written before the disk is asked again whether its reserve is intact.
	reserveStep = 16 << 20
)

// stream writes r to out, hashing it on the way, and syncs. Where r is a file whose bytes out can share they are only
// hashed. want.Size is the declared size, -1 when none. A second goroutine hashes while this one reads and writes.
func (g *Staging) stream(ctx context.Context, out disk.File, want edgewise.File, r io.Reader) (edgewise.File, error) {
	buffers := g.store.rings.Get().(*ring)
	h := startHashing()
	to := out
	if from, kept := disk.Share(out, r); from != nil {
		defer func() { _ = from.Close() }()
		r, to = from, kept
	}
	n, err := g.copy(ctx, to, want, r, buffers, h)
	digest := h.finish() // after this nobody reads the buffers
	g.store.rings.Put(buffers)
	if err != nil {
		return edgewise.File{}, err
	}
	if err := out.Sync(); err != nil {
		return edgewise.File{}, err
	}
	return edgewise.File{Path: want.Path, Size: n, Digest: digest}, nil
}

// ring is the memory of one upload. Its buffers begin at multiples of disk.DirectBlock.
type ring [ringBuffers][]byte

func newRing() *ring {
	memory := aligned.Bytes(ringBuffers*bufferBytes, disk.DirectBlock)
	var r ring
	for i := range r {
		r[i] = memory[i*bufferBytes:][:bufferBytes:bufferBytes]
	}
	return &r
}

func (g *Staging) copy(ctx context.Context, out disk.File, want edgewise.File, r io.Reader, buffers *ring, h *hasher) (n int64, err error) {
	const op = "store.Add"
	sinceCheck := int64(0)
	for turn := 0; ; turn++ {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		buf := buffers[turn%ringBuffers]
		got, ended, reading := disk.Fill(r, buf)
		if err := g.checkSize(op, want, n+int64(got), ended); err != nil {
			return n, err
		}
		h.add(buf[:got])
		wrote, err := out.Write(buf[:got])
		n += int64(wrote)
		g.spend(int64(wrote))
		if err != nil {
			return n, err
		}
		if ended {
			return n, nil
		}
		if reading != nil {
			kind := edgewise.KindOf(reading)
			if kind == edgewise.Internal { // the sender's stream broke: nothing of ours
				kind = edgewise.Invalid
			}
			return n, edgewise.Errorf(op, kind, "reading file %q from the sender: %w", want.Path, reading)
		}
		if sinceCheck += int64(wrote); sinceCheck >= reserveStep {
			sinceCheck = 0
			if err := g.store.budget.check(op, 0); err != nil {
				return n, err
			}
		}
	}
}

// checkSize compares the bytes read so far with what was declared.
func (g *Staging) checkSize(op string, want edgewise.File, n int64, ended bool) error {
	switch {
	case want.Size >= 0 && n > want.Size:
		return invalid(op, edgewise.ModelID{}, "file %q: %d bytes were declared and more came", want.Path, want.Size)
	case want.Size >= 0 && ended && n < want.Size:
		return invalid(op, edgewise.ModelID{}, "file %q: %d bytes were declared and %d came", want.Path, want.Size, n)
	}
	return g.fits(op, want.Path, n)
}

// spend subtracts written bytes from those that the upload had promised.
func (g *Staging) spend(n int64) {
	n = min(n, g.promised)
	g.promised -= n
	g.store.budget.spend(n)
}

// hasher is a SHA-256 that runs beside its caller.
type hasher struct {
	chunks chan []byte // what waits to be hashed
	done   chan struct{}
	sum    hash.Hash
}

func startHashing() *hasher {
	h := &hasher{chunks: make(chan []byte, ringBuffers-2), done: make(chan struct{}), sum: sha256.New()}
	go h.run()
	return h
}

func (h *hasher) run() {
	defer close(h.done)
	for c := range h.chunks {
		_, _ = h.sum.Write(c) // never fails
	}
}

// add hashes c, which must not change until ringBuffers-1 further calls, or finish, have returned.
func (h *hasher) add(c []byte) { h.chunks <- c }

// finish waits for the last chunk and returns the sum.
func (h *hasher) finish() edgewise.Digest {
	close(h.chunks)
	<-h.done
	return edgewise.Digest(hex.EncodeToString(h.sum.Sum(nil)))
}
