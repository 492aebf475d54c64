package tune

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/idle"
)

// energyEvery is how often the energy of the machine is read while requests are sent: a GPU may tell its power only.
const energyEvery = 100 * time.Millisecond

// energetic says why a model cannot be tuned for an objective that looks at energy. Errors: Unsupported with Field.
func (t *Tuner) energetic(o admin.TuneObjective, v *edgewise.Version) error {
	if !objective(o).Energy() {
		return nil
	}
	parts, err := t.partsOf(v)
	if err != nil {
		return err
	}
	for _, p := range parts {
		for _, kind := range t.kinds(p) {
			if err := t.config.Energy.Measures(kind); err != nil {
				return edgewise.Errorf("tune.energetic", edgewise.Unsupported, "model %q cannot be tuned for power: %w", v.ID.Name,
					err).WithField("objective.power")
			}
		}
	}
	return nil
}

// kinds are the devices that candidates of a version may run on.
func (t *Tuner) kinds(v *edgewise.Version) (list []edgewise.DeviceKind) {
	if t.config.Device(v.ID) != "" { // both are tried
		return []edgewise.DeviceKind{edgewise.CPU, edgewise.GPU}
	}
	for _, g := range v.Model.InstanceGroup {
		if kind := edgewise.GPU; g.Kind == edgewise.KindGPU && !slices.Contains(list, kind) {
			list = append(list, kind)
		}
	}
	if len(list) == 0 {
		list = append(list, edgewise.CPU)
	}
	return list
}

// metered returns the joules that the machine uses while use runs.
func metered(ctx context.Context, e Energy, use func()) (joules float64, err error) {
	before, err := e.Read()
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			idle.Sleep(ctx, energyEvery)
			_, _ = e.Read()
		}
	})
	use()
	stop()
	work.Wait()
	after, err := e.Read()
	return after - before, err
}
