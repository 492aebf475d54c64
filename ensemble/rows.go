package ensemble

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// Bounds of the rows of a fan-out.
const (
	defaultFanOutRows = 256
	maxFanOutRows     = 65536
)

// fan cuts inputs of a step into rows.
type fan struct {
	leading int // dimensions that count the rows
	most    int // rows
	each    int // rows in one request to the model, at most
	batched bool
	chosen  bool // each is the author's
}

func (g *graph) addFan(s *step, declared *edgewise.EnsembleStep) {
	d := declared.FanOut
	if d == nil {
		return
	}
	f := &fan{leading: int(min(max(d.LeadingDims, 1), edgewise.MaxRank+1)), most: int(d.MaxRows), each: 1}
	if f.most == 0 {
		f.most = defaultFanOutRows
	}
	whole := false
	for i := range s.inputs {
		s.inputs[i].cut = slices.Contains(d.Input, s.inputs[i].name)
		whole = whole || !s.inputs[i].cut
	}
	if s.model != nil && s.model.MaxBatchSize > 0 {
		f.batched = true
		if !whole { // else each row needs the whole inputs beside it
			f.each = int(s.model.MaxBatchSize)
		}
	}
	if d.RowsPerRequest > 0 {
		f.each, f.chosen = min(f.each, int(d.RowsPerRequest)), true
	}
	s.fan = f
}

// separate makes fan-outs ask about one row at a time where the rows of a batch may depend on each other and the
// ensemble's author has not said how many go together.
func (g *graph) separate(parts []*edgewise.Version, independent func(edgewise.ModelID) bool) {
	for i := range g.steps {
		s := &g.steps[i]
		if s.fan != nil && !s.fan.chosen && s.fan.each > 1 && !independent(parts[i].ID) {
			s.fan.each = 1
		}
	}
}

// count returns the leading dimensions of the tensors that are cut, which they have in common, and how many rows they
// hold. names[i] says what inputs[i] is to the model.
func (f *fan) count(s *step, names []mapping, inputs []edgewise.Tensor) (leading edgewise.Shape, rows int, err error) {
	first := ""
	for i := range inputs {
		if !names[i].cut {
			continue
		}
		shape := inputs[i].Shape
		switch {
		case len(shape) < f.leading:
			return nil, 0, edgewise.Errorf("ensemble.fanOut", edgewise.Invalid,
				"%s: input '%s' has shape %v: its rows are counted by %d dimensions", s.label, names[i].name, shape, f.leading)
		case first == "":
			first, leading = names[i].name, shape[:f.leading]
		case !leading.Equal(shape[:f.leading]):
			return nil, 0, edgewise.Errorf("ensemble.fanOut", edgewise.Invalid,
				"%s: inputs '%s' and '%s' have other numbers of rows: %v and %v", s.label, first, names[i].name, leading, shape[:f.leading])
		}
	}
	n, ok := leading.Elements()
	if !ok || n > int64(f.most) {
		return nil, 0, edgewise.Errorf("ensemble.fanOut", edgewise.TooLarge, "%s: %v is more than max_rows, which is %d",
			s.label, leading, f.most)
	}
	return leading, int(n), nil
}

// cut returns the inputs of each request. Their data alias those of the whole.
func (f *fan) cut(s *step, names []mapping, inputs []edgewise.Tensor, rows int) ([][]edgewise.Tensor, error) {
	requests := make([][]edgewise.Tensor, (rows+f.each-1)/f.each)
	for r := range requests {
		requests[r] = slices.Clone(inputs)
	}
	for i := range inputs {
		if !names[i].cut {
			continue
		}
		row := inputs[i].Shape[f.leading:]
		rest := inputs[i].Data
		for r := range requests {
			n := min(f.each, rows-r*f.each)
			part := &requests[r][i]
			part.Shape = row
			if f.batched {
				part.Shape = append(edgewise.Shape{int64(n)}, row...)
			}
			size, ok := sizeOf(inputs[i].Type, part.Shape, rest)
			if !ok {
				return nil, edgewise.Errorf("ensemble.fanOut", edgewise.Internal, "%s: input '%s': %d bytes are not shape %v",
					s.label, names[i].name, len(inputs[i].Data), inputs[i].Shape)
			}
			part.Data, rest = rest[:size:size], rest[size:]
		}
	}
	return requests, nil
}

// sizeOf returns how many bytes at the beginning of data are a tensor of that type and shape.
func sizeOf(t edgewise.DataType, shape edgewise.Shape, data []byte) (int, bool) {
	n, ok := shape.Elements()
	if !ok || n > int64(len(data)) {
		return 0, false
	}
	if t != edgewise.Bytes {
		size := n * t.Size()
		return int(size), size <= int64(len(data))
	}
	at := int64(0)
	for ; n > 0; n-- {
		if int64(len(data))-at < 4 {
			return 0, false
		}
		at += 4 + int64(binary.LittleEndian.Uint32(data[at:]))
		if at > int64(len(data)) {
			return 0, false
		}
	}
	return int(at), true
}

// join makes one tensor of the answers for all rows. With a single answer the data are the answer's; otherwise they are
// copied.
func (f *fan) join(name string, leading edgewise.Shape, rows int, answers []*edgewise.Tensor) (edgewise.Tensor, error) {
	out := edgewise.Tensor{Name: name, Type: answers[0].Type}
	row := answers[0].Shape
	if f.batched && len(row) > 0 {
		row = row[1:]
	}
	size := 0
	for i, a := range answers {
		n := min(f.each, rows-i*f.each)
		want := row
		if f.batched {
			want = append(edgewise.Shape{int64(n)}, row...)
		}
		if a.Type != out.Type || !a.Shape.Equal(want) {
			return out, fmt.Errorf("output '%s' of a fan-out cannot be joined: the rows from %d on are %v%v, the first ones "+
				"have %v%v", name, i*f.each, a.Type, a.Shape, out.Type, row)
		}
		size += len(a.Data)
	}
	out.Shape = slices.Concat(leading, row)
	if len(answers) == 1 {
		out.Data = answers[0].Data
		return out, nil
	}
	out.Data = make([]byte, 0, size)
	for _, a := range answers {
		out.Data = append(out.Data, a.Data...)
	}
	return out, nil
}

// empty is what a fan-out over no rows answers: the leading dimensions, and behind them the declared ones, 0 where they
// are variable.
func empty(name string, leading edgewise.Shape, declared *edgewise.ModelOutput) edgewise.Tensor {
	out := edgewise.Tensor{Name: name, Type: declared.DataType, Shape: slices.Concat(leading, declared.Dims)}
	for i := range out.Shape {
		out.Shape[i] = max(out.Shape[i], 0)
	}
	return out
}
