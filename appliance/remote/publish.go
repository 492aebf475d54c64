package remote

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// Registries are the OCI registries of imports and of the administration.
type Registries struct {
	Config  config.Config
	Version string // of the program
	Logger  *slog.Logger
	// Record returns a stored model, Dir the folder of a version of it, Box the settings of the box.
	Record func(name string) (*edgewise.Record, error)
	Dir    func(id edgewise.ModelID) (string, error)
	Box    func() admin.Settings
}

func (r Registries) logger() *slog.Logger { return r.Logger.With("part", "registries") }

// Fetch makes a folder with the files of the version that a reference names. Pull describes it.
func (r Registries) Fetch(ctx context.Context, reference, folder string, progress func(done, total int64)) (string, error) {
	return Pull(ctx, r.Config, reference, folder, progress, r.logger())
}

// Publish publishes a version under a reference with a tag, with where it comes from. Errors: NotFound, Invalid, Denied, Unavailable,
// Corrupt, TooLarge, Unsupported (the program is not there).
func (r Registries) Publish(ctx context.Context, id edgewise.ModelID, reference string) (p admin.PublishedVersion, err error) {
	record, err := r.Record(id.Name)
	if err != nil {
		return p, err
	}
	v := record.Version(id.Version)
	if v == nil {
		return p, edgewise.Errorf("remote.Publish", edgewise.NotFound, "model %q has no version %d", id.Name, id.Version)
	}
	dir, err := r.Dir(v.StoredID())
	if err != nil {
		return p, err
	}
	name := strings.TrimPrefix(reference, scheme)
	p.Digest, err = Push(ctx, r.Config, scheme+name, dir, v, map[string]string{
		"org.opencontainers.image.created": v.Created.UTC().Format(time.RFC3339),
		"org.opencontainers.image.title":   v.ID.Name,
		"org.opencontainers.image.version": fmt.Sprint(v.ID.Version),
		"ai.edgewise.box":                  r.Box().Name,
		"ai.edgewise.model.digest":         string(v.Digest),
		"ai.edgewise.model.origin":         v.Origin,
		"ai.edgewise.version":              r.Version,
	}, r.logger())
	p.Reference = pinned(name, p.Digest)
	return p, err
}
