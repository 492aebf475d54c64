package frontend

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

// MinBorrowed is from how many bytes of tensors on memory of the model is asked for: copying fewer takes no longer than
// asking.
const MinBorrowed = 64 << 10

// Borrowed is memory of a model for the tensors of one request (decision 0038). Another process can write to it at any
// time.
type Borrowed struct {
	Bytes  []byte // nil: there is none
	free   func()
	framed *blocks.Block // copies of tensors whose content is checked before it is used; nil: there are none
}

// Borrow returns memory of a model for n bytes of tensors, aligned to 64 and counted with b, and nothing where there is
// none to borrow. The caller releases it.
func (d *Deps) Borrow(b *blocks.Block, id edgewise.ModelID, n int64) Borrowed {
	if n < MinBorrowed || d.AllocBody == nil {
		return Borrowed{}
	}
	data, free := d.AllocBody(id, int(n))
	if data == nil {
		return Borrowed{}
	}
	if !b.Hold(n) {
		free()
		return Borrowed{}
	}
	return Borrowed{Bytes: data, free: free}
}

// CopyFramed copies the inputs whose elements have frames out of the memory that others can write to. Error:
// blocks.ErrFull.
func (m *Borrowed) CopyFramed(memory *blocks.Memory, inputs []edgewise.Tensor) error {
	total := int64(0)
	for i := range inputs {
		if inputs[i].Type == edgewise.Bytes {
			total += int64(len(inputs[i].Data))
		}
	}
	if m.Bytes == nil || total == 0 {
		return nil
	}
	if m.framed = memory.Take(total); m.framed == nil {
		return blocks.ErrFull
	}
	room := m.framed.Bytes
	for i := range inputs {
		if t := &inputs[i]; t.Type == edgewise.Bytes {
			n := copy(room, t.Data)
			t.Data, room = room[:n:n], room[n:]
		}
	}
	return nil
}

// Release ends the use of the memory. It may be called more than once, by one goroutine.
func (m *Borrowed) Release() {
	m.framed.Free()
	if m.free != nil {
		m.free()
	}
	*m = Borrowed{}
}
