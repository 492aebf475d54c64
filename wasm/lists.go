package wasm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/tetratelabs/wazero/api"

	"github.com/edgewise-ai/edgewise"
)

// plan is where each part of a list goes, relative to its block.
type plan struct {
	names, shapes, data []uint64
	size                uint64
}

func layout(tensors []edgewise.Tensor) plan {
	n := len(tensors)
	offsets := make([]uint64, 3*n)
	l := plan{offsets[:n], offsets[n : 2*n], offsets[2*n:], listHeader + tensorRecord*uint64(n)}
	for i := range tensors {
		l.shapes[i] = l.size
		l.size += 8 * uint64(len(tensors[i].Shape))
	}
	for i := range tensors {
		l.names[i] = l.size
		l.size += uint64(len(tensors[i].Name))
	}
	for i := range tensors {
		l.size = (l.size + dataAlign - 1) / dataAlign * dataAlign
		l.data[i] = l.size
		l.size += uint64(len(tensors[i].Data))
	}
	return l
}

// writeList puts tensors into one block of memory that the guest provides and returns where it stands.
// An error is an *edgewise.Error; the guest must be dropped then.
func (c *call) writeList(alloc api.Function, tensors []edgewise.Tensor) (uint32, error) {
	l := layout(tensors)
	if l.size > math.MaxInt32 {
		return 0, edgewise.Errorf("wasm.Run", edgewise.TooLarge,
			"step: the tensors take %d bytes: at most %d fit into a step", l.size, math.MaxInt32)
	}
	stack := [2]uint64{l.size, dataAlign}
	if err := c.invoke(exportAlloc, alloc, stack[:]); err != nil {
		return 0, err
	}
	base := uint32(stack[0])
	memory := uint64(c.g.linear.Size())
	switch {
	case base == 0:
		return 0, edgewise.Errorf("wasm.Run", edgewise.Guest,
			"step: edgewise_alloc has no memory for %d bytes of tensors: the memory has %d of at most %d", l.size, memory,
			uint64(c.p.module.MaxPages)*65536)
	case base%dataAlign != 0:
		return 0, edgewise.Errorf("wasm.Run", edgewise.Guest, "step: edgewise_alloc returned %d, which is not a multiple of %d", base, dataAlign)
	case uint64(base)+l.size > memory:
		return 0, edgewise.Errorf("wasm.Run", edgewise.Guest,
			"step: edgewise_alloc returned %d: %d bytes there leave the memory, which has %d", base, l.size, memory)
	}
	block, _ := c.g.linear.Read(base, uint32(l.size))
	fill(block, base, l, tensors)
	return base, nil
}

// fill writes a list.
func fill(block []byte, base uint32, l plan, tensors []edgewise.Tensor) {
	le := binary.LittleEndian
	le.PutUint32(block, uint32(len(tensors)))
	le.PutUint32(block[4:], 0)
	for i := range tensors {
		t := &tensors[i]
		r := block[listHeader+tensorRecord*i:]
		le.PutUint32(r, base+uint32(l.names[i]))
		le.PutUint32(r[4:], uint32(len(t.Name)))
		le.PutUint32(r[8:], uint32(t.Type))
		le.PutUint32(r[12:], uint32(len(t.Shape)))
		le.PutUint32(r[16:], base+uint32(l.shapes[i]))
		le.PutUint32(r[20:], base+uint32(l.data[i]))
		le.PutUint64(r[24:], uint64(len(t.Data)))
		for k, d := range t.Shape {
			le.PutUint64(block[l.shapes[i]+8*uint64(k):], uint64(d))
		}
		copy(block[l.names[i]:], t.Name)
		copy(block[l.data[i]:], t.Data)
	}
}

// lister reads a list that a guest made and keeps the first thing that is wrong with it.
type lister struct {
	memory []byte
	what   string // such as `step: output`
	err    *edgewise.Error
}

// field names what is looked at. It becomes text where something is wrong with that: most lists are read for every
// request.
type field struct {
	index int    // of the tensor, while it has no name
	name  string // of the tensor
	part  string // of the tensor; of none, of the list
}

func (f field) of(part string) field {
	f.part = part
	return f
}

func (f field) String() string {
	switch {
	case f.index < 0:
		return f.part
	case f.name == "" && f.part == "":
		return strconv.Itoa(f.index)
	case f.name == "":
		return strconv.Itoa(f.index) + ": " + f.part
	case f.part == "":
		return strconv.Quote(f.name)
	}
	return strconv.Quote(f.name) + ": " + f.part
}

func (l *lister) fail(f field, format string, args ...any) {
	if l.err == nil {
		l.err = edgewise.Errorf("wasm.Run", edgewise.Guest, "%s %s: %s", l.what, f, fmt.Sprintf(format, args...))
	}
}

// view returns size bytes at pointer, nil when they are not all in the memory.
func (l *lister) view(f field, pointer uint32, size uint64) []byte {
	most := uint64(len(l.memory))
	if size > most || uint64(pointer) > most-size {
		l.fail(f, "%d bytes at %d leave the memory, which has %d", size, pointer, most)
		return nil
	}
	return l.memory[pointer : uint64(pointer)+size : uint64(pointer)+size]
}

