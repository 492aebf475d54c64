package appliance

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// replaces tells whether a loaded version has to be loaded anew to become another one: unless nothing but instance groups
// and the version policy differ, which need no load.
func replaces(old, now *edgewise.Version) bool {
	if old.Model == now.Model && slices.Equal(old.Files, now.Files) {
		return false
	}
	same, err := sameButInstances(old.Model, now.Model)
	return err != nil || !same || !sameDevices(old.Model, now.Model) || !slices.Equal(modelFiles(old), modelFiles(now))
}

// modelFiles are the files of a version without its configuration, which Model has already.
func modelFiles(v *edgewise.Version) []edgewise.File {
	return slices.DeleteFunc(slices.Clone(v.Files), func(f edgewise.File) bool { return slices.Contains(modelconfig.Files(), f.Path) })
}
