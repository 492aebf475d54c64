package serving

import (
	"github.com/edgewise-ai/edgewise"
)

// Machine describes what a version of a format runs on, as far as measurements depend on it: cores, processor, runtime, and
// the devices beside the CPU that can be used.
func (l *Loader) Machine(f edgewise.Format) []string {
	t := &load{Loader: l, format: f, version: &edgewise.Version{Model: &edgewise.Model{
		InstanceGroup: []edgewise.InstanceGroup{{Kind: edgewise.KindAuto}},
	}}}
	if list := t.classes(); len(list) > 0 {
		return t.hardware(list)
	}
	return t.hardware([]class{nil})
}
