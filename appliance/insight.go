package appliance

import (
	"fmt"
	"os"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/capacity"
	"github.com/edgewise-ai/edgewise/appliance/roofline"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/host"
)

// newInsight makes what says what bounds models.
func (a *App) newInsight() *roofline.Insight {
	cores := coreCount(a.config)
	return roofline.NewInsight(roofline.New(roofline.Config{
		Documents: a.documents, Idle: a.monitor.Idle, Load: a.serving.Roof, Cores: cores, Folder: a.config.DataDir,
		Hardware: fmt.Sprintf("%s, %d cores", host.Processor("/"), cores), Logger: a.logger.With("part", "roofline"),
	}), roofline.Models{
		Version: a.manager.Version, Dir: a.store.Dir, Statistics: a.manager.Statistics, File: a.onnx.CountedFile,
		Device: a.serving.Chosen, Latest: a.monitor.Requests.Inputs, Samples: a.known().Of,
	})
}

// newCapacities makes what says whether the box carries a load.
func (a *App) newCapacities() *capacity.Capacities {
	return capacity.New(capacity.Config{
		Infer: a.manager, Idle: a.monitor.Idle, Cores: coreCount(a.config), Memory: serving.ModelMemory(a.config),
		Formats: a.formats, Record: a.registry.Record, Version: a.manager.Version, Ready: a.engine.VersionReady,
		Statistics: a.manager.Statistics, Known: a.known(), Device: a.serving.Chosen,
		Footprint: a.registry.Footprint, Time: func() time.Duration { return host.ProcessTime("/", os.Getpid()) },
	})
}
