// Package npy reads and writes tensors as NumPy arrays, in files of the format .npy.
//
// Source: NEP 1, "A simple file format for NumPy arrays", format versions 1.0 to 3.0.
package npy

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/pattern"
)

// Magic is what an .npy file begins with.
const Magic = "\x93NUMPY"

// MaxHeaderBytes bounds the header of an .npy file.
const MaxHeaderBytes = 1 << 20

// typeCode returns the NumPy type code of a data type, not Bytes, without its byte order. Floating-point types that
// NumPy does not have are bit patterns (V).
func typeCode(t edgewise.DataType) string {
	letter := "V"
	switch {
	case t == edgewise.Bool:
		letter = "b"
	case t.IsUnsigned():
		letter = "u"
	case t.IsSigned():
		letter = "i"
	case t == edgewise.FP16 || t == edgewise.FP32 || t == edgewise.FP64:
		letter = "f"
	}
	return letter + strconv.FormatInt(t.Size(), 10)
}

// header is the Python dictionary at the front of an .npy file.
type header struct {
	bigEndian bool
	code      string // the type code without byte order: "f4", "U12"
	fortran   bool   // the first dimension varies fastest
	shape     edgewise.Shape
}

var (
	descrEntry = pattern.New(`'descr'\s*:\s*'([<>|=]?)([A-Za-z]\d*)'`)
	orderEntry = pattern.New(`'fortran_order'\s*:\s*(True|False)`)
	shapeEntry = pattern.New(`'shape'\s*:\s*\(([^)]*)\)`)
)

// Decode reads a NumPy array of a type: strings (S and U) become BYTES, bit patterns of two bytes (V2) become BF16. The
// tensor has no name; it aliases data, which is changed. An array of more than maxEmpty strings of no bytes is refused.
// Error: Invalid.
func Decode(data []byte, want edgewise.DataType, maxEmpty int64) (edgewise.Tensor, error) {
	h, body, err := parse(data)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	size, err := h.check(want, int64(len(body)), maxEmpty)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	if h.fortran {
		body = rowMajor(body, h.shape, size)
	}
	if want == edgewise.Bytes {
		body, err = h.strings(body, size)
	} else if h.bigEndian {
		swap(body, size)
	}
	if want == edgewise.Bool {
		normalise(body)
	}
	return edgewise.Tensor{Type: want, Shape: h.shape, Data: body}, err
}

// parse splits an .npy file into its header and the elements.
func parse(data []byte) (*header, []byte, error) {
	rest, ok := bytes.CutPrefix(data, []byte(Magic))
	if !ok || len(rest) < 6 {
		return nil, nil, invalid("it does not begin like a NumPy file")
	}
	var length int64
	switch version := rest[0]; version {
	case 1:
		length, rest = int64(binary.LittleEndian.Uint16(rest[2:])), rest[4:]
	case 2, 3:
		length, rest = int64(binary.LittleEndian.Uint32(rest[2:])), rest[6:]
	default:
		return nil, nil, invalid("it is a NumPy file of version %d: want 1 to 3", version)
	}
	if length > MaxHeaderBytes || length > int64(len(rest)) {
		return nil, nil, invalid("its NumPy header says it has %d bytes: at most %d, and no more than the file has, are "+
			"allowed", length, MaxHeaderBytes)
	}
	h, err := parseHeader(string(rest[:length]))
	return h, rest[length:], err
}

func parseHeader(text string) (*header, error) {
	descr, order, dims := descrEntry.FindStringSubmatch(text), orderEntry.FindStringSubmatch(text), shapeEntry.FindStringSubmatch(text)
	if descr == nil || order == nil || dims == nil {
		return nil, invalid("cannot read its NumPy header %.120q: want a plain type, an order and a shape", text)
	}
	h := &header{bigEndian: descr[1] == ">", code: descr[2], fortran: order[1] == "True", shape: edgewise.Shape{}}
	for _, field := range strings.Split(dims[1], ",") {
		field = strings.TrimSuffix(strings.TrimSpace(field), "L") // Python 2 wrote long integers so
		if field == "" {
			continue
		}
		d, err := strconv.ParseInt(field, 10, 64)
		if err != nil || d < 0 || len(h.shape) == edgewise.MaxRank {
			return nil, invalid("its NumPy shape (%.80s) is not one of at most %d sizes", dims[1], edgewise.MaxRank)
		}
		h.shape = append(h.shape, d)
	}
	return h, nil
}

