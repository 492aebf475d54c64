// Package runner keeps native code in child processes of the same program: one child a loaded version, or one for a
// group of them. A crash or a leak costs one model one second, and unloading gives the memory back, because it ends the
// child.
//
// Parent and child share memory blocks for tensors. Each run in flight has a channel: two mailboxes in shared memory,
// into which the calling thread puts the run and the child's thread the answer, and a socket for descriptors. Who waits
// sleeps (decision 0074). The child is not trusted: every number it writes is checked.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// Config configures the backend. Zero durations and sizes take the defaults named beside them.
type Config struct {
	Backend     edgewise.Backend // answers Formats and Inspect, in this process
	Arguments   []string         // with which the program, started again, calls Serve
	Options     any              // handed to the child's maker of the backend, as JSON
	Environment []string         // of the child, as key=value; nothing else is in it
	// files and folders that the child may read beside the model's folder and the system's libraries
	ReadPaths []string
	// the name of the group in whose process a version runs; "": one of its own. nil: each has one
	Group func(v *edgewise.Version) string
	// what a child on a device has beside that, which is not the CPU; nil: nothing
	Device func(*edgewise.Version, edgewise.Device) Place

	// is told of each death of a child on a device, which is not the CPU, and its cause; nil: nobody is told
	Died func(on edgewise.Device, cause string)

	LoadTimeout time.Duration // longest start of a child, its load included; 5 minutes
	LoadTime    time.Duration // most processor time of a load, in whole seconds; 0: none
	Grace       time.Duration // how long a run may go on after its context has ended, before its child is killed; 2 seconds
	child.Restarts
	MaxArena     int64  // bytes of shared memory of a version: inputs of runs and results not yet freed; 2 GiB
	MaxRuns      int    // runs of a child at the same time, others wait; 256
	AddressSpace uint64 // RLIMIT_AS of the child in bytes; 0: none
	Logger       *slog.Logger
}

// Place is what a child on a device has.
type Place struct {
	child.Access
	Kept Kept // what was compiled for its version; nil: nothing is kept
}

// Kept is a folder for what drivers and providers compile for a version, in which its child may write.
type Kept interface {
	Path() string
	Seal()                   // a child has loaded with it: the next one uses what is in it now
	Clear() (something bool) // what is in it is of no use, or does harm
}

func (c Config) complete() Config {
	fill(&c.LoadTimeout, 5*time.Minute)
	fill(&c.Grace, 2*time.Second)
	c.Restarts = c.Restarts.Complete()
	fill(&c.MaxArena, 2<<30)
	fill(&c.MaxRuns, 256)
	return c
}

func fill[T comparable](field *T, otherwise T) {
	var zero T
	if *field == zero {
		*field = otherwise
	}
}

// Backend loads versions into child processes.
type Backend struct {
	config Config
	tell   sync.Once // which protection the kernel lacks

	mu     sync.Mutex
	groups map[string]*group // those with a name
}

var _ edgewise.Backend = (*Backend)(nil)

// New makes the backend. No child is started before Load.
func New(c Config) *Backend { return &Backend{config: c.complete(), groups: map[string]*group{}} }

// Formats are those of the wrapped backend.
func (b *Backend) Formats() []edgewise.Format { return b.config.Backend.Formats() }

// Inspect is that of the wrapped backend. It runs no native code.
func (b *Backend) Inspect(ctx context.Context, dir string, m *edgewise.Model) (*edgewise.Inspection, error) {
	return b.config.Backend.Inspect(ctx, dir, m)
}

// Load starts a child, which loads v; with the other members of v's group, if it has one, which go on in their present
// child until that is done. Errors: those of the child's backend; Internal when the child dies while loading; Deadline
// when it takes longer than LoadTimeout for each of them. The instance is an *Instance.
func (b *Backend) Load(ctx context.Context, v *edgewise.Version, dir string, on edgewise.Device) (edgewise.Instance,
	error,
) {
	i := newInstance(b, v.ID, member{Version: v, Dir: dir, Device: on})
	for {
		g := b.groupOf(v)
		i.group = g
		err := g.join(ctx, i)
		if err == nil {
			return i, nil
		}
		if !errors.Is(err, errOver) {
			b.release(g)
			i.arena.close()
			return nil, err
		}
	}
}

// groupOf returns the group that a version is to join.
func (b *Backend) groupOf(v *edgewise.Version) *group {
	name := ""
	if b.config.Group != nil {
		name = b.config.Group(v)
	}
	if name == "" {
		return newGroup(b, "")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	g, ok := b.groups[name]
	if !ok {
		g = newGroup(b, name)
		b.groups[name] = g
	}
	return g
}

// release forgets a group that has no members, after a join that failed.
func (b *Backend) release(g *group) {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	empty := len(g.members) == 0
	g.over = g.over || empty
	g.mu.Unlock()
	if empty {
		b.forget(g)
	}
}

// forget makes the next version of a group's name found a group of its own.
func (b *Backend) forget(g *group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.groups[g.name] == g {
		delete(b.groups, g.name)
	}
}

// task tells a child what to load.
type task struct {
	Options      json.RawMessage `json:"options"`
	Members      []member        `json:"members"`
	AddressSpace uint64          `json:"address_space"` // bytes, 0: no bound
	LoadSeconds  uint64          `json:"load_seconds"`  // of processor time, for each of them, 0: no bound
	Again        bool            `json:"again"`         // see Start
	Kept         string          `json:"kept"`          // see Start
}

// member is one version of a task.
type member struct {
	Version *edgewise.Version `json:"version"`
	Dir     string            `json:"dir"`
	Device  edgewise.Device   `json:"device"`

	Describe bool `json:"describe,omitempty"` // it is not to be served: the child says what its runtime knows of the outputs, and ends
}

// seconds rounds up.
func seconds(d time.Duration) uint64 { return uint64((d + time.Second - 1) / time.Second) }
