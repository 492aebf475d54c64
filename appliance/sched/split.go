package sched

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// split gives each job its part of a batch's outputs, by offset on dimension 0. Nothing is copied. It sets the jobs'
// outputs only when all of them can be had; otherwise it returns an Internal error that names the output.
func split(outputs []edgewise.Tensor, jobs []*job, total int) error {
	dims := 0
	for i := range outputs {
		dims += len(outputs[i].Shape)
	}
	parts := make([]edgewise.Tensor, len(jobs)*len(outputs))
	shapes := make(edgewise.Shape, 0, len(jobs)*dims)
	for i := range outputs {
		whole := &outputs[i]
		rest, err := newRows(whole, total)
		if err != nil {
			return err
		}
		for k, j := range jobs {
			part := &parts[k*len(outputs)+i]
			part.Name, part.Type = whole.Name, whole.Type
			if part.Data, err = rest.cut(int64(j.batch)); err != nil {
				return err
			}
			begin := len(shapes)
			shapes = append(append(shapes, int64(j.batch)), whole.Shape[1:]...)
			part.Shape = shapes[begin:len(shapes):len(shapes)]
		}
		if len(rest.data) > 0 {
			return wrongSize(whole, total)
		}
	}
	for k, j := range jobs {
		j.outputs = parts[k*len(outputs) : (k+1)*len(outputs) : (k+1)*len(outputs)]
	}
	return nil
}

// rows is what is left of a tensor that is cut from the front.
type rows struct {
	whole *edgewise.Tensor
	total int
	data  []byte
	per   int64 // bytes of a row; of Bytes, elements
}

func newRows(t *edgewise.Tensor, total int) (*rows, error) {
	if len(t.Shape) == 0 || t.Shape[0] != int64(total) {
		return nil, edgewise.Errorf("sched.split", edgewise.Internal, "output %q of a batch of %d has shape %v: dimension 0 is not the batch", t.Name, total, t.Shape)
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

// framedSize returns the bytes that the first n framed elements of data take, -1 when there are fewer.
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
	return edgewise.Errorf("sched.split", edgewise.Internal, "output %q of a batch of %d: %d bytes are not shape %v of type %v", t.Name, total, len(t.Data), t.Shape, t.Type)
}
