package backend

import "unsafe"

// maxBorrowed bounds the part of the input memory, from its beginning, in which blocks are borrowed. It is a quarter at
// most: clients may be slow, and batches need room.
const maxBorrowed = 32 << 20

// Borrow returns n bytes of the input memory, aligned to 64, for tensors of a later Call, which then are not copied; nil
// when none are free. The caller calls free once, when it reads and writes them no more, which may be after End. The
// backend can make its view of the memory writable: nothing that is checked before it is used may stand there.
func (c *Client) Borrow(n int) (data []byte, free func()) {
	if n <= 0 {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, nil
	}
	at, ok := c.in.allocBelow(uint64(n), min(maxBorrowed, uint64(c.in.Size())/4))
	if !ok {
		return nil, nil
	}
	c.borrowed[at] = uint64(n)
	return c.in.data[at : at+uint64(n) : at+uint64(n)], func() { c.returned(at) }
}

// returned ends the use of a borrowed block.
func (c *Client) returned(at uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.borrowed, at)
	c.vacate(at)
}

// vacate frees a block of the input memory that the backend does not read and that nobody has borrowed. The caller holds
// mu.
func (c *Client) vacate(at uint64) {
	_, borrowed := c.borrowed[at]
	if !borrowed && !c.reads[at] {
		c.in.Free(at)
	}
}

// inPlace notes where the inputs of a call stand that are in one borrowed block already, which the backend reads from then
// on. ok is false when they are to be copied: one stands elsewhere or at no multiple of Alignment, or the backend reads
// the block for another call.
func (c *Client) inPlace(call *Call) (at uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.borrowed) == 0 {
		return 0, false
	}
	placed := make([]Tensor, len(call.Tensors))
	for i := range call.Tensors {
		t := &call.Tensors[i]
		placed[i] = Tensor{Name: t.Name, Type: t.Type, Shape: t.Shape, Size: uint64(len(t.Data))}
		if len(t.Data) == 0 {
			continue
		}
		if placed[i].Offset, ok = c.in.offset(t.Data); !ok {
			return 0, false
		}
	}
	if at, ok = block(placed); !ok {
		return 0, false
	}
	size, ok := c.borrowed[at]
	if !ok || c.reads[at] || extent(placed) > at+align(size) {
		return 0, false
	}
	c.reads[at], call.Inputs = true, placed
	return at, true
}

// offset returns where data stands in the memory; ok is false when it does not, or at no multiple of Alignment.
func (m *Memory) offset(data []byte) (at uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, first := uintptr(unsafe.Pointer(unsafe.SliceData(m.data))), uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	at = uint64(first - from)
	return at, first >= from && at < uint64(len(m.data)) && at%Alignment == 0
}
