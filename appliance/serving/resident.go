package serving

import (
	"context"
	"errors"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// pinned tells whether a model's memory is never given to others.
func pinned(m *edgewise.Model) bool {
	return m.Parameters[modelconfig.ResidencyParameter].StringValue == modelconfig.ResidencyAlways
}

// onGPU is an instance on a GPU with its share of the GPU's memory, which comes and goes with its process.
type onGPU struct {
	isolated
	memory *gpuMemory
	share  *share
}

// loadGPU loads the version on one GPU, when there is room for it there. What it takes of the GPU's memory is
// returned when it is closed.
func (t *load) loadGPU(ctx context.Context, on edgewise.Device) (isolated, error) {
	v := t.version
	inspection, err := t.inspection()
	if err != nil {
		return nil, err
	}
	g := &onGPU{memory: t.memory, share: &share{id: v.ID, device: on, bytes: gpuNeed(v.Model, inspection, on)}}
	if err := t.memory.take(g.share); err != nil {
		return nil, err
	}
	t.onClose = append(t.onClose, func() { t.memory.give(g.share) })
	i, err := t.backend.Load(ctx, v, t.dir, on)
	if err != nil {
		return nil, err
	}
	own, ok := i.(isolated)
	if !ok {
		return nil, errors.Join(edgewise.Errorf("serving.Load", edgewise.Internal,
			"model %v: it is not in a process of its own", v.ID), i.Close())
	}
	if g.isolated = own; !pinned(v.Model) {
		g.OnDemand(edgewise.Claims{Take: func(context.Context) error { return nil }, Taken: func(int64, int64) {}, Give: func() {}})
		t.memory.allow(g.share, g)
	}
	return g, nil
}

// OnDemand books the share of the GPU's memory beside what c books. The version has been loaded.
func (g *onGPU) OnDemand(c edgewise.Claims) {
	g.memory.begin(g.share, g.isolated)
	take, give := c.Take, c.Give
	c.Take = func(ctx context.Context) error {
		if err := take(ctx); err != nil {
			return err
		}
		err := g.memory.take(g.share)
		if err != nil {
			give()
		}
		return err
	}
	c.Give = func() {
		g.memory.give(g.share)
		give()
	}
	g.isolated.OnDemand(c)
}

// withResidency lets a version in a process of its own give its memory up.
func (t *load) withResidency(loaded *manager.Loaded, instance edgewise.Instance) {
	r, ok := instance.(edgewise.Resident)
	if !ok {
		return
	}
	loaded.Resident, loaded.Pinned = r, pinned(t.version.Model) || groupOf(t.version) != ""
}
