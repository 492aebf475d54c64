package catalog

import (
	"context"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// Configuration describes a version with its configuration, changed as edit says, and what differs from the live
// version. What is wrong with the configuration is in the answer. Nothing is stored. Errors: NotFound, Invalid for what
// edit sets, Unsupported for an ensemble.
func (c *Catalog) Configuration(ctx context.Context, id edgewise.ModelID, edit admin.ConfigurationEdit,
) (admin.VersionConfiguration, error) {
	out := admin.VersionConfiguration{Problems: []admin.ConfigurationProblem{}, Differences: []admin.Difference{}}
	v, err := c.stored(id)
	if err != nil {
		return out, err
	}
	if ensemble.Is(v.Model) {
		return out, edgewise.Errorf("catalog.Configuration", edgewise.Unsupported,
			"model %v is an ensemble: change its draft and publish it", id)
	}
	text, file, err := c.config.Registry.Declared(id)
	if err != nil {
		return out, err
	}
	out.File = file
	if edit.Text != nil {
		text = []byte(*edit.Text)
	}
	out.Text = string(text)
	declared, err := modelconfig.Parse(modelconfig.Pbtxt, text)
	if err == nil && len(edit.Set) > 0 {
		if text, err = modelconfig.Edit(text, edit.Set); err != nil {
			return out, err
		}
		out.Text = string(text)
		declared, err = modelconfig.Parse(modelconfig.Pbtxt, text)
	}
	if err != nil {
		out.Problems = problems(text, err)
		return out, nil
	}
	out.Declared = modelconfig.Clone(declared)
	if out.Config, err = c.config.Registry.Configured(ctx, id, declared); err != nil {
		out.Config, out.Problems = nil, problems(text, err)
		return out, configurationFailure(err)
	}
	live := c.live(v)
	out.Compared = live.ID.Version
	out.Differences = append(out.Differences, admin.SignatureDifferences(live.Model, out.Config)...)
	out.Differences = append(out.Differences, configDifferences(live.Model, out.Config)...)
	out.Differences = append(out.Differences, fileDifferences(unconfigured(live.Files), unconfigured(v.Files))...)
	return out, nil
}

// configurationFailure returns the error of a configuration that is not about the configuration.
func configurationFailure(err error) error {
	switch edgewise.KindOf(err) {
	case edgewise.Invalid, edgewise.Unsupported, edgewise.TooLarge, edgewise.Corrupt:
		return nil
	}
	return err
}

func problems(text []byte, err error) []admin.ConfigurationProblem {
	list := []admin.ConfigurationProblem{}
	for _, p := range modelconfig.Problems(text, err) {
		list = append(list, admin.ConfigurationProblem{Line: p.Line, Text: p.Text})
	}
	return list
}

// live returns the live version of v's model, v where there is none.
func (c *Catalog) live(v *edgewise.Version) *edgewise.Version {
	if r, err := c.config.Registry.Record(v.ID.Name); err == nil {
		if live := r.Version(r.Label(edgewise.LiveLabel)); live != nil {
			return live
		}
	}
	return v
}

// unconfigured leaves out configurations, which are compared by what they say.
func unconfigured(files []edgewise.File) []edgewise.File {
	return slices.DeleteFunc(slices.Clone(files), func(f edgewise.File) bool {
		return slices.Contains(modelconfig.Files(), f.Path)
	})
}
