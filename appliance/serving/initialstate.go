package serving

import (
	"fmt"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
	"github.com/edgewise-ai/edgewise/store"
)

// initialStates makes the tensors that a model's sequences begin with, by the name of the state's input and without a
// batch dimension. Data files stand in the version's folder "initial_state" and hold the elements as they are in a
// tensor: row-major, little-endian, strings behind their lengths. Error: Invalid.
func initialStates(m *edgewise.Model, dir string) ([]edgewise.Tensor, error) {
	var list []edgewise.Tensor
	for _, s := range m.SequenceBatching.State {
		for _, initial := range s.InitialState {
			t, err := initialState(s.InputName, initial, dir)
			if err != nil {
				return nil, edgewise.Errorf("serving.initialStates", edgewise.Invalid,
					"model %q: state %q: initial_state: %w", m.Name, s.InputName, err)
			}
			list = append(list, t)
		}
	}
	return list, nil
}

func initialState(input string, from edgewise.InitialState, dir string) (edgewise.Tensor, error) {
	t := edgewise.Tensor{Name: input, Type: from.DataType, Shape: from.Dims}
	size := from.DataType.Size()
	if from.DataType == edgewise.Bytes {
		size = 4 // the length of an empty string
	}
	n, ok := from.Dims.Elements()
	if !ok || n > modelconfig.MaxStateBytes/max(size, 1) {
		return t, fmt.Errorf("dims %v take more than %d bytes", from.Dims, modelconfig.MaxStateBytes)
	}
	if from.DataFile == "" {
		t.Data, _ = trial.Zeros(from.DataType, n)
		return t, nil
	}
	if err := edgewise.CheckPath(from.DataFile); err != nil {
		return t, err
	}
	var err error
	if t.Data, err = store.ReadBounded(filepath.Join(dir, modelconfig.InitialStateFolder,
		filepath.FromSlash(from.DataFile)), modelconfig.MaxStateBytes); err != nil {
		return t, err
	}
	if err := t.Check(); err != nil {
		return t, fmt.Errorf("file %q: %w", from.DataFile, err)
	}
	return t, nil
}
