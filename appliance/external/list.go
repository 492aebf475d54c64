package external

import (
	"cmp"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// List describes the backends, by name, and says why some of them cannot be used. Servers are asked at once, for at most
// 5 seconds.
func (b *Backend) List(ctx context.Context) []admin.Backend {
	list := make([]admin.Backend, len(b.Manifests))
	var asked sync.WaitGroup
	for i, m := range b.Manifests {
		shown := admin.Backend{
			Name: m.Name, Folder: m.Folder, Platforms: m.Platforms, File: m.File, Usable: true, Limits: &admin.BackendLimits{
				Memory: int64(m.Memory), Scratch: int64(m.Scratch), Threads: m.Threads, Network: m.Network, Processes: m.Processes,
				LoadSeconds: m.LoadTimeout.Seconds(),
			},
		}
		if m.Address != "" {
			shown.Address, shown.Limits = m.Address, nil
		} else if program := m.expand(m.Command[0], nil); !found(program) {
			shown.Usable, shown.Problem = false, "there is no program "+program
		}
		if list[i] = shown; m.Address != "" {
			asked.Go(func() { list[i].Usable, list[i].Problem = b.answers(ctx, m) })
		}
	}
	asked.Wait()
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
