package repository

import (
	"path"
	"slices"

	"github.com/edgewise-ai/edgewise/pattern"
)

// namedModel finds the models that the steps of an ensemble name, in protobuf text, YAML or JSON.
var namedModel = pattern.New(`\bmodel_name"?\s*:\s*(?:["']([A-Za-z0-9_.,-]+)|([A-Za-z0-9_.-]+))`)

// inOrder puts each model behind those that its configuration names, and otherwise leaves them as they are: an ensemble
// can only be stored when what it runs is there. It looks for names and does not understand the configuration; who
// receives the versions checks them.
func inOrder(versions []Version) []Version {
	groups := map[string][]Version{}
	var names []string
	for _, v := range versions {
		if groups[v.ID.Name] == nil {
			names = append(names, v.ID.Name)
		}
		groups[v.ID.Name] = append(groups[v.ID.Name], v)
	}
	o := &ordering{groups: groups, done: map[string]bool{}}
	for _, name := range names {
		o.add(name)
	}
	return o.versions
}

type ordering struct {
	groups   map[string][]Version
	done     map[string]bool
	versions []Version
}

// add appends a model's versions, and those of the models that it names before them. In a circle one comes first.
func (o *ordering) add(name string) {
	if o.done[name] {
		return
	}
	o.done[name] = true
	for _, v := range o.groups[name] {
		for _, other := range v.names() {
			o.add(other)
		}
	}
	o.versions = append(o.versions, o.groups[name]...)
}

// names lists the models that the version's configuration names.
func (v Version) names() []string {
	var found []string
	for _, f := range v.Files {
		if !f.isConfig() {
			continue
		}
		for _, match := range namedModel.FindAllSubmatch(f.searched(), -1) {
			if name := string(match[1]) + string(match[2]); !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return found
}

// isConfig tells whether a file of a version is its configuration.
func (f File) isConfig() bool { return isConfig(f.Path) }

func isConfig(file string) bool {
	return slices.Contains([]string{"config.pbtxt", "config.yaml", "config.yml", "config.json"}, path.Clean(file))
}

// searched returns the part of a configuration that is searched for names. One that cannot be read is reported by the
// receiver of its version.
func (f File) searched() []byte {
	data, err := f.start(MaxConfigBytes)
	if err != nil {
		return nil
	}
	return data
}
