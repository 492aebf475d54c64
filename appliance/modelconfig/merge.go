package modelconfig

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

// Declared returns what in a declaration, as Read or Parse return it, says that requests may be merged into batches; ""
// when nothing does, so that the model batches only because the box found that it can.
func Declared(m *edgewise.Model) string {
	switch {
	case m.SequenceBatching != nil:
		return "the configuration has sequence_batching"
	case m.DynamicBatching != nil:
		return "the configuration has dynamic_batching"
	case m.MaxBatchSize > 0:
		return fmt.Sprintf("the configuration has max_batch_size %d", m.MaxBatchSize)
	}
	return ""
}

// Unshared says which tensor's first dimension has not the name that those of all others have in the model's file, so
// that it need not be the batch; "" when all have one name. Inputs that have a default stay as they are whatever the
// batch.
func Unshared(ins *edgewise.Inspection) string {
	name, of := "", ""
	for _, side := range []struct {
		what string
		list []edgewise.TensorInfo
	}{{"input", ins.Inputs}, {"output", ins.Outputs}} {
		for _, t := range side.list {
			label := fmt.Sprintf("%s %q", side.what, t.Name)
			switch {
			case t.Optional:
			case len(t.Dims) == 0 || t.Dims[0] == "":
				return fmt.Sprintf("the first dimension of %s has no name in the model file", label)
			case of == "":
				name, of = t.Dims[0], label
			case t.Dims[0] != name:
				return fmt.Sprintf("the first dimension of %s is named %q in the model file, and that of %s %q", label, t.Dims[0],
					of, name)
			}
		}
	}
	return ""
}
