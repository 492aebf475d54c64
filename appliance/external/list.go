package external

import (
	"cmp"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// List describes the backends, by name, and says why some of them cannot be used.
func (b *Backend) List() []admin.Backend {
	list := []admin.Backend{}
	for _, m := range b.Manifests {
		shown := admin.Backend{
			Name: m.Name, Folder: m.Folder, Platforms: m.Platforms, File: m.File, Usable: true, Limits: &admin.BackendLimits{
				Memory: int64(m.Memory), Scratch: int64(m.Scratch), Threads: m.Threads, Network: m.Network, Processes: m.Processes,
				LoadSeconds: m.LoadTimeout.Seconds(),
			},
		}
		if m.Address != "" {
			shown.Address, shown.Limits = m.Address, nil
			shown.Usable, shown.Problem = b.answers(m)
			list = append(list, shown)
			continue
		}
		if program := m.expand(m.Command[0], nil); !found(program) {
			shown.Usable, shown.Problem = false, "there is no program "+program
		}
		list = append(list, shown)
	}
	for _, other := range b.Unusable {
		list = append(list, admin.Backend{
			Name: filepath.Base(other.Folder), Folder: other.Folder, Platforms: []string{}, Problem: other.Err.Error(),
		})
	}
	slices.SortStableFunc(list, func(x, y admin.Backend) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// found tells whether there is a program that can be started.
func found(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
