package appliance

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/catalog"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/monitor"
)

// monitorSources returns what the monitor looks at.
func (a *App) monitorSources() monitor.Sources {
	return monitor.Sources{
		Statuses: a.manager.Statuses, Statistics: a.manager.Statistics, Logger: a.logger,
		Complete: func(tick *admin.Tick) {
			a.processors.Read()
			tick.Ready, tick.CPU, tick.Memory = a.engine.Ready(), a.processors.Last(), machineMemory().Box
		},
	}
}

// newCatalog makes the catalog of the stored models.
func (a *App) newCatalog() *catalog.Catalog {
	return catalog.New(catalog.Config{
		Registry: a.registry, Notes: a.notes, Store: a.store, History: a.history.List,
		Index:    func() []edgewise.Status { return a.engine.Index() },
		Statuses: a.manager.Statuses, Version: a.manager.Version, Statistics: a.manager.Statistics,
		ONNXFile: a.onnx.File, MaxMemoryBytes: int64(a.config.Engine.MaxMemoryBytes),
		AvailableMemory: func() int64 { return machineMemory().Available }, Publish: a.publish,
	})
}

// modelCatalog is what the REST frontend sees of the catalog, and of backups.
type modelCatalog struct {
	*catalog.Catalog
	app *App
}

var _ administration.Catalog = modelCatalog{}

// Backup writes a backup of this box.
func (m modelCatalog) Backup(ctx context.Context, w io.Writer, accounts bool) error {
	return m.app.importer.WriteBackup(ctx, w, accounts)
}

// BackupName returns a name for a backup of this box that is made now.
func (m modelCatalog) BackupName() string {
	name := strings.ReplaceAll(m.app.box.Settings().Name, "/", "_")
	return fmt.Sprintf("%s-%s.edgewise-backup", name, time.Now().UTC().Format("20060102-150405"))
}
