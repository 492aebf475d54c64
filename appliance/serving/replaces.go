package serving

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// Replaces tells whether a loaded version has to be loaded again to become another one: unless nothing but instance
// groups and the version policy differ, which need no load where an instance is neither a process of its own nor, on a box
// with a GPU, a session there.
func (l *Loader) Replaces(old, now *edgewise.Version) bool {
	if old.Model == now.Model && slices.Equal(old.Files, now.Files) {
		return false
	}
	_, f, err := l.find(now.Model)
	apart := err == nil && (f.External && !f.Remote || l.mayRunOnGPU(now.Model, f))
	if apart && old.Model.Instances() != now.Model.Instances() {
		return true
	}
	same, err := sameButInstances(old.Model, now.Model)
	return err != nil || !same || !sameDevices(old.Model, now.Model) || !slices.Equal(modelFiles(old), modelFiles(now))
}

// mayRunOnGPU tells whether the box has a device beside the CPU that a model's instance groups allow.
func (l *Loader) mayRunOnGPU(m *edgewise.Model, f edgewise.Format) bool {
	if !slices.Contains(f.Devices, edgewise.GPU) || !slices.ContainsFunc(m.InstanceGroup, offCPU) {
		return false
	}
	_, reason := l.config.Devices.Usable()
	return reason == nil
}

// modelFiles are the files of a version without its configuration, which Model has already.
func modelFiles(v *edgewise.Version) []edgewise.File {
	return slices.DeleteFunc(slices.Clone(v.Files),
		func(f edgewise.File) bool { return slices.Contains(modelconfig.Files(), f.Path) })
}

// sameDevices tells whether the instance groups of two models ask for the same devices.
func sameDevices(a, b *edgewise.Model) bool {
	asked := func(m *edgewise.Model) map[string]bool {
		all := map[string]bool{}
		for _, g := range m.InstanceGroup {
			all[fmt.Sprint(g.Kind, g.GPUs)] = true
		}
		return all
	}
	return maps.Equal(asked(a), asked(b))
}

// sameButInstances tells whether models differ in nothing but instance_group and version_policy. It compares the JSON
// forms, in which nil and empty are the same, as they are for authors.
func sameButInstances(a, b *edgewise.Model) (bool, error) {
	var forms [2][]byte
	for i, m := range []*edgewise.Model{a, b} {
		bare := *m
		bare.InstanceGroup, bare.VersionPolicy = []edgewise.InstanceGroup{}, nil
		var err error
		if forms[i], err = json.Marshal(&bare); err != nil {
			return false, err
		}
	}
	return bytes.Equal(forms[0], forms[1]), nil
}