// readList reads the list at pointer. Names and shapes are copied; the data stay where they are.
func readList(memory []byte, pointer uint32, what string) ([]edgewise.Tensor, *edgewise.Error) {
	l, list := &lister{memory: memory, what: what}, field{index: -1, part: "list"}
	if pointer%8 != 0 {
		l.fail(list, "its address %d is not a multiple of 8", pointer)
		return nil, l.err
	}
	header := l.view(list, pointer, listHeader)
	if l.err != nil {
		return nil, l.err
	}
	count := binary.LittleEndian.Uint32(header)
	if count > MaxTensors {
		l.fail(list, "count is %d: at most %d tensors are allowed", count, MaxTensors)
		return nil, l.err
	}
	if reserved := binary.LittleEndian.Uint32(header[4:]); reserved != 0 {
		l.fail(list, "reserved is %d: want 0", reserved)
		return nil, l.err
	}
	records := l.view(list, pointer, listHeader+tensorRecord*uint64(count))
	if l.err != nil {
		return nil, l.err
	}
	tensors := make([]edgewise.Tensor, count)
	for i := range tensors {
		tensors[i] = l.tensor(i, records[listHeader+tensorRecord*i:])
		if l.err != nil {
			return nil, l.err
		}
		if slices.ContainsFunc(tensors[:i], func(t edgewise.Tensor) bool { return t.Name == tensors[i].Name }) {
			l.fail(field{name: tensors[i].Name}, "name: another tensor has it")
		}
	}
	l.overlaps(tensors)
	if l.err != nil {
		return nil, l.err
	}
	return tensors, nil
}

// tensor reads one record.
func (l *lister) tensor(i int, record []byte) edgewise.Tensor {
	le := binary.LittleEndian
	label := field{index: i}
	size := le.Uint32(record[4:])
	if size == 0 || size > MaxNameBytes {
		l.fail(label, "name_len is %d: want 1 to %d bytes", size, MaxNameBytes)
		return edgewise.Tensor{}
	}
	name := string(l.view(label.of("name"), le.Uint32(record), uint64(size)))
	if l.err == nil && !utf8.ValidString(name) {
		l.fail(label.of("name"), "it is not UTF-8")
	}
	if l.err != nil {
		return edgewise.Tensor{}
	}
	t := edgewise.Tensor{Name: name}
	label.name = name
	dtype, rank := le.Uint32(record[8:]), le.Uint32(record[12:])
	if dtype > math.MaxUint8 || edgewise.DataType(dtype).Size() == 0 && edgewise.DataType(dtype) != edgewise.Bytes {
		l.fail(label, "dtype is %d: there is no such type", dtype)
		return t
	}
	t.Type = edgewise.DataType(dtype)
	if rank > edgewise.MaxRank {
		l.fail(label, "rank is %d: at most %d dimensions are allowed", rank, edgewise.MaxRank)
		return t
	}
	t.Shape = l.shape(label, le.Uint32(record[16:]), int(rank))
	if l.err == nil {
		t.Data = l.data(label, &t, le.Uint32(record[20:]), le.Uint64(record[24:]))
	}
	return t
}

func (l *lister) shape(label field, pointer uint32, rank int) edgewise.Shape {
	shape := make(edgewise.Shape, rank)
	if rank == 0 {
		return shape
	}
	if pointer%8 != 0 {
		l.fail(label.of("shape"), "its address %d is not a multiple of 8", pointer)
		return nil
	}
	view := l.view(label.of("shape"), pointer, 8*uint64(rank))
	if l.err != nil {
		return nil
	}
	for k := range shape {
		shape[k] = int64(binary.LittleEndian.Uint64(view[8*k:]))
		if shape[k] < 0 {
			l.fail(label.of("shape"), "dimension %d is %d", k, shape[k])
			return nil
		}
	}
	return shape
}

// data holds data_len against the shape before it looks at the data.
func (l *lister) data(label field, t *edgewise.Tensor, pointer uint32, size uint64) []byte {
	n, ok := t.Shape.Elements()
	width := max(t.Type.Size(), 1)
	if !ok || n > math.MaxInt64/width {
		l.fail(label.of("shape"), "%v has too many elements", t.Shape)
		return nil
	}
	if t.Type != edgewise.Bytes && uint64(n*width) != size {
		l.fail(label, "data_len is %d: %v%v takes %d bytes", size, t.Type, t.Shape, n*width)
		return nil
	}
	view := l.view(label.of("data"), pointer, size)
	if l.err != nil || t.Type != edgewise.Bytes {
		return view
	}
	if err := edgewise.CheckFraming(view, n, ""); err != nil {
		l.fail(label.of("data"), "%v", err)
	}
	return view
}

// overlaps finds two tensors whose data share a byte.
func (l *lister) overlaps(tensors []edgewise.Tensor) {
	if l.err != nil || len(tensors) < 2 {
		return
	}
	order := make([]*edgewise.Tensor, 0, len(tensors))
	for i := range tensors {
		if len(tensors[i].Data) > 0 {
			order = append(order, &tensors[i])
		}
	}
	at := func(t *edgewise.Tensor) int { return offset(l.memory, t.Data) }
	slices.SortFunc(order, func(a, b *edgewise.Tensor) int { return cmp.Compare(at(a), at(b)) })
	for i := 1; i < len(order); i++ {
		if at(order[i-1])+len(order[i-1].Data) > at(order[i]) {
			l.fail(field{name: order[i].Name, part: "data"}, "they overlap those of %q", order[i-1].Name)
			return
		}
	}
}

// offset returns where view, which is not empty, begins in memory.
func offset(memory, view []byte) int {
	return int(uintptr(unsafe.Pointer(&view[0])) - uintptr(unsafe.Pointer(&memory[0])))
}

// whole returns all of a guest's memory.
func whole(mem api.Memory) []byte {
	view, _ := mem.Read(0, mem.Size())
	return view
}
