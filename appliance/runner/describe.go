package runner

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

var _ edgewise.Describer = (*Backend)(nil)

// Describe starts a child that says what its runtime knows of a model's outputs, and ends it. Errors: those of Load.
func (b *Backend) Describe(ctx context.Context, dir string, m *edgewise.Model) ([]edgewise.TensorInfo, error) {
	i := newInstance(b, edgewise.ModelID{Name: m.Name}, member{Version: &edgewise.Version{Model: m}, Dir: dir, Describe: true})
	defer i.arena.close()
	i.group = newGroup(b, "")
	ctx, cancel := context.WithTimeout(ctx, b.config.LoadTimeout)
	defer cancel()
	p, err := b.spawn(i.group, []*Instance{i}, 1)
	if err != nil {
		return nil, edgewise.Errorf("runner.Describe", edgewise.Internal, "model %q: a process that reads it cannot be started: %w", m.Name, err)
	}
	defer p.end()
	frame, err := p.first(ctx)
	if err == nil && kind(frame[0]) == kindDescribed {
		return decodeDescription(frame[1:])
	}
	if err == nil && kind(frame[0]) == kindReady {
		err = errFrame
	}
	return nil, p.verdict(frame, err)
}

// describe answers the parent's Describe, in the child.
func describe(b edgewise.Backend, m member) error {
	d, can := b.(edgewise.Describer)
	if !can {
		return edgewise.Errorf("runner.describe", edgewise.Unsupported, "model %q: the backend of platform %q describes no models",
			m.Version.Model.Name, m.Version.Model.Platform)
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
			"model %q: what the runtime says of its outputs takes %d bytes, at most %d are allowed", m.Version.Model.Name, len(content), maxFrame-1)
	}
	return send(controlFD, append([]byte{byte(kindDescribed)}, content...), nil, 0)
}

// maxDatatype bounds the words for a type that there is none for.
const maxDatatype = 128

// decodeDescription reads what a child says of a model's outputs. It does not trust it.
func decodeDescription(content []byte) ([]edgewise.TensorInfo, error) {
	var outputs []edgewise.TensorInfo
	err := json.Unmarshal(content, &outputs)
	if err == nil && (len(outputs) > maxTensors || slices.ContainsFunc(outputs, impossible)) {
		err = errors.New("a tensor that cannot be")
	}
	if err != nil {
		return nil, edgewise.Errorf("runner.Describe", edgewise.Internal, "a process that reads a model answered with %w", err)
	}
	for i := range outputs {
		outputs[i].Type, _ = edgewise.ParseDataType(outputs[i].Datatype)
	}
	return outputs, nil
}

func impossible(t edgewise.TensorInfo) bool {
	return len(t.Shape) > edgewise.MaxRank || len(t.Datatype) > maxDatatype ||
		slices.ContainsFunc(t.Shape, func(d int64) bool { return d < -1 })
}
