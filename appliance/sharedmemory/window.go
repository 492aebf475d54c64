package sharedmemory

import (
	"errors"
	"io"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// window is the part of a region that one tensor takes.
type window struct {
	registry *Registry
	object   *object
	offset   int64 // in the object
	size     int64 // bytes
}

// Open returns size bytes of a region from offset. The region stays open until the window is closed, also when it is
// unregistered meanwhile. Errors: NotFound, Invalid (outside the region).
func (r *Registry) Open(name string, offset, size int64) (edgewise.Window, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.regions[name]
	switch {
	case o == nil:
		return nil, unknown(name)
	case offset < 0 || offset > o.region.Size || offset == o.region.Size && size > 0:
		return nil, edgewise.Errorf(op, edgewise.Invalid, "Invalid offset for shared memory region: '%s': %d, of %d bytes",
			name, offset, o.region.Size)
	case size > math.MaxInt64-offset:
		return nil, edgewise.Errorf(op, edgewise.Invalid, "Integer overflow detected: byte_size (%d) + offset (%d) exceeds "+
			"maximum value (%d) for region '%s'", size, offset, int64(math.MaxInt64), name)
	case size < 0 || size > o.region.Size-offset:
		return nil, edgewise.Errorf(op, edgewise.Invalid, "Invalid offset + byte size for shared memory region: '%s': %d + "+
			"%d, of %d bytes", name, offset, size, o.region.Size)
	}
	o.users++
	return &window{r, o, o.region.Offset + offset, size}, nil
}

// Size returns the window's bytes.
func (w *window) Size() int64 { return w.size }

// Read copies the window into p, which has its size. Errors: Invalid (the client has made the object smaller).
func (w *window) Read(p []byte) error {
	if _, err := w.object.file.ReadAt(p[:w.size], w.offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the object has become smaller than the region")
		}
		return edgewise.Errorf(op, edgewise.Invalid, "reading shared memory region '%s': %w", w.object.region.Name, err)
	}
	return nil
}

// Write copies p to the beginning of the window. Errors: Invalid (p is larger than the window, or the client has made
// the object smaller: it is never made larger again).
func (w *window) Write(p []byte) error {
	name := w.object.region.Name
	if int64(len(p)) > w.size {
		return edgewise.Errorf(op, edgewise.Invalid, "shared memory region '%s': %d bytes do not fit into %d", name, len(p),
			w.size)
	}
	info, err := w.object.file.Stat()
	if err == nil && info.Size() < w.offset+int64(len(p)) {
		err = errors.New("the object has become smaller than the region")
	}
	if err == nil {
		_, err = w.object.file.WriteAt(p, w.offset)
	}
	if err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "writing shared memory region '%s': %w", name, err)
	}
	return nil
}

// Close ends the use of the region.
func (w *window) Close() {
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	w.object.leave()
}
