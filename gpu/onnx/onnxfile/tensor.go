package onnxfile

import (
	"github.com/edgewise-ai/edgewise"
)

// tensor is a TensorProto without its elements.
type tensor struct {
	name     string
	element  element
	typed    bool
	dims     edgewise.Shape
	raw      int64             // bytes of raw_data
	entries  [dataFields]int64 // entries of each typed field
	text     int64             // bytes of string_data
	external bool              // data_location says so
	where    reference         // from external_data
	at       *External         // where the data is, once checked; nil when it is in the model file
	kept     []byte            // of raw_data, when it is short enough
	values   []float64         // of the typed fields, when they are few enough
}

// tensorField maps the fields of a TensorProto that hold elements.
var tensorField = [16]dataField{4: floatData, 5: int32Data, 6: stringData, 7: int64Data, 10: doubleData, 11: uint64Data}

var dataFieldNames = [dataFields]string{
	"raw_data", "float_data", "int32_data", "string_data", "int64_data",
	"double_data", "uint64_data",
}

// tensor reads a tensor up to end and checks that its data is what its type and dimensions announce. Only the
// initializers of a graph may keep their data in another file: inside says what the others are in.
func (w *walker) tensor(end int64, inside string) (t tensor, elements, size int64, err error) {
	if err := count(&w.tensors, w.Tensors, "tensors"); err != nil {
		return t, 0, 0, err
	}
	err = w.each(&tensorMessage, end, func(f field) error { return w.tensorField(f, &t) })
	if err == nil {
		elements, size, err = t.size()
	}
	if err == nil && (t.external || t.where.given) {
		err = w.external(&t, size, inside)
	} else if err == nil {
		err = t.checkData(elements, size)
	}
	if err == nil {
		err = add(&w.weights, size, w.Weights, "bytes of tensors")
	}
	return t, elements, size, within(err, "tensor %.64q", t.name)
}

func (w *walker) tensorField(f field, t *tensor) (err error) {
	switch f.number {
	case 1:
		err = w.dims(f, &t.dims)
	case 2:
		var number int32
		if number, err = f.int32("element type"); err == nil {
			t.element, err = elementOf(number)
			t.typed = true
		}
	case 3:
		err = unsupported("it is stored in segments, which no runtime reads")
	case 4, 5, 6, 7, 10, 11:
		err = w.typedData(f, t)
	case 8:
		t.name, err = w.name(f, "tensor name")
	case 9:
		t.raw = f.end - w.pos
		err = w.keepRaw(f, t)
	case 13:
		err = w.externalEntry(f.end, &t.where)
	case 14:
		if f.value > 1 {
			return invalid("data_location %d is unknown: want 0 or 1", int64(f.value))
		}
		t.external = f.value == 1
	case 16:
		err = w.pass(&entryMessage, f.end)
	}
	return err
}

// dims reads one dimension, or several when they are packed.
func (w *walker) dims(f field, into *edgewise.Shape) error {
	one := func(v uint64) error {
		switch {
		case len(*into) >= w.Rank:
			return tooLarge("more than %d dimensions", w.Rank)
		case int64(v) < 0:
			return invalid("dimension %d is negative: %d", len(*into), int64(v))
		}
		*into = append(*into, int64(v))
		return nil
	}
	if f.wire == wireVarint {
		return one(f.value)
	}
	_, err := w.varints(f, one)
	return err
}

// typedData counts the entries of a typed field without keeping them.
func (w *walker) typedData(f field, t *tensor) error {
	kind, size := tensorField[f.number], f.end-w.pos
	n, width := int64(1), int64(0)
	switch {
	case kind == stringData:
		t.text += size
	case f.wire != wireBytes:
	case kind == floatData:
		n, width = size/4, 4
	case kind == doubleData:
		n, width = size/8, 8
	default:
		var err error
		if n, err = w.varints(f, w.visit(t, size)); err != nil {
			return within(err, "%s", dataFieldNames[kind])
		}
	}
	if kind == floatData || f.wire != wireBytes {
		if err := w.keepNumbers(f, &t.values); err != nil {
			return err
		}
	}
	if width > 0 && size%width != 0 {
		return invalid("%s has %d bytes, which is not a multiple of %d", dataFieldNames[kind], size, width)
	}
	t.entries[kind] += n
	return nil
}

