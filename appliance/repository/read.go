package repository

import (
	"context"
	"slices"

	"github.com/edgewise-ai/edgewise"
	layout "github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// kept is a configuration that came with a load, and the state of the folder that it replaced one of.
type kept struct {
	config []byte
	folder string
}

// read is the model as the folder has it, changed by what came with the load, or with the load before while the folder
// is as it was. It returns the configuration that a next load keeps; nil: none.
func (s *Repositories) read(ctx context.Context, name string, c change) (*found, *kept, error) {
	if c.files != nil {
		contents, err := given(name, c)
		return &found{Contents: contents}, nil, err
	}
	contents, err := s.fetched(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	stamp := contents.Stamp()
	keep := &kept{c.config, stamp}
	if c.config == nil {
		keep = s.keeps(name, stamp)
	}
	if keep != nil {
		contents.SetConfig(configOfLoad, keep.config)
	}
	return contents, keep, nil
}

// fetched is what a repository has of a model, with every file of the versions that are to be served, or the last good
// state of a model that does not serve yet and cannot be fetched.
func (s *Repositories) fetched(ctx context.Context, name string) (*found, error) {
	contents, err := s.contents(name)
	if err != nil {
		return nil, err
	}
	if err = fetchPicked(ctx, contents.Contents); err == nil {
		return contents, nil
	}
	if last, ok := s.instead(name); ok && ctx.Err() == nil {
		s.logger.Warn("the last good state of a model is loaded: its present one cannot be fetched", "model", name, "error", err)
		return last, nil
	}
	kind := edgewise.KindOf(err)
	if kind == edgewise.Denied { // to this box, not to the client
		kind = edgewise.Unavailable
	}
	return nil, edgewise.Errorf("repository.Load", kind, "failed to load '%s', failed to poll from model repository: %w", name,
		&unfetchedError{err})
}

// unfetchedError is why the files of a model could not be fetched.
type unfetchedError struct{ cause error }

// Error returns the words of the cause.
func (u *unfetchedError) Error() string { return u.cause.Error() }

// Unwrap returns the cause.
func (u *unfetchedError) Unwrap() error { return u.cause }

// fetchPicked fetches the configuration and the files of the versions that it picks. What is wrong with that is said
// later.
func fetchPicked(ctx context.Context, c *layout.Contents) error {
	if err := layout.Fetch(ctx, c.Configs()); err != nil {
		return err
	}
	declared, err := declaration(c)
	if err != nil {
		return nil //nolint:nilerr // whoever reads the configuration next says it
	}
	files := slices.Clone(c.Shared)
	for _, number := range picked(declared.VersionPolicy, c.Numbers()) {
		files = append(files, c.Versions[number]...)
	}
	return layout.Fetch(ctx, files)
}

// keeps returns the configuration that came with the load that a model serves as, unless its folder has changed.
func (s *Repositories) keeps(name, stamp string) *kept {
	if m := s.brought(name); m != nil && m.wanted && m.kept != nil && m.kept.folder == stamp {
		return m.kept
	}
	return nil
}

// given is the model of the files that came with a load.
func given(name string, c change) (*layout.Contents, error) {
	if c.config == nil {
		return nil, edgewise.Errorf("repository.Load", edgewise.Invalid,
			"failed to load '%s', failed to poll from model repository: "+
				"Load parameter 'config' must be specified for model file override",
			name)
	}
	contents, err := layout.FilesOf(name, c.files)
	if err != nil {
		return nil, edgewise.Errorf("repository.Load", edgewise.KindOf(err),
			"failed to load '%s', failed to poll from model repository: %w", name, err)
	}
	contents.SetConfig(configOfLoad, c.config)
	return contents, nil
}

// configOfLoad is the name of a configuration that came with a load.
const configOfLoad = "config.json"

// declaration reads what the configuration declares, an empty model without one.
func declaration(c *layout.Contents) (*edgewise.Model, error) {
	file, data, err := c.Config()
	if err != nil || file == "" {
		return &edgewise.Model{}, err
	}
	m, err := modelconfig.Parse(file, data)
	if err == nil && m.Name != "" && m.Name != c.Name {
		err = edgewise.Errorf("repository.Load", edgewise.Invalid,
			"unexpected directory name '%s' for model '%s', directory name must equal model name", c.Name, m.Name)
	}
	return m, err
}
