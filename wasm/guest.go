package wasm

import (
	"bytes"
	"context"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

// guest is one instance of a step's module. It belongs to one goroutine at a time.
type guest struct {
	p       *program
	module  api.Module
	memory  *memory
	linear  api.Memory
	counter api.MutableGlobal
	alloc   api.Function
	process api.Function
	reset   api.Function // nil: not exported
	globals []api.MutableGlobal
}

// state is a guest's state after its set-up.
type state struct {
	memory  []byte // without the zeros at its end
	size    int    // bytes with them
	globals []uint64
}

// newGuest instantiates the module and runs its set-up: the start function, _initialize, edgewise_step_v1.
func (p *program) newGuest(ctx context.Context) (*guest, error) {
	m, err := newMemory(int64(p.module.MaxPages) * fuel.PageSize)
	if err != nil {
		return nil, err
	}
	c := begin(experimental.WithMemoryAllocator(ctx, m), p, p.config.SetupTimeout, never)
	defer c.rest()
	g := &guest{p: p, memory: m}
	p.guests.Add(1)
	p.created.Add(1)
	if err := g.start(c); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// never is a limit that no guest reaches.
const never = 1<<63 - 1

func (g *guest) start(c *call) (err error) {
	c.export = "start"
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	if g.module, err = g.p.runtime.InstantiateModule(c, g.p.compiled, config); err != nil {
		g.module = nil
		return c.explain(err)
	}
	g.linear = g.module.ExportedMemory(exportMemory)
	g.counter = g.module.ExportedGlobal(fuel.Counter).(api.MutableGlobal)
	g.alloc = g.module.ExportedFunction(exportAlloc)
	g.process = g.module.ExportedFunction(exportProcess)
	if g.p.module.Export(exportReset, fuel.Function) != nil {
		g.reset = g.module.ExportedFunction(exportReset)
	}
	for _, name := range g.p.module.Globals {
		g.globals = append(g.globals, g.module.ExportedGlobal(name).(api.MutableGlobal))
	}
	c.g = g
	if g.p.module.Export(exportReactor, fuel.Function) != nil {
		if err := c.invoke(exportReactor, g.module.ExportedFunction(exportReactor), nil); err != nil {
			return err
		}
	}
	return c.invoke(exportStep, g.module.ExportedFunction(exportStep), nil)
}

// close gives everything back. No result of the guest is in use.
func (g *guest) close() {
	if g.module != nil {
		_ = g.module.Close(context.Background()) // it has no file and no socket that could fail
		g.module = nil
	}
	g.memory.Free()
	g.p.guests.Add(-1)
}

// keep copies the guest's state, to bring every guest of the program back to it. Only a restorable module's is all
// there.
func (g *guest) keep() *state {
	view, _ := g.linear.Read(0, g.linear.Size())
	kept := &state{memory: bytes.Clone(bytes.TrimRight(view, "\x00")), size: g.memory.size, globals: make([]uint64, len(g.globals))}
	for i, global := range g.globals {
		kept.globals[i] = global.Get()
	}
	return kept
}

// restore brings the state back that keep copied.
func (g *guest) restore() bool {
	used, to := g.memory.size, g.p.image
	n := copy(g.memory.space, to.memory)
	clear(g.memory.space[n:used])
	for i, global := range g.globals {
		global.Set(to.globals[i])
	}
	return g.memory.resize(g.linear, to.size)
}

// tidy tells the guest that a request is over, and puts it back to its state after set-up where it is to be.
func (g *guest) tidy(ctx context.Context) error {
	if g.reset != nil && g.p.settings.stateful {
		c := begin(ctx, g.p, g.p.config.SetupTimeout, never)
		defer c.rest()
		c.g = g
		c.fund()
		if err := c.invoke(exportReset, g.reset, nil); err != nil {
			return err
		}
		return nil
	}
	if !g.p.settings.stateful && !g.restore() {
		return edgewise.Errorf("wasm.Run", edgewise.Internal, "step: its memory cannot be made smaller")
	}
	return nil
}

// fund sets the guest's counter for a new call.
func (c *call) fund() {
	c.granted = slice
	c.g.counter.Set(slice)
}
