package step

import (
	"errors"
	"strconv"
	"unsafe"
)

// DataType is the element type of a tensor, with the numbers of the inference protocol.
type DataType uint32

// The element types.
const (
	Bool DataType = iota + 1
	Uint8
	Uint16
	Uint32
	Uint64
	Int8
	Int16
	Int32
	Int64
	FP16
	FP32
	FP64
	Bytes // each element is a little-endian uint32 length and that many bytes
	BF16
)

// String returns the name on the wire, such as "FP32".
func (t DataType) String() string {
	names := [...]string{
		"?", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16",
		"FP32", "FP64", "BYTES", "BF16",
	}
	if int(t) < len(names) {
		return names[t]
	}
	return "DataType(" + strconv.Itoa(int(t)) + ")"
}

// Half is the bit pattern of an FP16 element, BFloat16 of a BF16 element.
type (
	Half     uint16
	BFloat16 uint16
)

// Element is a Go type that elements of a tensor are viewed as.
type Element interface {
	bool | uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float32 | float64 | Half | BFloat16
}

// TypeOf returns the element type that E stands for.
func TypeOf[E Element]() DataType {
	var zero E
	switch any(zero).(type) {
	case bool:
		return Bool
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case Half:
		return FP16
	case float32:
		return FP32
	case float64:
		return FP64
	}
	return BF16
}

// Tensor is a named block of elements. Data are the little-endian elements, row-major; of an input, they may be written
// to.
type Tensor struct {
	Name  string
	Type  DataType
	Shape []int64
	Data  []byte
}

// List is the inputs or the outputs of a step.
type List []Tensor

// Find returns the tensor called name, nil when there is none: for optional inputs.
func (l List) Find(name string) *Tensor {
	for i := range l {
		if l[i].Name == name {
			return &l[i]
		}
	}
	return nil
}

// Typed is a tensor with its elements as E, in place.
type Typed[E Element] struct {
	*Tensor
	Values []E
}

// Input returns the tensor called name, whose type must be that of E. The error names what is wrong.
func Input[E Element](l List, name string) (Typed[E], error) {
	t := l.Find(name)
	if t == nil {
		return Typed[E]{}, errors.New("input " + strconv.Quote(name) + " is missing")
	}
	if t.Type != TypeOf[E]() {
		return Typed[E]{}, errors.New("input " + strconv.Quote(name) + " is " + t.Type.String() + ": want " + TypeOf[E]().String())
	}
	return Typed[E]{t, View[E](t)}, nil
}

// View returns the elements of t in place, nil when they have another type.
func View[E Element](t *Tensor) []E {
	var zero E
	n := len(t.Data) / int(unsafe.Sizeof(zero))
	if t.Type != TypeOf[E]() || n == 0 {
		return nil
	}
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(t.Data))), n)
}

// Of returns a tensor of values, which are not copied. Without a shape it is a vector.
func Of[E Element](name string, values []E, shape ...int64) Tensor {
	if shape == nil {
		shape = []int64{int64(len(values))}
	}
	var zero E
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(zero)))
	return Tensor{Name: name, Type: TypeOf[E](), Shape: shape, Data: data}
}

// Scalar returns a tensor of one element and no dimensions.
func Scalar[E Element](name string, value E) Tensor {
	t := Of(name, []E{value})
	t.Shape = nil
	return t
}

// InputBytes returns the elements of the BYTES tensor called name, in place. The error names what is wrong.
func InputBytes(l List, name string) (*Tensor, [][]byte, error) {
	t := l.Find(name)
	if t == nil {
		return nil, nil, errors.New("input " + strconv.Quote(name) + " is missing")
	}
	if t.Type != Bytes {
		return nil, nil, errors.New("input " + strconv.Quote(name) + " is " + t.Type.String() + ": want BYTES")
	}
	return t, Elements(t), nil
}

// Elements returns the elements of a BYTES tensor, in place. It stops at a frame that is not whole.
func Elements(t *Tensor) [][]byte {
	var all [][]byte
	for rest := t.Data; len(rest) >= 4; {
		n := uint64(rest[0]) | uint64(rest[1])<<8 | uint64(rest[2])<<16 | uint64(rest[3])<<24
		rest = rest[4:]
		if n > uint64(len(rest)) {
			break
		}
		all = append(all, rest[:n:n])
		rest = rest[n:]
	}
	return all
}

// OfBytes returns a BYTES tensor of elements, copied. Without a shape it is a vector.
func OfBytes[S ~string | ~[]byte](name string, elements []S, shape ...int64) Tensor {
	if shape == nil {
		shape = []int64{int64(len(elements))}
	}
	size := 0
	for _, e := range elements {
		size += 4 + len(e)
	}
	data := make([]byte, 0, size)
	for _, e := range elements {
		n := len(e)
		data = append(data, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
		data = append(data, e...)
	}
	return Tensor{Name: name, Type: Bytes, Shape: shape, Data: data}
}
