package runner

import (
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// execution is one run in the child.
type execution struct {
	server *server
	frame  runFrame
	fd     int       // of the channel's socket
	back   *mailbox  // of the channel
	now    mapping   // of the block of the outputs
	old    []mapping // earlier ones, in which tensors may stand until the run has ended
	next   uint64    // where the next output may stand
}

// run answers one run within a context of the channel: the frame, made in buf, whose old content has been decoded.
func (s *server) run(l *runContext, channel uint64, fd int, back *mailbox, f runFrame, buf []byte) ([]byte, error) {
	e := &execution{server: s, frame: f, fd: fd, back: back, now: s.block(f.out), next: f.free}
	defer e.end()
	in, err := e.inputs()
	if err != nil {
		return nil, err
	}
	if padder, ok := s.instance.(interface{ AllowPadding() }); ok && f.pads {
		padder.AllowPadding()
	}
	s.child.activeRuns.begin(channel, running{f.run, l.stop})
	result, err := s.instance.Run(l.Context, in, f.want, edgewise.RunOptions{Solo: f.solo, Place: e.place})
	s.child.activeRuns.finish(channel)
	l.renew()
	if err != nil {
		return nil, err
	}
	defer result.Free()
	done := doneFrame{
		run: f.run, wide: result.Wide, input: int64(result.Input), infer: int64(result.Infer),
		output: int64(result.Output),
	}
	if err := e.outputs(&done, result.Outputs); err != nil {
		return nil, err
	}
	answer := done.append(buf[:0])
	if len(answer) > maxFrame {
		return nil, edgewise.Errorf("runner.Serve", edgewise.TooLarge, "the shapes of %d outputs take more than %d bytes",
			len(done.outputs), maxFrame)
	}
	return answer, nil
}

// end unmaps what the run was the last to use.
func (e *execution) end() {
	for _, m := range e.old {
		m.unmap()
	}
}

func (e *execution) inputs() ([]edgewise.Tensor, error) {
	in := make([]edgewise.Tensor, len(e.frame.inputs))
	for i, from := range e.frame.inputs {
		data, err := from.place.within(e.server.block(from.place.block).data)
		if err != nil {
			return nil, edgewise.Errorf("runner.Serve", edgewise.Internal, "input %q: %w", from.name, err)
		}
		in[i] = edgewise.Tensor{Name: from.name, Type: from.kind, Shape: from.shape, Data: data}
	}
	return in, nil
}

// place hands out memory of the block. There is none when the block cannot be made large enough: then outputs are
// copied into what there is, and it is an error when they do not fit.
func (e *execution) place(sizes []int64) [][]byte {
	start := e.next
	for _, size := range sizes {
		e.next = align(e.next + uint64(size))
	}
	if e.fit() != nil {
		e.next = start
		return nil
	}
	memory := make([][]byte, len(sizes))
	for i, size := range sizes {
		if size > 0 {
			memory[i] = e.now.data[start : start+uint64(size) : start+uint64(size)]
		}
		start = align(start + uint64(size))
	}
	return memory
}

// fit makes the block long enough for what is to stand in it. The parent provides the memory.
func (e *execution) fit() error {
	if e.next <= uint64(len(e.now.data)) {
		return nil
	}
	longer, err := e.server.grow(e.frame.out, e.next, e.fd, e.back)
	if err != nil {
		return err
	}
	e.old, e.now = append(e.old, e.now), longer
	return nil
}

// outputs says where the outputs stand. Those that do not stand in the block are copied into it.
func (e *execution) outputs(done *doneFrame, outputs []edgewise.Tensor) error {
	done.outputs = make([]placed, len(outputs))
	missing := make([]bool, len(outputs))
	for i := range outputs {
		t := &outputs[i]
		at, there := e.offset(t.Data)
		if !there {
			at, missing[i] = e.next, true
			e.next = align(e.next + uint64(len(t.Data)))
		}
		done.outputs[i] = placed{kind: t.Type, shape: t.Shape, place: place{e.frame.out, at, uint64(len(t.Data))}}
	}
	if err := e.fit(); err != nil {
		return err
	}
	for i := range outputs {
		if missing[i] {
			done.copied += uint64(copy(e.now.data[done.outputs[i].place.offset:], outputs[i].Data))
		}
	}
	return nil
}

// offset returns where in the block data stands, in its present mapping or an earlier one.
func (e *execution) offset(data []byte) (at uint64, there bool) {
	for _, m := range append(e.old, e.now) {
		if at, there = offsetWithin(data, m.data); there {
			return at, true
		}
	}
	return 0, false
}

// offsetWithin returns where data stands in memory, if it does.
func offsetWithin(data, memory []byte) (at uint64, within bool) {
	if len(data) == 0 || len(memory) == 0 {
		return 0, false
	}
	start, from := uintptr(unsafe.Pointer(&memory[0])), uintptr(unsafe.Pointer(&data[0]))
	if from < start || from+uintptr(len(data)) > start+uintptr(len(memory)) {
		return 0, false
	}
	return uint64(from - start), true
}
