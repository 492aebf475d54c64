package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// Describer is a Backend that can ask its runtime for what a model's files leave open.
type Describer interface {
	// Describe returns what the runtime says of the model's outputs. An output that is no tensor, or of a type that there
	// is none for, has InvalidType and says in Datatype what it is. The files are loaded for that by native code. Errors:
	// those of Backend.Load.
	Describe(ctx context.Context, dir string, m *edgewise.Model) ([]edgewise.TensorInfo, error)
}

var _ Describer = (*Backend)(nil)

// Describe starts a child that says what its runtime knows of a model's outputs, and ends it. Errors: those of Load.
func (b *Backend) Describe(ctx context.Context, dir string, m *edgewise.Model) ([]edgewise.TensorInfo, error) {
	task := member{Version: &edgewise.Version{Model: m}, Dir: dir, Describe: true}
	i := newInstance(b, edgewise.ModelID{Name: m.Name}, task)
	defer i.arena.close()
	i.group = newGroup(b, "")
	ctx, cancel := context.WithTimeout(ctx, b.config.LoadTimeout)
	defer cancel()
	p, err := b.spawn(i.group, []*Instance{i}, 1, Place{})
	if err != nil {
		return nil, edgewise.Errorf("runner.Describe", edgewise.Internal,
			"model %q: a process that reads it cannot be started: %w", m.Name, err)
	}
	defer p.end()
	frame, err := p.first(ctx)
	if err == nil && kind(frame[0]) == kindDescribed {
		outputs, err := decodeDescription(frame[1:])
		if err != nil {
			return nil, edgewise.Errorf("runner.Describe", edgewise.Internal,
				"model %q: the description that its process sent cannot be used: %w", m.Name, err)
		}
		return outputs, nil
	}
	if err == nil && kind(frame[0]) == kindReady {
		err = errFrame
	}
	return nil, p.verdict(frame, err)
}

// describe answers the parent's Describe, in the child.
func describe(b edgewise.Backend, m member) error {
	d, can := b.(Describer)
	if !can {
		return edgewise.Errorf("runner.describe", edgewise.Unsupported,
			"model %q: the backend of platform %q describes no models", m.Version.Model.Name, m.Version.Model.Platform)
	}
	outputs, err := d.Describe(context.Background(), m.Dir, m.Version.Model)
	if err != nil {
		return err
	}
	content, err := json.Marshal(outputs)
	if err != nil {
		return err
	}
	if len(content) >= maxFrame {
		return edgewise.Errorf("runner.describe", edgewise.TooLarge,
			"model %q: what the runtime says of its outputs takes %d bytes, at most %d are allowed",
			m.Version.Model.Name, len(content), maxFrame-1)
	}
	return send(controlFD, append([]byte{byte(kindDescribed)}, content...), nil, 0)
}

// maxDatatype bounds the words for a type that there is none for.
const maxDatatype = 128

// decodeDescription reads what a child says of a model's outputs. It does not trust it.
func decodeDescription(content []byte) ([]edgewise.TensorInfo, error) {
	var outputs []edgewise.TensorInfo
	if err := json.Unmarshal(content, &outputs); err != nil {
		return nil, err
	}
	if len(outputs) > maxTensors {
		return nil, fmt.Errorf("%d outputs, at most %d are allowed", len(outputs), maxTensors)
	}
	for i := range outputs {
		if err := checkDescribed(&outputs[i]); err != nil {
			return nil, fmt.Errorf("output %d: %w", i, err)
		}
		outputs[i].Type, _ = edgewise.ParseDataType(outputs[i].Datatype)
	}
	return outputs, nil
}

func checkDescribed(t *edgewise.TensorInfo) error {
	if len(t.Shape) > edgewise.MaxRank {
		return fmt.Errorf("%d dimensions, at most %d are allowed", len(t.Shape), edgewise.MaxRank)
	}
	if len(t.Datatype) > maxDatatype {
		return fmt.Errorf("%d bytes for its type, at most %d are allowed", len(t.Datatype), maxDatatype)
	}
	if d := slices.IndexFunc(t.Shape, func(d int64) bool { return d < -1 }); d >= 0 {
		return fmt.Errorf("dimension %d is %d, at least -1 is allowed", d, t.Shape[d])
	}
	return nil
}
