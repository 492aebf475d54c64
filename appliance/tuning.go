package appliance

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/rollout"
	"github.com/edgewise-ai/edgewise/appliance/tune"
)

var _ administration.Tunings = (*tune.Tuner)(nil)

// newTuner makes what tunes models.
func (a *App) newTuner() *tune.Tuner {
	return tune.New(tune.Config{
		Documents: a.documents, Models: a.registry, Formats: a.formats, Cores: coreCount(a.config), MaxQueue: a.config.Engine.MaxQueue,
		InProcess: a.config.Engine.Isolation != config.IsolationProcess, Machine: a.serving.Machine,
		Device: a.serving.Chosen, Energy: a.hardware.Energy(),
		Samples: a.tuningSamples, Idle: a.monitor.Idle, Logger: a.logger.With("part", "tune"),
		Changed: func(id edgewise.ModelID) {
			a.publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "tuning"})
		},
	})
}

// tuningSamples returns the goldens of a model, or requests that were recorded of it.
func (a *App) tuningSamples(model string) ([]*edgewise.Request, []admin.CompareRule, string, error) {
	list, rules, err := a.samples(model)
	if err != nil || len(list) > 0 {
		return list, rules, "goldens", err
	}
	return a.recordings.Samples(model, maxRecordedSamples), rules, "recorded", nil
}

// maxRecordedSamples bounds the recorded requests that a model is tuned with.
const maxRecordedSamples = 8

// acceptsModel reports why what services read in a model's parameters cannot be used. Errors: Invalid.
func acceptsModel(m *edgewise.Model) error {
	if err := rollout.CheckModel(m); err != nil {
		return err
	}
	return tune.CheckModel(m)
}
