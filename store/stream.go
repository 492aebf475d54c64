package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/edgewise-ai/edgewise"
)

const (
	// bufferBytes is how much is read, hashed and written at a time: enough that a write past the page cache keeps the
	// disk busy.
	bufferBytes = 1 << 20
	// ringBuffers take turns: one is filled, one hashed, one written, the rest wait.
	ringBuffers = 4
	// reserveStep is how many bytes are written before the disk is asked again whether its reserve is intact.
	reserveStep = 16 << 20
	// maxEmptyReads bounds how often in a row a reader may return neither bytes nor an error.
	maxEmptyReads = 100
)

// stream writes r to out, hashing it on the way, and syncs. want.Size is the declared size, -1 when none. This goroutine
// reads, a second one hashes and a third one writes.
func (g *Staging) stream(ctx context.Context, out file, want edgewise.File, r io.Reader) (edgewise.File, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	buffers := g.store.rings.Get().(*ring)
	sum := sha256.New()
	w := &writer{staging: g, out: out, stop: stop}
	hashing := startStage(func(c []byte) { _, _ = sum.Write(c) }) // never fails
	writing := startStage(w.write)
	n, err := g.read(ctx, want, r, buffers, func(c []byte) {
		writing.add(c)
		hashing.add(c)
	})
	hashing.finish()
	writing.finish() // after this nobody reads the buffers
	g.store.rings.Put(buffers)
	if w.err != nil { // the reason why reading stopped, if it did
		return edgewise.File{}, w.err
	}
	if err != nil {
		return edgewise.File{}, err
	}
	if err := out.Sync(); err != nil {
		return edgewise.File{}, err
	}
	return edgewise.File{Path: want.Path, Size: n, Digest: edgewise.Digest(hex.EncodeToString(sum.Sum(nil)))}, nil
}

// read fills one buffer after the other from r and passes them on, and returns how many bytes those were.
func (g *Staging) read(ctx context.Context, want edgewise.File, r io.Reader, buffers *ring, pass func([]byte)) (n int64, err error) {
	const op = "store.Add"
	for turn := 0; ; turn++ {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		buf := buffers[turn%ringBuffers]
		got, end := fill(r, buf)
		n += int64(got)
		if err := g.checkSize(op, want, n, end == io.EOF); err != nil {
			return n, err
		}
		pass(buf[:got])
		if end == io.EOF {
			return n, nil
		}
		if end != nil {
			return n, readFailed(op, want.Path, end)
		}
	}
}

// fill reads until buf is full or r ends. Unlike io.ReadFull it passes on what r said: a body that was cut off must not
// look like one that ended.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for empty := 0; n < len(buf) && err == nil; {
		var m int
		m, err = r.Read(buf[n:])
		n += m
		if m > 0 {
			empty = 0
			continue
		}
		if empty++; err == nil && empty >= maxEmptyReads {
			err = io.ErrNoProgress
		}
	}
	return n, err
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

func readFailed(op, path string, err error) error {
	kind := edgewise.KindOf(err)
	if kind == edgewise.Internal { // the sender's stream broke: nothing of ours
		kind = edgewise.Invalid
	}
	return edgewise.Errorf(op, kind, "reading file %q from the sender: %w", path, err)
}

// spend takes written bytes from what the upload had promised.
func (g *Staging) spend(n int64) {
	n = min(n, g.promised)
	g.promised -= n
	g.store.budget.spend(n)
}

// writer is the end of an upload's stream that meets the disk. It may be looked at when its stage has finished.
type writer struct {
	staging    *Staging
	out        file
	stop       func() // ends the reading
	sinceCheck int64  // bytes written since the disk was asked about its reserve
	err        error  // the first; nothing is written after it
}

func (w *writer) write(c []byte) {
	if w.err != nil {
		return
	}
	if w.err = w.put(c); w.err != nil {
		w.stop()
	}
}

func (w *writer) put(c []byte) error {
	n, err := w.out.Write(c)
	w.staging.spend(int64(n))
	if err != nil {
		return err
	}
	if w.sinceCheck += int64(n); w.sinceCheck < reserveStep {
		return nil
	}
	w.sinceCheck = 0
	return w.staging.store.budget.check("store.Add")
}
