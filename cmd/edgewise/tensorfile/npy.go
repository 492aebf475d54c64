package tensorfile

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
)

const npyMagic = "\x93NUMPY"

// MaxNpyHeaderBytes bounds the header of an .npy file.
const MaxNpyHeaderBytes = 1 << 20

// npyCode returns the NumPy type code of a data type, not Bytes, without its byte order. Floating-point types that
// NumPy does not have are bit patterns (V).
func npyCode(t edgewise.DataType) string {
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

// npyHeader is the Python dictionary at the front of an .npy file.
//
// Source: NEP 1, "A simple file format for NumPy arrays", format versions 1.0 to 3.0.
type npyHeader struct {
	bigEndian bool
	code      string // the type code without byte order: "f4", "U12"
	fortran   bool   // the first dimension varies fastest
	shape     edgewise.Shape
}

var (
	npyDescr   = regexp.MustCompile(`'descr'\s*:\s*'([<>|=]?)([A-Za-z]\d*)'`)
	npyFortran = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape'\s*:\s*\(([^)]*)\)`)
)

// decodeNpy reads a NumPy array.
func decodeNpy(data []byte, spec edgewise.Spec, _ Options) (edgewise.Tensor, error) {
	header, body, err := parseNpy(data)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	size, err := header.check(spec.Type, int64(len(body)))
	if err != nil {
		return edgewise.Tensor{}, err
	}
	if header.fortran {
		body = rowMajor(body, header.shape, size)
	}
	if spec.Type == edgewise.Bytes {
		body, err = header.strings(body, size)
	} else if header.bigEndian {
		swap(body, size)
	}
	if spec.Type == edgewise.Bool {
		normalise(body)
	}
	shape := header.shape
	if batched := append(edgewise.Shape{1}, shape...); !spec.Shape.Accepts(shape) && spec.Shape.Accepts(batched) {
		shape = batched
	}
	return edgewise.Tensor{Shape: shape, Data: body}, err
}

// parseNpy splits an .npy file into its header and the elements.
func parseNpy(data []byte) (*npyHeader, []byte, error) {
	rest, ok := bytes.CutPrefix(data, []byte(npyMagic))
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
	if length > MaxNpyHeaderBytes || length > int64(len(rest)) {
		return nil, nil, invalid("its NumPy header says it has %d bytes: at most %d, and no more than the file has, are "+
			"allowed", length, MaxNpyHeaderBytes)
	}
	header, err := parseNpyHeader(string(rest[:length]))
	return header, rest[length:], err
}

func parseNpyHeader(text string) (*npyHeader, error) {
	descr, order, dims := npyDescr.FindStringSubmatch(text), npyFortran.FindStringSubmatch(text), npyShape.FindStringSubmatch(text)
	if descr == nil || order == nil || dims == nil {
		return nil, invalid("cannot read its NumPy header %.120q: want a plain type, an order and a shape", text)
	}
	header := &npyHeader{bigEndian: descr[1] == ">", code: descr[2], fortran: order[1] == "True", shape: edgewise.Shape{}}
	for _, field := range strings.Split(dims[1], ",") {
		field = strings.TrimSuffix(strings.TrimSpace(field), "L") // Python 2 wrote long integers so
		if field == "" {
			continue
		}
		d, err := strconv.ParseInt(field, 10, 64)
		if err != nil || d < 0 || len(header.shape) == edgewise.MaxRank {
			return nil, invalid("its NumPy shape (%.80s) is not one of at most %d sizes", dims[1], edgewise.MaxRank)
		}
		header.shape = append(header.shape, d)
	}
	return header, nil
}

// check compares the type and the number of bytes, and returns the bytes of one element in the file.
func (h *npyHeader) check(want edgewise.DataType, got int64) (size int64, err error) {
	if kind := h.code[0]; want == edgewise.Bytes && (kind == 'S' || kind == 'U') {
		size, err = strconv.ParseInt(h.code[1:], 10, 32)
		if kind == 'U' {
			size *= 4
		}
	} else if want != edgewise.Bytes && h.code == npyCode(want) {
		size = want.Size()
	} else {
		return 0, h.mismatch(want)
	}
	n, ok := h.shape.Elements()
	if err != nil || !ok || (size > 0 && n != got/size) || n*size != got {
		return 0, invalid("its NumPy header says %v elements of type %s, but %d bytes follow", h.shape, h.code, got)
	}
	if size == 0 && n > MaxFileBytes/4 {
		return 0, invalid("its NumPy header says %d empty strings: at most %d are allowed", n, MaxFileBytes/4)
	}
	return size, nil
}

func (h *npyHeader) mismatch(want edgewise.DataType) error {
	if h.code[0] == 'O' {
		return invalid("it holds Python objects, which are never read: save an array of plain elements")
	}
	if code := npyCode(want); want != edgewise.Bytes && code[0] != 'V' {
		return invalid("its elements are %s: convert them with astype(%q)", h.code, code)
	}
	return invalid("its elements are %s", h.code)
}

// strings frames fixed-size strings as BYTES. NumPy pads with NUL, so NULs at the end are not part of a string.
func (h *npyHeader) strings(body []byte, size int64) ([]byte, error) {
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
func (h *npyHeader) text(element []byte) ([]byte, error) {
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
		body[i] = flag(b != 0)
	}
}
