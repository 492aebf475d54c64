package onnxfile

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

// value is a ValueInfoProto: a name, and a type when the file gives one.
type value struct {
	name    string
	tensor  bool   // it is a dense tensor; element, shape and dims are set
	other   string // what else it is, such as "a sequence"
	element element
	ranked  bool // the number of dimensions is known
	shape   edgewise.Shape
	dims    []string
}

// value reads a declared value up to end.
func (w *walker) value(end int64) (v value, err error) {
	if err := count(&w.valueInfos, w.ValueInfos, "declared values"); err != nil {
		return v, err
	}
	err = w.each(&valueMessage, end, func(f field) error {
		switch f.number {
		case 1:
			v.name, err = w.name(f, "value name")
		case 2:
			err = w.valueType(f.end, &v, 0)
		case 4:
			err = w.pass(&entryMessage, f.end)
		}
		return err
	})
	return v, within(err, "value %.64q", v.name)
}

// valueType reads a TypeProto. depth counts the types it stands in.
func (w *walker) valueType(end int64, v *value, depth int) error {
	if depth > w.Depth {
		return tooLarge("more than %d types inside types", w.Depth)
	}
	return w.each(&typeMessage, end, func(f field) error {
		switch f.number {
		case 1:
			return w.tensorType(f.end, v, depth == 0)
		case 8:
			v.other = "a sparse tensor"
			return w.tensorType(f.end, v, false)
		case 4, 9:
			v.other = map[uint32]string{4: "a sequence", 9: "an optional"}[f.number]
			return w.innerType(&elementTypeMessage, f.end, depth)
		case 5:
			v.other = "a map"
			return w.innerType(&mapTypeMessage, f.end, depth)
		case 7:
			v.other = "an opaque value"
		}
		return nil
	})
}

// innerType reads the type of what a sequence, an optional or a map holds.
func (w *walker) innerType(m *message, end int64, depth int) error {
	return w.each(m, end, func(f field) error {
		if f.wire != wireBytes {
			return nil
		}
		var inner value
		return w.valueType(f.end, &inner, depth+1)
	})
}

// tensorType reads an element type and a shape. Both are checked always and stored in v when it is the value's own
// type.
func (w *walker) tensorType(end int64, v *value, own bool) error {
	var t value
	err := w.each(&tensorTypeMessage, end, func(f field) error {
		if f.number == 2 {
			t.ranked, t.shape = true, edgewise.Shape{}
			return w.each(&shapeMessage, f.end, func(f field) error { return w.dimension(f.end, &t) })
		}
		number, err := f.int32("element type")
		if err != nil || number == 0 {
			return err
		}
		t.tensor = true
		t.element, err = elementOf(number)
		return err
	})
	if err == nil && own {
		v.tensor, v.element, v.ranked, v.shape, v.dims = t.tensor, t.element, t.ranked, t.shape, t.dims
	}
	return err
}

// dimension reads one dimension: a size, a name, or neither.
func (w *walker) dimension(end int64, v *value) error {
	if len(v.shape) >= w.Rank {
		return tooLarge("more than %d dimensions", w.Rank)
	}
	size, name := int64(-1), ""
	err := w.each(&dimensionMessage, end, func(f field) (err error) {
		switch f.number {
		case 1:
			size = int64(f.value)
		case 2:
			name, err = w.word(f, "dimension name")
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case size < -1:
		return invalid("dimension %d has size %d: want 0 or more, or -1 for any", len(v.shape), size)
	}
	v.shape, v.dims = append(v.shape, size), append(v.dims, name)
	return nil
}

// notCarried says why requests and answers cannot carry the value; what is "input" or "output". "": they can, as far as
// the file says.
func (v *value) notCarried(what string) string {
	switch {
	case v.other != "":
		return fmt.Sprintf("%s %.64q is %s: only dense tensors are served", what, v.name, v.other)
	case v.tensor && v.element.host == edgewise.InvalidType:
		return fmt.Sprintf("%s %.64q is a %s: requests cannot carry that type", what, v.name, v.element.typeName())
	}
	return ""
}

// info returns a value that is carried as part of the model's signature. A value of unknown rank has a nil shape. The
// type of an output may be left to the runtime: then it is InvalidType.
func (v *value) info(what string) (edgewise.TensorInfo, error) {
	switch {
	case v.name == "":
		return edgewise.TensorInfo{}, invalid("an %s has no name", what)
	case !v.tensor && what == output:
		return edgewise.TensorInfo{Name: v.name}, nil
	case !v.tensor:
		return edgewise.TensorInfo{}, invalid("%s %.64q has no tensor type", what, v.name)
	}
	if !countable(v.shape) {
		return edgewise.TensorInfo{}, invalid("%s %.64q: shape %v has more elements than can be counted", what, v.name,
			v.shape)
	}
	t := edgewise.TensorInfo{Name: v.name, Type: v.element.host, Datatype: v.element.host.String(), Shape: v.shape}
	for _, d := range v.dims {
		if d != "" {
			t.Dims = v.dims
			break
		}
	}
	return t, nil
}

// countable tells whether the elements of a shape can be counted, every -1 taken as 1.
func countable(s edgewise.Shape) bool {
	least := make(edgewise.Shape, len(s))
	for i, d := range s {
		least[i] = max(d, 1)
	}
	_, ok := least.Elements()
	return ok
}
