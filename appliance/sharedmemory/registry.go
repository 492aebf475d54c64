// Package sharedmemory exchanges tensors with clients on the same machine in POSIX shared memory. A region is read and
// written through its file and never mapped: when a client shrinks it, a read fails, where a mapping would raise
// SIGBUS.
package sharedmemory

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

const (
	// MaxRegions bounds the regions that are registered; each holds a file descriptor.
	MaxRegions = 1024
	// MaxNameBytes bounds the name of a region, and its key.
	MaxNameBytes = 255
)

const (
	op = "sharedmemory"
	// folder is where Linux keeps POSIX shared memory objects.
	folder = "/dev/shm"
	// reserved are the keys that Triton keeps for its own use.
	reserved = "triton_python_backend_shm_region_"
)

// disabled is Triton's message of a server that does not share memory.
const disabled = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."

// Registry holds the regions. It is safe for concurrent use.
type Registry struct {
	enabled bool
	folder  string

	mu      sync.Mutex // guards what follows, and the users of every object
	regions map[string]*object
}

// object is a registered region and its open file.
type object struct {
	region       edgewise.Region
	file         *os.File
	users        int  // requests in flight, and one until it is unregistered
	unregistered bool // it goes with the last of its users
}

// New makes a registry. A registry that is not enabled refuses all regions.
func New(enabled bool) *Registry {
	return &Registry{enabled: enabled, folder: folder, regions: map[string]*object{}}
}

// Allowed returns nil when clients may register regions, and Unsupported otherwise.
func (r *Registry) Allowed() error {
	if !r.enabled {
		return edgewise.Errorf(op, edgewise.Unsupported, disabled)
	}
	return nil
}

// Register opens a shared memory object and gives size bytes of it from offset a name. The client owns the object; the
// box keeps it open until the region is unregistered and no request uses it. Errors: Unsupported (the registry is not
// enabled), Exists, Invalid (the key, no such object, one that is too small), Exhausted (MaxRegions).
func (r *Registry) Register(region edgewise.Region) error {
	if err := r.Allowed(); err != nil {
		return err
	}
	if err := check(region); err != nil {
		return err
	}
	file, err := r.open(region)
	if err != nil {
		return err
	}
	if err := r.add(&object{region: region, file: file, users: 1}); err != nil {
		_ = file.Close()
		return err
	}
	return nil
}

func check(region edgewise.Region) error {
	switch key := objectOf(region.Key); {
	case region.Name == "" || len(region.Name) > MaxNameBytes:
		return edgewise.Errorf(op, edgewise.Invalid, "shared memory region: want a name of 1 to %d bytes, got %d",
			MaxNameBytes, len(region.Name))
	case key == "" || key == "." || key == ".." || len(key) > MaxNameBytes || strings.ContainsAny(key, "/\x00"):
		return edgewise.Errorf(op, edgewise.Invalid, "cannot register shared memory region '%s' - invalid shm key "+
			"'%.260s': want the name of a POSIX shared memory object, 1 to %d bytes without '/' but at its beginning",
			region.Name, region.Key, MaxNameBytes)
	case strings.HasPrefix(key, reserved):
		return edgewise.Errorf(op, edgewise.Invalid, "cannot register shared memory region '%s' with key '%s' as the key "+
			"contains the reserved prefix '%s'", region.Name, region.Key, reserved)
	case region.Offset < 0 || region.Size <= 0 || region.Offset+region.Size < 0:
		return edgewise.Errorf(op, edgewise.Invalid, "failed to register shared memory region '%s': invalid args: offset "+
			"%d and byte_size %d: want an offset of at least 0 and at least one byte", region.Name, region.Offset, region.Size)
	}
	return nil
}

// objectOf returns the name of the object that a key stands for: as for shm_open, slashes before it say nothing.
func objectOf(key string) string { return strings.TrimLeft(key, "/") }

// open opens the object of a region and holds the region against its size.
func (r *Registry) open(region edgewise.Region) (*os.File, error) {
	path := filepath.Join(r.folder, objectOf(region.Key))
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "Unable to open shared memory region: '%s': %w", region.Key, err)
	}
	file := os.NewFile(uintptr(fd), path)
	info, err := file.Stat()
	switch {
	case err != nil:
		err = edgewise.Errorf(op, edgewise.Invalid, "Unable to open shared memory region: '%s': %w", region.Key, err)
	case !info.Mode().IsRegular():
		err = edgewise.Errorf(op, edgewise.Invalid, "Unable to open shared memory region: '%s': it is not a shared "+
			"memory object", region.Key)
	case region.Offset+region.Size > info.Size():
		err = edgewise.Errorf(op, edgewise.Invalid, "failed to register shared memory region: invalid args: region '%s': "+
			"offset %d and byte_size %d do not fit into the %d bytes of '%s'",
			region.Name, region.Offset, region.Size, info.Size(), region.Key)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func (r *Registry) add(o *object) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch name := o.region.Name; {
	case r.regions[name] != nil:
		return edgewise.Errorf(op, edgewise.Exists, "shared memory region '%s' already in manager", name)
	case len(r.regions) >= MaxRegions:
		return edgewise.Errorf(op, edgewise.Exhausted, "shared memory region '%s': %d regions are registered, which is "+
			"the most", name, MaxRegions)
	default:
		r.regions[name] = o
		return nil
	}
}

// Unregister removes a region, or all for the empty name. One that requests use goes with the last of them, and can be
// used, listed and not registered again until then, as in Triton. An unknown name is no error. Errors: Unsupported (the
// registry is not enabled).
func (r *Registry) Unregister(name string) error {
	if !r.enabled {
		return edgewise.Errorf(op, edgewise.Unsupported, disabled)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.regions {
		if (name == "" || name == o.region.Name) && !o.unregistered {
			o.unregistered = true
			r.leave(o)
		}
	}
	return nil
}

// leave ends one use of a region. The registry's lock is held.
func (r *Registry) leave(o *object) {
	if o.users--; o.users == 0 {
		delete(r.regions, o.region.Name)
		_ = o.file.Close()
	}
}

// Status lists a region, or all for the empty name, by name. Errors: NotFound.
func (r *Registry) Status(name string) ([]edgewise.Region, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" {
		list := make([]edgewise.Region, 0, len(r.regions))
		for o := range maps.Values(r.regions) {
			list = append(list, o.region)
		}
		slices.SortFunc(list, func(a, b edgewise.Region) int { return cmp.Compare(a.Name, b.Name) })
		return list, nil
	}
	if o := r.regions[name]; o != nil {
		return []edgewise.Region{o.region}, nil
	}
	return nil, unknown(name)
}

func unknown(name string) error {
	return edgewise.Errorf(op, edgewise.NotFound, "Unable to find system shared memory region: '%s'", name)
}

// Close unregisters every region; those in use go with their requests.
func (r *Registry) Close() error {
	if !r.enabled {
		return nil
	}
	return r.Unregister("")
}

// window is the part of a region that one tensor takes.
type window struct {
	registry *Registry
	object   *object
	offset   int64 // in the object
	size     int64 // bytes
}

// Open returns size bytes of a region from offset. The region stays until the window is closed, also when it is
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
	w.registry.leave(w.object)
}
