package remote

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// joined are calls as one request.
type joined struct {
	calls []*edgewise.Call
	rows  []int64 // of each call
	total int64
	req   edgewise.Request
}

// join makes one request of calls; nil where they cannot be one: they differ in more than their rows, belong to
// sequences, or say more than their inputs.
func (i *Instance) join(calls []*edgewise.Call) *joined {
	m := i.version.Model
	if len(calls) < 2 || m.MaxBatchSize < 2 || m.Decoupled() || m.SequenceBatching != nil {
		return nil
	}
	b := &joined{calls: calls, req: edgewise.Request{Model: i.link.target}}
	first := calls[0].Request.Inputs
	for _, call := range calls {
		own := call.Request
		if len(own.Parameters) > 0 || own.Sequence.Active() || len(own.Inputs) != len(first) || len(own.Inputs) == 0 {
			return nil
		}
		n := rows(own.Inputs)
		for at, in := range own.Inputs {
			like := first[at]
			if in.Name != like.Name || in.Type != like.Type || len(in.Shape) == 0 || in.Shape[0] != n ||
				len(like.Shape) == 0 || !in.Shape[1:].Equal(like.Shape[1:]) {
				return nil
			}
		}
		for _, name := range call.Want {
			if !slices.Contains(b.req.Outputs, name) {
				b.req.Outputs = append(b.req.Outputs, name)
			}
		}
		b.rows = append(b.rows, n)
		b.total += n
	}
	if b.total > int64(m.MaxBatchSize) {
		return nil
	}
	for at, like := range first {
		t := edgewise.Tensor{Name: like.Name, Type: like.Type, Shape: slices.Clone(like.Shape)}
		t.Shape[0] = b.total
		for _, call := range calls {
			t.Data = append(t.Data, call.Request.Inputs[at].Data...)
		}
		b.req.Inputs = append(b.req.Inputs, t)
	}
	return b
}

// together sends calls as one request and answers each. It returns false when that has failed for a reason that may be
// one of theirs: then none is answered.
func (i *Instance) together(ctx context.Context, b *joined) bool {
	resp, err := i.infer(ctx, &b.req)
	if err == nil {
		err = i.check(resp.Outputs, b.req.Outputs, b.total)
	}
	if err != nil {
		if !transient(err) {
			return false
		}
		for _, call := range b.calls {
			_ = call.Answer(nil, true, err)
		}
		return true
	}
	rest := slices.DeleteFunc(resp.Outputs, func(t edgewise.Tensor) bool { return !slices.Contains(b.req.Outputs, t.Name) })
	for at, call := range b.calls {
		own := &edgewise.Result{Parameters: resp.Parameters, Free: func() {}} // the memory is the collector's
		for k := range rest {
			if slices.Contains(call.Want, rest[k].Name) {
				own.Outputs = append(own.Outputs, head(rest[k], b.rows[at]))
			}
			rest[k].Data = rest[k].Data[size(rest[k], b.rows[at]):]
		}
		_ = call.Answer(own, true, nil)
	}
	return true
}

// head is the first rows of a tensor.
func head(t edgewise.Tensor, rows int64) edgewise.Tensor {
	n := size(t, rows)
	t.Shape = slices.Clone(t.Shape)
	t.Shape[0], t.Data = rows, t.Data[:n:n]
	return t
}

// size is how many bytes the first rows of a well-formed tensor have.
func size(t edgewise.Tensor, rows int64) int64 {
	elements, _ := t.Shape[1:].Elements()
	if each := t.Type.Size(); each > 0 {
		return rows * elements * each
	}
	at := int64(0)
	for range rows * elements {
		at += 4 + int64(binary.LittleEndian.Uint32(t.Data[at:]))
	}
	return at
}
