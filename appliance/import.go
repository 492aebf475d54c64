package appliance

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/repository"
)

// importAll brings the versions of repository folders into the store and makes the highest one of each model live when
// it is new. Versions that are stored already are skipped, so that it can be done at every start. Failures are logged,
// and the rest goes on, until ctx ends.
func (a *App) importAll(ctx context.Context, folders []string) {
	for _, folder := range folders {
		versions, err := repository.Read(folder)
		if err != nil {
			a.logger.Error("import", "folder", folder, "error", err)
			continue
		}
		for i, v := range versions {
			if ctx.Err() != nil {
				return
			}
			last := i+1 == len(versions) || versions[i+1].ID.Name != v.ID.Name
			if err := a.importVersion(ctx, v, last); err != nil {
				a.logger.Error("import", "folder", folder, "model", v.ID.Name, "version", v.ID.Version, "error", err)
			}
		}
	}
}

func (a *App) importVersion(ctx context.Context, v repository.Version, promote bool) error {
	if record, err := a.registry.Record(v.ID.Name); err == nil {
		if stored := record.Version(v.ID.Version); stored != nil {
			return v.SameAs(stored.Files)
		}
	}
	upload, files := v.Upload("import")
	_, err := a.registry.Push(edgewise.WithCause(ctx, admin.CauseImport), upload, promote)
	if closing := files.Close(); err == nil {
		err = closing
	}
	return err
}
