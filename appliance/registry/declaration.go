package registry

import (
	"context"
	"crypto/md5" //nolint:gosec // what Triton's checksum agent knows; the store has its own digests
	"encoding/hex"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// Understand makes the model that a folder of files declares: its configuration, completed from what the backend reads
// in the model's file, and compared with it. With an error the model is nil, unless everything but its declaration's
// contents could be understood: then whatever else is wrong can be reported with it.
func (g *Registry) Understand(ctx context.Context, name, dir string, files []string) (*edgewise.Model, error) {
	declared, err := modelconfig.Read(dir, name)
	if err != nil {
		return nil, err
	}
	return g.completed(ctx, declared, name, dir, files)
}

// Configured is what a stored version comes to with another declaration. Errors: NotFound, and those of Understand,
// without the folder of the store.
func (g *Registry) Configured(
	ctx context.Context, id edgewise.ModelID, declared *edgewise.Model,
) (*edgewise.Model, error) {
	v, err := g.version("registry.Configured", id)
	if err != nil {
		return nil, err
	}
	dir, err := g.store.Dir(v.StoredID())
	if err != nil {
		return nil, err
	}
	m, err := g.completed(ctx, declared, id.Name, dir, v.Paths())
	if err != nil {
		return nil, apistatus.HidePath(err, dir)
	}
	return m, nil
}

// Declared reads what the configuration of a stored version declares, as config.pbtxt. file is the file that it stands
// in, "" for none.
func (g *Registry) Declared(id edgewise.ModelID) (text []byte, file string, err error) {
	v, err := g.version("registry.Declared", id)
	if err != nil {
		return nil, "", err
	}
	dir, err := g.store.Dir(v.StoredID())
	if err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(v.Files, func(f edgewise.File) bool { return slices.Contains(modelconfig.Files(), f.Path) })
	if i < 0 {
		return nil, "", nil
	}
	if file = v.Files[i].Path; file == modelconfig.Pbtxt {
		text, err = os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			err = edgewise.Errorf("registry.Declared", edgewise.Corrupt, "file %q of model %v cannot be read", file, id)
		}
		return text, file, err
	}
	m, err := modelconfig.Read(dir, id.Name)
	if err != nil {
		return nil, file, err
	}
	return modelconfig.Text(m), file, nil
}

// completed is what a declaration comes to for the files in a folder.
func (g *Registry) completed(
	ctx context.Context, declared *edgewise.Model, name, dir string, files []string,
) (*edgewise.Model, error) {
	defaults := g.config.Serving.Defaults()
	identified, err := modelconfig.Identify(declared, name, files, defaults)
	if err != nil {
		return nil, err
	}
	inspection, err := g.InspectFolder(ctx, dir, identified)
	if err != nil {
		return nil, err
	}
	if inspection != nil {
		for _, o := range inspection.Omitted {
			g.logger.Warn("the model is served without a part of it", "model", name, "tensor", o.Name, "reason", o.Reason)
		}
	}
	m, err := modelconfig.Complete(identified, name, files, inspection, defaults)
	if err != nil {
		return nil, err
	}
	if err := modelconfig.Validate(m, files, inspection, defaults); err != nil {
		return m, err
	}
	if err := checkSums(ctx, m, dir); err != nil {
		return nil, err
	}
	if _, err := sched.NewPadding(m, inspection); err != nil || g.config.Accepts == nil {
		return m, err
	}
	return m, g.config.Accepts(m)
}

// InspectFolder reads the model's file in a folder with its backend. An ensemble has none: there is nothing to be read.
func (g *Registry) InspectFolder(ctx context.Context, dir string, m *edgewise.Model) (*edgewise.Inspection, error) {
	if ensemble.Is(m) {
		return nil, nil
	}
	return g.config.Serving.Inspect(ctx, dir, m)
}

// checkSums holds the files in dir against the sums that a model's checksum agent wants. Errors: Corrupt, with the file
// and both sums; Internal.
func checkSums(ctx context.Context, m *edgewise.Model, dir string) error {
	sums := modelconfig.Checksums(m)
	for _, path := range slices.Sorted(maps.Keys(sums)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := sumOf(filepath.Join(dir, filepath.FromSlash(path)))
		if err != nil {
			return edgewise.Errorf("registry.checkSums", edgewise.Internal, "model %q: file %q: %w", m.Name, path, err)
		}
		if !slices.Contains(sums[path], got) {
			return edgewise.Errorf("registry.checkSums", edgewise.Corrupt,
				"model %q: file %q is not what the checksum agent expects: MD5 %s, want %s",
				m.Name, path, got, strings.Join(sums[path], " or "))
		}
	}
	return nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := md5.New() //nolint:gosec // as above
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// LoadVersion makes a stored version ready to serve. The files of one that a repository brought stay until it is
// closed.
func (g *Registry) LoadVersion(ctx context.Context, v *edgewise.Version) (*manager.Loaded, error) {
	dir, err := g.store.Dir(v.StoredID())
	if err != nil {
		return nil, err
	}
	if g.config.Loading != nil {
		defer g.config.Loading(v.ID)()
	}
	if v.Stored == 0 {
		return g.loadFrom(ctx, v, dir)
	}
	g.opened(v)
	loaded, err := g.loadFrom(ctx, v, dir)
	if err != nil {
		g.closed(v)
		return nil, err
	}
	loaded.OnClose = append(loaded.OnClose, func() { g.closed(v) })
	return loaded, nil
}

// loadFrom loads a version whose files stand in dir. The manager has loaded the parts of an ensemble.
func (g *Registry) loadFrom(ctx context.Context, v *edgewise.Version, dir string) (loaded *manager.Loaded, err error) {
	if ensemble.Is(v.Model) {
		parts, err := ensemble.Parts(v.Model, g.Lookup)
		if err != nil {
			return nil, err
		}
		loaded, err = g.config.Serving.LoadEnsemble(v, parts)
		if err != nil {
			return nil, err
		}
	} else if loaded, err = g.config.Serving.Load(ctx, v, dir, g.declaration(v)); err != nil {
		return nil, err
	}
	g.withClasses(loaded, v, dir)
	return loaded, nil
}

// Footprint estimates what a version takes while it is loaded, and whether it may take the place of its predecessor.
func (g *Registry) Footprint(ctx context.Context, v *edgewise.Version) (manager.Footprint, error) {
	dir, err := g.store.Dir(v.StoredID())
	if err != nil {
		return manager.Footprint{}, err
	}
	return g.config.Serving.Footprint(ctx, v, dir)
}