// check compares the type and the number of bytes, and returns the bytes of one element in the file.
func (h *header) check(want edgewise.DataType, got, maxEmpty int64) (size int64, err error) {
	if kind := h.code[0]; want == edgewise.Bytes && (kind == 'S' || kind == 'U') {
		size, err = strconv.ParseInt(h.code[1:], 10, 32)
		if kind == 'U' {
			size *= 4
		}
	} else if want != edgewise.Bytes && h.code == typeCode(want) {
		size = want.Size()
	} else {
		return 0, h.mismatch(want)
	}
	n, ok := h.shape.Elements()
	if err != nil || !ok || (size > 0 && n != got/size) || n*size != got {
		return 0, invalid("its NumPy header says %v elements of type %s, but %d bytes follow", h.shape, h.code, got)
	}
	if size == 0 && n > maxEmpty {
		return 0, invalid("its NumPy header says %d empty strings: at most %d are allowed", n, maxEmpty)
	}
	return size, nil
}

func (h *header) mismatch(want edgewise.DataType) error {
	if h.code[0] == 'O' {
		return invalid("it holds Python objects, which are never read: save an array of plain elements")
	}
	if code := typeCode(want); want != edgewise.Bytes && code[0] != 'V' {
		return invalid("its elements are %s: convert them with astype(%q)", h.code, code)
	}
	return invalid("its elements are %s", h.code)
}

// strings frames fixed-size strings as BYTES. NumPy pads with NUL, so NULs at the end are not part of a string.
func (h *header) strings(body []byte, size int64) ([]byte, error) {
	n, _ := h.shape.Elements()
	framed := make([]byte, 0, int64(len(body))+4*n)
	for i := range n {
		element := body[i*size : (i+1)*size]
		if h.code[0] == 'U' {
			text, err := h.text(element)
			if err != nil {
				return nil, err
			}
			element = text
		}
		framed = edgewise.AppendElement(framed, string(bytes.TrimRight(element, "\x00")))
	}
	return framed, nil
}

// text turns UTF-32 into UTF-8.
func (h *header) text(element []byte) ([]byte, error) {
	var order binary.ByteOrder = binary.LittleEndian
	if h.bigEndian {
		order = binary.BigEndian
	}
	text := make([]byte, 0, len(element)/4)
	for ; len(element) >= 4; element = element[4:] {
		code := order.Uint32(element)
		if code > utf8.MaxRune || !utf8.ValidRune(rune(code)) {
			return nil, invalid("a string holds %#x, which is not a character", code)
		}
		text = utf8.AppendRune(text, rune(code))
	}
	return text, nil
}

// rowMajor returns the elements of a column-major array in row-major order.
func rowMajor(body []byte, shape edgewise.Shape, size int64) []byte {
	ordered := make([]byte, 0, len(body))
	strides, stride := make([]int64, len(shape)), size
	for i, d := range shape {
		strides[i], stride = stride, stride*d
	}
	index, at := make([]int64, len(shape)), int64(0)
	for len(ordered) < len(body) {
		ordered = append(ordered, body[at:at+size]...)
		for i := len(shape) - 1; i >= 0; i-- {
			index[i]++
			at += strides[i]
			if index[i] < shape[i] {
				break
			}
			at -= index[i] * strides[i]
			index[i] = 0
		}
	}
	return ordered
}

// swap reverses the bytes of every element.
func swap(body []byte, size int64) {
	for ; int64(len(body)) >= size; body = body[size:] {
		slices.Reverse(body[:size])
	}
}

// normalise makes every true byte 1.
func normalise(body []byte) {
	for i, b := range body {
		if b != 0 {
			body[i] = 1
		}
	}
}

func invalid(format string, args ...any) error {
	return edgewise.Errorf("npy.Decode", edgewise.Invalid, format, args...)
}
