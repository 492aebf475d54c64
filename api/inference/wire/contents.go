package wire

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/scalar"
)

// The numbers of InferTensorContents' fields.
const (
	contentsBool   = 1
	contentsInt    = 2
	contentsInt64  = 3
	contentsUint   = 4
	contentsUint64 = 5
	contentsFP32   = 6
	contentsFP64   = 7
	contentsBytes  = 8
)

// contentsOf returns the field that holds elements of a type, 0 for types that have none.
func contentsOf(t edgewise.DataType) protowire.Number {
	large := t.Size() == 8
	switch {
	case t == edgewise.Bool:
		return contentsBool
	case t == edgewise.FP32:
		return contentsFP32
	case t == edgewise.FP64:
		return contentsFP64
	case t == edgewise.Bytes:
		return contentsBytes
	case t.IsSigned() && large:
		return contentsInt64
	case t.IsSigned():
		return contentsInt
	case t.IsUnsigned() && large:
		return contentsUint64
	case t.IsUnsigned():
		return contentsUint
	}
	return 0
}

// contentsType returns a type whose elements a field holds, for messages.
func contentsType(number protowire.Number) edgewise.DataType {
	return [...]edgewise.DataType{
		contentsBool: edgewise.Bool, contentsInt: edgewise.Int32, contentsInt64: edgewise.Int64,
		contentsUint:   edgewise.Uint32,
		contentsUint64: edgewise.Uint64, contentsFP32: edgewise.FP32, contentsFP64: edgewise.FP64,
		contentsBytes: edgewise.Bytes,
	}[number]
}

// converter makes tensors of typed contents. It takes memory for what the message holds, never for what a shape
// declares.
type converter struct {
	limit int64 // bytes of all tensors of a request together, after conversion
	sum   int64
}

// convert returns the bytes of t, whose contents come in parts.
func (c *converter) convert(t *edgewise.Tensor, model string, parts [][]byte) ([]byte, error) {
	want := contentsOf(t.Type)
	var data []byte
	for _, part := range parts {
		err := fields(part, func(f field) (err error) {
			switch {
			case f.number < contentsBool || f.number > contentsBytes || f.kind != protowire.BytesType && !elementKind(f):
				return nil
			case want == 0:
				return kserve.TensorErrorf(t.Name, "input '%s' of model '%s': elements of type %v can not be sent in "+
					"contents, send them in raw_input_contents", t.Name, model, t.Type)
			case f.number != want:
				return kserve.TensorErrorf(t.Name, "unexpected explicit tensor data for input tensor '%s' for model "+
					"'%s' of type '%v', expected datatype '%v'",
					t.Name, model, contentsType(f.number), t.Type)
			}
			data, err = c.append(data, t, f)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

// elementKind tells whether f is one element that is not packed.
func elementKind(f field) bool {
	switch f.number {
	case contentsFP32:
		return f.kind == protowire.Fixed32Type
	case contentsFP64:
		return f.kind == protowire.Fixed64Type
	case contentsBytes:
		return false // a field of kind BytesType, like packed ones
	}
	return f.kind == protowire.VarintType
}

// append appends what f holds to the data of t.
func (c *converter) append(data []byte, t *edgewise.Tensor, f field) ([]byte, error) {
	size := int(t.Type.Size())
	switch {
	case t.Type == edgewise.Bytes:
		if err := c.take(4+len(f.bytes), t.Name); err != nil {
			return nil, err
		}
		data = binary.LittleEndian.AppendUint32(data, uint32(len(f.bytes)))
		return append(data, f.bytes...), nil
	case f.kind != protowire.BytesType:
		if err := c.take(size, t.Name); err != nil {
			return nil, err
		}
		return appendElement(data, t, f.value)
	case t.Type == edgewise.FP32 || t.Type == edgewise.FP64:
		return c.appendFixed(data, t, f.bytes)
	}
	n := 0 // a number ends with each byte below 0x80
	for _, b := range f.bytes {
		n += int(b>>7 ^ 1)
	}
	if err := c.take(n*size, t.Name); err != nil {
		return nil, err
	}
	data = slices.Grow(data, n*size)
	err := varints(f.bytes, func(v uint64) (err error) {
		data, err = appendElement(data, t, v)
		return err
	})
	return data, err
}

// appendFixed appends packed floats, which stand in the message as they do in a tensor: the first are not copied.
func (c *converter) appendFixed(data []byte, t *edgewise.Tensor, packed []byte) ([]byte, error) {
	if len(packed)%int(t.Type.Size()) != 0 {
		return nil, invalid("the message is not well-formed: %d bytes of packed %v elements", len(packed), t.Type)
	}
	if data == nil {
		return packed[:len(packed):len(packed)], nil
	}
	if err := c.take(len(packed), t.Name); err != nil {
		return nil, err
	}
	return append(data, packed...), nil
}

// take counts n bytes of memory.
func (c *converter) take(n int, name string) error {
	if c.sum += int64(n); c.sum > c.limit {
		return tooLarge("input '%s': the tensors of a request sent in typed contents may take %d bytes, send them in "+
			"raw_input_contents", name, c.limit)
	}
	return nil
}

// appendElement appends one number as an element of t. Errors: Invalid when the type does not hold it.
func appendElement(data []byte, t *edgewise.Tensor, v uint64) ([]byte, error) {
	field := contentsOf(t.Type)
	switch field {
	case contentsBool:
		v = protowire.EncodeBool(protowire.DecodeBool(v))
	case contentsInt:
		v = uint64(int32(v))
	case contentsUint:
		v = uint64(uint32(v))
	}
	at := len(data)
	data = scalar.AppendBits(data, t.Type, v)
	if scalar.Bits(t.Type, data[at:]) == v {
		return data, nil
	}
	number := any(v)
	if field == contentsInt {
		number = int64(v)
	}
	return nil, kserve.TensorErrorf(t.Name, "input '%s': element %d of its contents is %v, which %v does not hold",
		t.Name, int64(at)/t.Type.Size(), number, t.Type)
}
