package sched

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/aligned"
)

// alignment of a batch's tensors: a cache line, and the widest vector register.
const alignment = 64

// allocator is an Instance that allocates memory from which its Run reads inputs without a copy: memory that it shares
// with another process, or with a device.
type allocator interface {
	// Alloc returns n bytes, aligned to 64. The caller writes to them only while no Run that reads them is in progress,
	// and calls free once, when no Run reads them any more and before Close. Error: Exhausted.
	Alloc(n int) (data []byte, free func(), err error)
	// KeptBytes is how many bytes of an input may be kept between runs; more are freed after each.
	KeptBytes() int
}

// bodyMemory is an Instance whose memory can be borrowed before a request exists, to receive its body.
type bodyMemory interface {
	// AllocBody is manager.Loaded.Borrow.
	AllocBody(n int) (data []byte, free func())
}

// bodyAllocator is an allocator that has such memory.
type bodyAllocator interface {
	allocator
	bodyMemory
	// OwnsBody tells whether data is memory of AllocBody.
	OwnsBody(data []byte) bool
}

// gatherer makes the input tensors of batches. It belongs to one instance loop: its memory is read until the run
// returns and reused for the next batch, so a loop keeps as much as its largest batch took, and of the instance's
// memory at most its KeptBytes.
type gatherer struct {
	allocator allocator     // where the memory comes from; nil: from here
	bodies    bodyAllocator // of buffers that requests borrow; nil: the instance has none
	inputs    []edgewise.Tensor
	buffers   []buffer // one for each input
}

// buffer is memory whose capacity is used again.
type buffer struct {
	data []byte
	free func() // nil: nothing is to be freed
}

// newGatherer makes a gatherer in memory from which an instance takes inputs without a copy, if it has such memory.
func newGatherer(i edgewise.Instance) gatherer {
	memory, _ := i.(allocator)
	bodies, _ := i.(bodyAllocator)
	return gatherer{allocator: memory, bodies: bodies}
}

// needed tells whether the inputs of jobs have to be gathered: those of one are passed on as they are, unless the
// instance would copy them then.
func (g *gatherer) needed(jobs []*job) bool {
	return len(jobs) > 1 || g.allocator != nil && !g.borrowed(jobs[0].inputs)
}

// borrowed tells whether inputs are in buffers borrowed from the instance. It copies those that are not.
func (g *gatherer) borrowed(inputs []edgewise.Tensor) bool {
	return g.bodies != nil && slices.ContainsFunc(
		inputs, func(t edgewise.Tensor) bool { return g.bodies.OwnsBody(t.Data) },
	)
}

// gather concatenates the inputs of jobs, which fit together, on dimension 0. That is the one copy of a batch. Framed
// bytes are concatenated as they are. The result is valid until the next call. Error: Exhausted.
func (g *gatherer) gather(jobs []*job, total int) ([]edgewise.Tensor, error) {
	first := jobs[0].inputs
	g.inputs = slices.Grow(g.inputs[:0], len(first))[:len(first)]
	for len(g.buffers) < len(first) {
		g.buffers = append(g.buffers, buffer{})
	}
	for i := range first {
		shape := append(g.inputs[i].Shape[:0], first[i].Shape...)
		if len(jobs) > 1 {
			shape[0] = int64(total)
		}
		data, err := g.concat(i, jobs)
		if err != nil {
			return nil, err
		}
		g.inputs[i] = edgewise.Tensor{Name: first[i].Name, Type: first[i].Type, Shape: shape, Data: data}
	}
	return g.inputs, nil
}

func (g *gatherer) concat(i int, jobs []*job) ([]byte, error) {
	size := 0
	for _, j := range jobs {
		size += len(j.inputs[i].Data)
	}
	if b := &g.buffers[i]; cap(b.data) < size {
		if err := g.replace(b, size); err != nil {
			return nil, err
		}
	}
	data := g.buffers[i].data[:0]
	for _, j := range jobs {
		data = append(data, j.inputs[i].Data...)
	}
	return data, nil
}

// replace gets a buffer for at least size bytes.
func (g *gatherer) replace(b *buffer, size int) (err error) {
	b.release()
	if g.allocator == nil {
		b.data = AlignedBytes(size)
		return nil
	}
	b.data, b.free, err = g.allocator.Alloc(size + size/4)
	return err
}

func (b *buffer) release() {
	if b.free != nil {
		b.free()
	}
	*b = buffer{}
}

// settle frees the memory that is not kept after a run.
func (g *gatherer) settle() {
	for i := range g.buffers {
		if b := &g.buffers[i]; b.free != nil && cap(b.data) > g.allocator.KeptBytes() {
			b.release()
		}
	}
}

// release gives all memory back.
func (g *gatherer) release() {
	for i := range g.buffers {
		g.buffers[i].release()
	}
}

// AlignedBytes returns a buffer for at least size bytes, a quarter more for later ones, that begins at a multiple of
// alignment.
func AlignedBytes(size int) []byte { return aligned.Bytes(size+size/4, alignment) }

// split gives each job its part of a batch's outputs; see Split.
func split(outputs []edgewise.Tensor, jobs []*job, total int) error {
	parts, err := Split(outputs, len(jobs), total, func(k int) int { return jobs[k].batch })
	if err != nil {
		return err
	}
	for k, j := range jobs {
		j.outputs = parts.Of(k)
	}
	return nil
}