// size returns the elements that the dimensions announce and the bytes they take in memory; for strings, the bytes of
// their text.
func (t *tensor) size() (elements, size int64, err error) {
	if !t.typed {
		return 0, 0, invalid("it has no element type")
	}
	elements, ok := t.dims.Elements()
	if ok {
		size, ok = t.element.bytes(elements)
	}
	if !ok {
		return 0, 0, invalid("dimensions %v: more elements than can be counted", t.dims)
	}
	if t.element.data == stringData {
		size = t.text
	}
	return elements, size, nil
}

// checkData compares what the file holds with what the dimensions announce.
func (t *tensor) checkData(elements, size int64) error {
	want := t.element.data
	for kind, n := range t.entries {
		if n > 0 && dataField(kind) != want {
			return invalid("%s is given, but the elements of a %s stand in %s", dataFieldNames[kind], t.element.typeName(),
				dataFieldNames[want])
		}
	}
	entries := t.entries[want]
	switch {
	case t.raw > 0 && entries > 0:
		return invalid("its elements are given twice, in raw_data and in %s", dataFieldNames[want])
	case t.raw > 0 && want == stringData:
		return invalid("raw_data is given, but the elements of a tensor(string) stand in string_data")
	case t.raw > 0 && t.raw != size:
		return invalid("raw_data has %d bytes, but %s%v takes %d", t.raw, t.element.typeName(), t.dims, size)
	case t.raw == 0 && entries != t.element.stored(elements):
		return invalid("%s has %d entries, but %s%v takes %d", dataFieldNames[want], entries, t.element.typeName(), t.dims,
			t.element.stored(elements))
	}
	return nil
}

// sparseTensor is a SparseTensorProto: its values, and the dimensions of the tensor they are spread over.
type sparseTensor struct {
	tensor
	dense edgewise.Shape
}

// sparse reads a SparseTensorProto up to end. Neither its values nor its indices may be in another file.
func (w *walker) sparse(end int64, inside string) (s sparseTensor, stored, size int64, err error) {
	var indices tensor
	var places int64
	err = w.each(&sparseMessage, end, func(f field) (err error) {
		switch f.number {
		case 1:
			s.tensor, stored, size, err = w.tensor(f.end, inside)
		case 2:
			indices, places, _, err = w.tensor(f.end, inside)
		case 3:
			err = w.dims(f, &s.dense)
		}
		return err
	})
	if err == nil {
		err = within(w.checkSparse(&s, &indices, stored, places), "tensor %.64q", s.name)
	}
	return s, stored, size, within(err, "%s", inside)
}

// checkSparse bounds what the runtime allocates when it fills s, and compares the numbers of values and of indices.
func (w *walker) checkSparse(s *sparseTensor, indices *tensor, stored, places int64) error {
	switch {
	case !s.typed || !indices.typed:
		return invalid("its values or its indices are missing")
	case s.element.host == edgewise.InvalidType || s.element.data == stringData:
		return unsupported("a sparse %s is not supported", s.element.typeName())
	case indices.element.host != edgewise.Int64:
		return invalid("its indices are %s: want tensor(int64)", indices.element.typeName())
	}
	elements, ok := s.dense.Elements()
	if !ok || stored > elements {
		return invalid("%d values do not fit in dimensions %v", stored, s.dense)
	}
	rank := int64(len(s.dense))
	if places != stored && (rank == 0 || places%rank != 0 || places/rank != stored) {
		return invalid("%d values have %d indices", stored, places)
	}
	size, ok := s.element.bytes(elements)
	if !ok {
		return invalid("dimensions %v have more elements than can be counted", s.dense)
	}
	return add(&w.dense, size, w.Dense, "bytes of sparse tensors once filled")
}
