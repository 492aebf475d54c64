// Package sharedmemory exchanges tensors with clients on the same machine in POSIX shared memory. A region is read and
// written through its file and never mapped: when a client shrinks it, a read fails, where a mapping would raise
// SIGBUS.
package sharedmemory

import (
	"cmp"
	"maps"
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
	region edgewise.Region
	file   *os.File
	users  int // requests in flight, and one while it is registered
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

// Unregister removes a region, or all for the empty name; requests in flight keep a region until they end. An unknown
// name is no error, as in Triton. Errors: Unsupported (the registry is not enabled).
func (r *Registry) Unregister(name string) error {
	if !r.enabled {
		return edgewise.Errorf(op, edgewise.Unsupported, disabled)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" {
		for _, o := range r.regions {
			o.leave()
		}
		clear(r.regions)
		return nil
	}
	if o := r.regions[name]; o != nil {
		o.leave()
		delete(r.regions, name)
	}
	return nil
}

// leave ends one use. The registry's lock is held.
func (o *object) leave() {
	if o.users--; o.users == 0 {
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

// Close unregisters every region.
func (r *Registry) Close() error {
	if !r.enabled {
		return nil
	}
	return r.Unregister("")
}
