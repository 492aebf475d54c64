package sched

import (
	"time"

	"github.com/edgewise-ai/edgewise"
)

// gather makes the inputs of a round: what clients sent, the controls, the states. Its memory is used again by the next
// round.
func (m *machine) gather(turns []*turn) []edgewise.Tensor {
	s, first := m.rounds.of, leader(turns)
	var inputs []edgewise.Tensor
	for i := range first.call.inputs {
		rows := make([]edgewise.Tensor, len(turns))
		for row, c := range turns {
			if c == nil {
				c = first
			}
			rows[row] = c.call.inputs[i]
		}
		inputs = append(inputs, m.below(rows))
	}
	signals := make([]signal, len(turns))
	for row, c := range turns {
		if c != nil {
			signals[row] = s.signal(c)
		}
	}
	for i := range s.controls {
		inputs = append(inputs, s.controls[i].tensor(signals, true))
	}
	found := make([][]edgewise.Tensor, len(turns))
	lead := s.states.of(&first.of.state, first.start)
	for row, c := range turns {
		found[row] = lead
		if c != nil && c != first {
			found[row] = s.states.of(&c.of.state, c.start)
		}
	}
	for i := range s.states.rules {
		rows := make([]edgewise.Tensor, len(turns))
		for row := range turns {
			rows[row] = found[row][i]
		}
		inputs = append(inputs, m.below(rows))
	}
	return inputs
}

// below puts tensors of one row each below each other.
func (m *machine) below(rows []edgewise.Tensor) edgewise.Tensor {
	size := 0
	for i := range rows {
		size += len(rows[i].Data)
	}
	data := m.buffers[rows[0].Name]
	if cap(data) < size {
		data = alignedBytes(size)
	}
	data = data[:0]
	for i := range rows {
		data = append(data, rows[i].Data...)
	}
	m.buffers[rows[0].Name] = data
	shape := append(edgewise.Shape{int64(len(rows))}, rows[0].Shape[1:]...)
	return edgewise.Tensor{Name: rows[0].Name, Type: rows[0].Type, Shape: shape, Data: data}
}

// distribute gives each request of a round its row of the outputs, and its sequence the state. Error: Internal, when the
// outputs cannot be split by rows; then no state has changed.
func (m *machine) distribute(response *edgewise.Response, turns []*turn, began time.Time) error {
	s := m.rounds.of
	for len(m.parts) < len(turns) {
		m.parts = append(m.parts, &job{batch: 1})
	}
	parts := m.parts[:len(turns)]
	if err := split(response.Outputs, parts, len(turns)); err != nil {
		response.Release()
		return err
	}
	users := 1
	for _, c := range turns {
		if c != nil {
			users++
		}
	}
	s.spare.Add(int64(len(turns) - users + 1))
	timing := response.Timing
	share := newShare(&edgewise.Result{Free: response.Release}, users, &s.lent)
	for row, c := range turns {
		if c == nil {
			continue
		}
		if err := s.settle(c, parts[row].outputs); err != nil {
			c.call.err = err
			share()
			continue
		}
		own := &edgewise.Response{ID: c.call.request.ID, Model: response.Model, Timing: timing, Free: share}
		own.Timing.Queue += began.Sub(c.arrived)
		for _, name := range c.call.want {
			own.Outputs = append(own.Outputs, *outputOf(parts[row].outputs, name))
		}
		c.call.response = own
	}
	share()
	for _, part := range parts {
		part.outputs = nil
	}
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
