package appliance

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/load"
	"github.com/edgewise-ai/edgewise/appliance/loopback"
	"github.com/edgewise-ai/edgewise/appliance/rollout"
	"github.com/edgewise-ai/edgewise/appliance/tune"
	"github.com/edgewise-ai/edgewise/appliance/warmup"
)

// newTuner makes what tunes models.
func (a *App) newTuner(protocol frontend.Deps) *tune.Tuner {
	return tune.New(tune.Config{
		Documents: a.documents, Models: a.registry, Formats: a.formats, Cores: coreCount(a.config), MaxQueue: a.config.Engine.MaxQueue,
		InProcess: a.config.Engine.Isolation != config.IsolationProcess, Machine: a.serving.Machine,
		Device: a.serving.Chosen, Energy: a.hardware.Energy(),
		Known: a.known(), Idle: a.monitor.Idle, Logger: a.logger.With("part", "tune"),
		Loopback: loopback.Config{Protocol: protocol, HTTP: restConfig(a.config)},
		Changed: func(id edgewise.ModelID) {
			a.publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "tuning"})
		},
	})
}

// known finds requests that models are measured with.
func (a *App) known() load.Known {
	return load.Known{
		Goldens: a.samples, Recorded: a.recordings.Samples,
		Warmups: func(m *edgewise.Model, id edgewise.ModelID) ([]*edgewise.Request, error) {
			dir, err := a.store.Dir(id)
			if err != nil {
				return nil, err
			}
			return warmup.Samples(m, dir)
		},
	}
}

// acceptsModel reports why what services read in a model's parameters cannot be used. Errors: Invalid.
func acceptsModel(m *edgewise.Model) error {
	if err := rollout.CheckModel(m); err != nil {
		return err
	}
	return tune.CheckModel(m)
}
