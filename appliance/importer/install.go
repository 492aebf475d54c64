package importer

import (
	"context"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
)

// Install fetches the version that a reference of a registry names and stores it as one of a model. The same version that is stored
// already is returned. What an interrupted attempt has fetched is not fetched again. Errors: those of Config.Fetch and of a push.
func (im *Importer) Install(ctx context.Context, model, reference string) (*edgewise.Version, error) {
	const op = "importer.Install"
	dir, err := os.MkdirTemp(im.config.Folder, "install-") // which the next start removes, if this does not
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Exhausted, "a folder for %s cannot be made", reference)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	select {
	case im.fetching <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	folder := filepath.Join(dir, "files")
	pinned, err := im.config.Fetch(ctx, reference, folder, func(int64, int64) {})
	<-im.fetching
	if err != nil {
		return nil, err
	}
	select {
	case <-im.turn:
		defer func() { im.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var c *candidate
	err = im.safely(reference, func() error {
		found, err := im.candidates(uploads.File{Filename: model + ".oci", Model: model}, "", folder)
		if err == nil && len(found) != 1 {
			err = edgewise.Errorf(op, edgewise.Invalid, "%s has %d versions: want one", reference, len(found))
		}
		if err != nil {
			return err
		}
		c = found[0]
		return im.storeOne(ctx, c, pinned, "")
	})
	if err != nil {
		return nil, apistatus.HidePath(err, dir)
	}
	if record := im.config.Models.Lookup(model); record != nil && record.Version(c.stored) != nil {
		return record.Version(c.stored), nil
	}
	return nil, edgewise.Errorf(op, edgewise.NotFound, "version %d of model %q was deleted at once", c.stored, model)
}
