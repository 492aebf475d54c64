package sequence

import (
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// gather makes the inputs of a batch: those of the clients, the controls, the states. The next batch reuses its memory.
func (l *instanceLoop) gather(batch []*request) []edgewise.Tensor {
	b, first := l.direct.of, leader(batch)
	var inputs []edgewise.Tensor
	for i := range first.call.inputs {
		rows := make([]edgewise.Tensor, len(batch))
		for row, c := range batch {
			if c == nil {
				c = first
			}
			rows[row] = c.call.inputs[i]
		}
		inputs = append(inputs, l.below(rows))
	}
	signals := make([]signal, len(batch))
	for row, c := range batch {
		if c != nil {
			signals[row] = b.signal(c)
		}
	}
	for i := range b.controls {
		inputs = append(inputs, b.controls[i].tensor(signals, true))
	}
	found := make([][]edgewise.Tensor, len(batch))
	lead := b.states.of(&first.of.state, first.start)
	for row, c := range batch {
		found[row] = lead
		if c != nil && c != first {
			found[row] = b.states.of(&c.of.state, c.start)
		}
	}
	for i := range b.states.rules {
		rows := make([]edgewise.Tensor, len(batch))
		for row := range batch {
			rows[row] = found[row][i]
		}
		inputs = append(inputs, l.below(rows))
	}
	return inputs
}

// below makes one tensor of tensors with one row each.
func (l *instanceLoop) below(rows []edgewise.Tensor) edgewise.Tensor {
	size := 0
	for i := range rows {
		size += len(rows[i].Data)
	}
	data := l.buffers[rows[0].Name]
	if cap(data) < size {
		data = sched.AlignedBytes(size)
	}
	data = data[:0]
	for i := range rows {
		data = append(data, rows[i].Data...)
	}
	l.buffers[rows[0].Name] = data
	shape := append(edgewise.Shape{int64(len(rows))}, rows[0].Shape[1:]...)
	return edgewise.Tensor{Name: rows[0].Name, Type: rows[0].Type, Shape: shape, Data: data}
}

// distribute gives each request of a batch its row of the outputs, and its sequence the state. Error: Internal, when
// the outputs cannot be split by rows; then no state has changed.
func (l *instanceLoop) distribute(response *edgewise.Response, batch []*request, began time.Time) error {
	b := l.direct.of
	parts, err := sched.Split(response.Outputs, len(batch), len(batch), func(int) int { return 1 })
	if err != nil {
		response.Release()
		return err
	}
	users := 1
	for _, c := range batch {
		if c != nil {
			users++
		}
	}
	b.spare.Add(int64(len(batch) - users + 1))
	timing := response.Timing
	release := sched.ShareResult(&edgewise.Result{Free: response.Release}, users, &b.shared)
	for row, c := range batch {
		if c == nil {
			continue
		}
		if err := b.settle(c, parts.Of(row)); err != nil {
			c.call.err = err
			release()
			continue
		}
		own := &edgewise.Response{ID: c.call.request.ID, Model: response.Model, Timing: timing, Free: release}
		own.Timing.Sequence = began.Sub(c.arrived)
		own.Timing.Queue += own.Timing.Sequence
		for _, name := range c.call.want {
			own.Outputs = append(own.Outputs, *outputOf(parts.Of(row), name))
		}
		c.call.response = own
	}
	release()
	return nil
}

func outputOf(outputs []edgewise.Tensor, name string) *edgewise.Tensor {
	for i := range outputs {
		if outputs[i].Name == name {
			return &outputs[i]
		}
	}
	return &edgewise.Tensor{Name: name}
}