// Parts are the outputs of a batch, cut for its requests.
type Parts struct {
	tensors []edgewise.Tensor
	outputs int
}

// Of returns the outputs of the k-th request.
func (p Parts) Of(k int) []edgewise.Tensor {
	return p.tensors[k*p.outputs : (k+1)*p.outputs : (k+1)*p.outputs]
}

// Split cuts the outputs of a batch of total rows for n requests, by offset on dimension 0; rows says how many rows the
// k-th request has. Nothing is copied. Error: Internal, which names the output that is not so many rows.
func Split(outputs []edgewise.Tensor, n, total int, rows func(k int) int) (Parts, error) {
	dims := 0
	for i := range outputs {
		dims += len(outputs[i].Shape)
	}
	parts := Parts{make([]edgewise.Tensor, n*len(outputs)), len(outputs)}
	shapes := make(edgewise.Shape, 0, n*dims)
	for i := range outputs {
		whole := &outputs[i]
		rest, err := newRows(whole, total)
		if err != nil {
			return Parts{}, err
		}
		for k := range n {
			part := &parts.tensors[k*len(outputs)+i]
			part.Name, part.Type = whole.Name, whole.Type
			if part.Data, err = rest.cut(int64(rows(k))); err != nil {
				return Parts{}, err
			}
			begin := len(shapes)
			shapes = append(append(shapes, int64(rows(k))), whole.Shape[1:]...)
			part.Shape = shapes[begin:len(shapes):len(shapes)]
		}
		if len(rest.data) > 0 {
			return Parts{}, wrongSize(whole, total)
		}
	}
	return parts, nil
}

// rows is the rest of a tensor that is cut from the front.
type rows struct {
	whole *edgewise.Tensor
	total int
	data  []byte
	per   int64 // bytes of a row; of Bytes, elements
}

func newRows(t *edgewise.Tensor, total int) (*rows, error) {
	if len(t.Shape) == 0 || t.Shape[0] != int64(total) {
		return nil, edgewise.Errorf(
			"sched.split", edgewise.Internal, "output %q of a batch of %d has shape %v: dimension 0 is not the batch",
			t.Name, total, t.Shape,
		)
	}
	per, ok := t.Shape[1:].Elements()
	size := max(t.Type.Size(), 1)
	if !ok || per > math.MaxInt64/size/int64(total) {
		return nil, wrongSize(t, total)
	}
	return &rows{whole: t, total: total, data: t.Data, per: per * size}, nil
}

// cut returns the data of the next n rows.
func (r *rows) cut(n int64) ([]byte, error) {
	size := n * r.per
	if r.whole.Type == edgewise.Bytes {
		size = framedSize(r.data, n*r.per)
	}
	if size < 0 || size > int64(len(r.data)) {
		return nil, wrongSize(r.whole, r.total)
	}
	part := r.data[:size:size]
	r.data = r.data[size:]
	return part, nil
}

// framedSize returns the bytes of the first n framed elements of data, -1 when data has fewer.
func framedSize(data []byte, n int64) int64 {
	at := int64(0)
	for ; n > 0; n-- {
		if int64(len(data))-at < 4 {
			return -1
		}
		at += 4 + int64(binary.LittleEndian.Uint32(data[at:]))
		if at > int64(len(data)) {
			return -1
		}
	}
	return at
}

func wrongSize(t *edgewise.Tensor, total int) error {
	return edgewise.Errorf(
		"sched.split", edgewise.Internal, "output %q of a batch of %d: %d bytes are not shape %v of type %v", t.Name,
		total, len(t.Data), t.Shape, t.Type,
	)
}

// sharedResult is a result whose memory the responses of a batch share.
type sharedResult struct {
	result *edgewise.Result
	held   *sync.WaitGroup
	users  atomic.Int32
}

// ShareResult returns the function that each of the users of a result calls once: the last call frees the result. held
// counts the result until then.
func ShareResult(r *edgewise.Result, users int, held *sync.WaitGroup) (release func()) {
	s := &sharedResult{result: r, held: held}
	s.users.Store(int32(users))
	held.Add(1)
	return s.release
}

func (s *sharedResult) release() {
	if s.users.Add(-1) > 0 {
		return
	}
	s.result.Free()
	s.held.Done()
}

// wanted returns the outputs that jobs of one batch want, each once; in the order of the jobs' own list when they have
// the same.
func wanted(jobs []*job) []string {
	same := func(j *job) bool { return slices.Equal(j.want, jobs[0].want) }
	if !slices.ContainsFunc(jobs, func(j *job) bool { return !same(j) }) {
		return jobs[0].want
	}
	var all []string
	for _, j := range jobs {
		for _, name := range j.want {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// choose leaves each job the outputs that it wants, in its own order. It has those of want.
func choose(jobs []*job, want []string) {
	for _, j := range jobs {
		if slices.Equal(j.want, want) {
			continue
		}
		all := j.outputs
		j.outputs = make([]edgewise.Tensor, len(j.want))
		for i, name := range j.want {
			at := slices.IndexFunc(all, func(t edgewise.Tensor) bool { return t.Name == name })
			j.outputs[i] = all[at]
		}
	}
}
