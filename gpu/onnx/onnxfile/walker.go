package onnxfile

import (
	"math"
	"strings"
	"unicode/utf8"
)

// The wire types of protobuf that ONNX uses. The other two, groups, are refused.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

const (
	maxVarintBytes = 10
	maxTagBytes    = 5
	maxFieldNumber = 1<<29 - 1
)

// walker reads messages one after the other. pos is where it stands; it never passes the end of the message it is in.
type walker struct {
	source
	tally
	disk
	content
	pos      int64
	interned map[string]string
}

// disk is what the walker knows of the files beside the model file.
type disk struct {
	stat  func(name string) (size int64, err error) // of a regular file; Invalid when there is none
	base  string                                    // folder of the model file
	sizes map[string]int64                          // by location, of those looked at
}

// field is one field of a message: a number, or bytes from the walker's position to end.
type field struct {
	number uint32
	wire   uint8
	value  uint64 // of a varint or a fixed-size number
	end    int64  // where the next field begins
}

// each calls visit for every field of m between the walker's position and end. visit may read the field's bytes or
// leave them. Fields that m does not know are skipped, as protobuf does.
func (w *walker) each(m *message, end int64, visit func(f field) error) error {
	var seen uint64
	for w.pos < end {
		at := w.pos
		f, err := w.next(end)
		if err != nil {
			return within(err, "%s at byte %d", m.name, at)
		}
		known, err := m.check(f, &seen)
		if err != nil {
			return within(err, "%s at byte %d", m.name, at)
		}
		if known {
			if err := visit(f); err != nil {
				return err
			}
		}
		w.pos = f.end
	}
	return nil
}

// pass reads a message that nobody keeps, so that it is known to be well formed.
func (w *walker) pass(m *message, end int64) error {
	return w.each(m, end, func(field) error { return nil })
}

// next reads a tag and, of a number, its value. Afterwards the walker stands at the bytes of a bytes field.
func (w *walker) next(end int64) (f field, err error) {
	if err := add(&w.fields, 1, w.Fields, "wire fields in the file"); err != nil {
		return f, err
	}
	tag, err := w.varint(end, maxTagBytes)
	if err != nil {
		return f, err
	}
	number := tag >> 3
	f.wire = uint8(tag & 7)
	if number == 0 || number > maxFieldNumber {
		return f, invalid("field number %d: want 1 to %d", number, maxFieldNumber)
	}
	f.number = uint32(number)
	switch f.wire {
	case wireVarint:
		f.value, err = w.varint(end, maxVarintBytes)
	case wireFixed64:
		f.value, err = w.fixed(end, 8)
	case wireFixed32:
		f.value, err = w.fixed(end, 4)
	case wireBytes:
		f.end, err = w.length(end)
		return f, err
	default:
		err = invalid("field %d has wire type %d: groups and reserved types are not part of ONNX", f.number, f.wire)
	}
	f.end = w.pos
	return f, err
}

// varint reads a number of at most limit bytes.
func (w *walker) varint(end int64, limit int) (uint64, error) {
	left := int(min(end-w.pos, int64(limit)))
	if left == 0 {
		return 0, invalid("the file is cut off: a number is missing")
	}
	b, err := w.peek(w.pos, left)
	if err != nil {
		return 0, err
	}
	var v uint64
	for i, c := range b {
		if i == maxVarintBytes-1 && c > 1 {
			return 0, invalid("a number does not fit in 64 bits")
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			w.pos += int64(i) + 1
			return v, nil
		}
	}
	if left < limit {
		return 0, invalid("the file is cut off: a number goes on past the end")
	}
	return 0, invalid("a number has more than %d bytes", limit)
}

// fixed reads a little-endian number of n bytes.
func (w *walker) fixed(end int64, n int) (uint64, error) {
	if end-w.pos < int64(n) {
		return 0, invalid("the file is cut off: a number of %d bytes has %d left", n, end-w.pos)
	}
	b, err := w.peek(w.pos, n)
	if err != nil {
		return 0, err
	}
	var v uint64
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	w.pos += int64(n)
	return v, nil
}

// length reads a length and returns the end of what it measures.
func (w *walker) length(end int64) (int64, error) {
	n, err := w.varint(end, maxVarintBytes)
	if err != nil {
		return 0, err
	}
	if n > uint64(end-w.pos) {
		return 0, invalid("the file is cut off or damaged: a field of %d bytes has %d left", n, end-w.pos)
	}
	return w.pos + int64(n), nil
}

// text reads the field's bytes as valid UTF-8 without NUL, at most limit bytes, and counts them as kept.
func (w *walker) text(f field, limit int, what string) (string, error) {
	n := f.end - w.pos
	if n > int64(limit) {
		return "", tooLarge("a %s has %d bytes: at most %d are allowed", what, n, limit)
	}
	if n == 0 {
		return "", nil
	}
	b := make([]byte, n)
	if err := w.read(b, w.pos); err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", invalid("a %s is not valid UTF-8: %.64q", what, b)
	}
	s := string(b)
	if strings.IndexByte(s, 0) >= 0 {
		return "", invalid("the %s %.64q contains a NUL", what, s)
	}
	return s, nil
}

// name reads a name that is kept.
func (w *walker) name(f field, what string) (string, error) {
	s, err := w.text(f, w.Limits.Name, what)
	if err != nil {
		return "", err
	}
	return s, w.keep(s)
}

// keep counts s as kept.
func (w *walker) keep(s string) error {
	return add(&w.kept, int64(len(s))+KeptOverhead, w.Kept, "bytes of names and metadata")
}

// word reads a name that occurs often, such as an operator, and keeps one copy of it.
func (w *walker) word(f field, what string) (string, error) {
	s, err := w.text(f, w.Limits.Name, what)
	if err != nil {
		return "", err
	}
	if known, ok := w.interned[s]; ok {
		return known, nil
	}
	if err := w.keep(s); err != nil {
		return "", err
	}
	w.interned[s] = s
	return s, nil
}

// int32 returns a number that fits in 32 bits; protobuf would cut off the rest.
func (f field) int32(what string) (int32, error) {
	v := int64(f.value)
	if v < math.MinInt32 || v > math.MaxInt32 {
		return 0, invalid("%s %d does not fit in 32 bits", what, v)
	}
	return int32(v), nil
}

// varints counts the varints in a packed field and calls visit, when it is not nil, for each. Without visit it only
// counts where they end.
func (w *walker) varints(f field, visit func(v uint64) error) (n int64, err error) {
	if visit != nil {
		for w.pos < f.end {
			v, err := w.varint(f.end, maxVarintBytes)
			if err != nil {
				return n, err
			}
			if err := visit(v); err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	var last byte
	for w.pos < f.end {
		b, err := w.peek(w.pos, int(min(f.end-w.pos, windowBytes)))
		if err != nil {
			return n, err
		}
		for _, c := range b {
			n += int64(^c >> 7)
		}
		last = b[len(b)-1]
		w.pos += int64(len(b))
	}
	if last >= 0x80 {
		return n, invalid("the file is cut off: a packed number goes on past the end")
	}
	return n, nil
}
