package importer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// TestABackupOfWideEnsemblesIsPutInOrder has as many ensembles in each other as there may be, each of which runs many
// versions of the next one.
func TestABackupOfWideEnsemblesIsPutInOrder(t *testing.T) {
	const wide = 64
	var m Backup
	var want []string
	for level := range ensemble.MaxNesting {
		v := &edgewise.Version{Model: &edgewise.Model{}}
		if level+1 < ensemble.MaxNesting {
			v.Model.EnsembleScheduling = &edgewise.EnsembleScheduling{}
			for i := range wide {
				step := edgewise.EnsembleStep{
					ModelName: fmt.Sprint("level", level+1),
					Pinned:    &edgewise.EnsemblePin{Version: int64(i + 1)},
				}
				v.Model.EnsembleScheduling.Step = append(v.Model.EnsembleScheduling.Step, step)
			}
		}
		name := fmt.Sprint("level", level)
		m.Models = append(m.Models, BackupModel{Name: name, Versions: []*edgewise.Version{v}})
		want = slices.Insert(want, 0, name)
	}
	var got []string
	for _, model := range m.inOrder() {
		got = append(got, model.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
