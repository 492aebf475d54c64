package kserve

import (
	"encoding/base64"
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// elements reads the "data" of one tensor: arrays in arrays of any shape, whose elements in reading order go to dst.
// Elements beyond its room are validated and counted only.
type elements struct {
	*cursor
	what string // "input" or "output", for messages
	name string
	typ  edgewise.DataType
	dst  []byte
	room int64 // elements that dst takes
	seen int64
	used int // bytes of dst in use; Bytes only

	base64  bool // whether strings are base64 of the elements; Bytes only
	objects bool // whether an element may be an object with its base64; Bytes only
}

// array reads one array.
func (e *elements) array() error { return e.cursor.array(e.run) }

// run reads an array, or elements up to the next array or the end of this one.
func (e *elements) run() error {
	switch {
	case e.next() == '[':
		return e.array()
	case e.typ == edgewise.FP32:
		return e.floats()
	}
	for {
		if err := e.element(); err != nil {
			return err
		}
		e.seen++
		if !e.more() {
			return nil
		}
	}
}

// more reads the comma before another element; it reads nothing before an array, and at the end of this one.
func (e *elements) more() bool {
	if e.next() != ',' {
		return false
	}
	comma := e.p
	e.p++
	if e.next() == '[' {
		e.p = comma
		return false
	}
	return true
}

// floats is run for FP32, where the time of large requests goes: on the usual path nothing is called but the scanner.
func (e *elements) floats() error {
	b, p := e.b, e.p
	for {
		mant, exp, end, form := scanDecimal(b, p)
		v, ok := toFloat32(mant, exp)
		if !ok || form&malformed != 0 {
			e.p = p
			wide, err := e.float(32)
			if err != nil {
				return err
			}
			v, form, end = float32(wide), 0, e.p
		}
		if e.seen < e.room {
			bits := math.Float32bits(v) | uint32(form&negative)<<31
			binary.LittleEndian.PutUint32(e.dst[e.seen*4:], bits)
		}
		e.seen++
		if p = end + 1; p < len(b) && b[end] == ',' && (isDigit(b[p]) || b[p] == '-') {
			continue
		}
		e.p = end
		if !e.more() {
			return nil
		}
		p = e.p
	}
}

// element reads one element of any type but FP32.
func (e *elements) element() error {
	switch {
	case e.typ == edgewise.Bool:
		return e.boolean()
	case e.typ == edgewise.Bytes:
		return e.bytes()
	case e.typ == edgewise.FP64:
		return e.double()
	case e.typ.IsFloat():
		return e.narrow()
	}
	return e.integer()
}

func (e *elements) boolean() error {
	v, ok := e.bool()
	if !ok {
		mant, _, end, form := scanDecimal(e.b, e.p)
		if form != 0 || mant > 1 {
			return e.wrong("attempt to access JSON non-boolean as boolean: want true, false, 0 or 1")
		}
		v, e.p = mant == 1, end
	}
	bit := uint64(0)
	if v {
		bit = 1
	}
	e.put(1, bit)
	return nil
}

func (e *elements) integer() error {
	mant, _, end, form := scanDecimal(e.b, e.p)
	text := e.b[e.p:end]
	switch {
	case form&malformed != 0:
		return e.wrong("want an integer")
	case form&fractional != 0:
		return e.fault("element %d: %s is not an integer, %v takes integers only", e.seen, short(text), e.typ)
	}
	fits := true
	if form&cut != 0 {
		digits := text
		if form&negative != 0 {
			digits = text[1:]
		}
		mant, fits = parseUint(digits)
	}
	size := e.typ.Size()
	limit := uint64(1)<<(8*size-1) - 1 // of a signed type
	switch {
	case !e.typ.IsSigned():
		limit = limit<<1 | 1
		if form&negative != 0 {
			limit = 0
		}
	case form&negative != 0:
		limit++
	}
	if !fits || mant > limit {
		return e.fault("element %d: %s does not fit %v", e.seen, short(text), e.typ)
	}
	if form&negative != 0 {
		mant = -mant
	}
	e.put(size, mant)
	e.p = end
	return nil
}

func (e *elements) double() error {
	mant, exp, end, form := scanDecimal(e.b, e.p)
	v, ok := toFloat64(mant, exp, form)
	switch {
	case !ok || form&malformed != 0:
		var err error
		if v, err = e.float(64); err != nil {
			return err
		}
	default:
		e.p = end
		if form&negative != 0 {
			v = -v
		}
	}
	e.put(8, math.Float64bits(v))
	return nil
}

// narrow reads a floating-point number of less than 32 bits. It is rounded from a float64; where that is in the middle
// between two elements, the text decides.
func (e *elements) narrow() error {
	start := e.p
	v, err := e.float(64)
	if err != nil {
		return err
	}
	text := e.b[start:e.p]
	bits, ok := scalar.Round(e.typ, v, func() int { return compareDecimal(text, math.Abs(v)) })
	if !ok {
		return e.fault("element %d: %s does not fit %v", e.seen, short(text), e.typ)
	}
	e.put(e.typ.Size(), bits)
	return nil
}

// float reads any number, NaN, Infinity or -Infinity as a float of that many bits.
func (e *elements) float(bitSize int) (float64, error) {
	switch {
	case e.word("NaN"):
		return math.NaN(), nil
	case e.word("Infinity"):
		return math.Inf(1), nil
	case e.word("-Infinity"):
		return math.Inf(-1), nil
	}
	_, _, end, form := scanDecimal(e.b, e.p)
	text := e.b[e.p:end]
	if form&malformed != 0 {
		return 0, e.wrong("want a number")
	}
	v, ok := parseFloat(text, bitSize)
	if !ok {
		return 0, e.fault("element %d: %s does not fit %v", e.seen, short(text), e.typ)
	}
	e.p = end
	return v, nil
}

func (e *elements) bytes() error {
	switch ch := e.next(); {
	case ch == '{' && e.objects:
		return e.encoded()
	case ch != '"':
		return e.wrong("attempt to access JSON non-string as string: want a string")
	}
	raw, escaped, err := e.text()
	switch {
	case err != nil:
		return err
	case e.base64:
		return e.store(raw, escaped, base64.StdEncoding)
	}
	return e.store(raw, escaped, nil)
}

// store stores the text of a string as an element, after decoding it where it is encoded.
func (e *elements) store(raw []byte, escaped bool, encoding *base64.Encoding) (err error) {
	if e.seen >= e.room {
		return nil
	}
	start := e.used + 4
	dst := e.dst[:start]
	switch {
	case encoding != nil:
		if escaped {
			e.key = unquote(e.key[:0], raw)
			raw = e.key
		}
		if dst, err = encoding.AppendDecode(dst, raw); err != nil {
			return e.fault("element %d is not base64: %w", e.seen, err)
		}
	case escaped:
		dst = unquote(dst, raw)
	default:
		dst = append(dst, raw...)
	}
	binary.LittleEndian.PutUint32(e.dst[e.used:], uint32(len(dst)-start))
	e.used = len(dst)
	return nil
}

// put stores the low size bytes of bits as the element number seen.
func (e *elements) put(size int64, bits uint64) {
	if e.seen >= e.room {
		return
	}
	at := e.dst[e.seen*size:]
	switch size {
	case 1:
		at[0] = byte(bits)
	case 2:
		binary.LittleEndian.PutUint16(at, uint16(bits))
	case 4:
		binary.LittleEndian.PutUint32(at, uint32(bits))
	default:
		binary.LittleEndian.PutUint64(at, bits)
	}
}

// wrong makes the error about an element at the cursor that is not JSON, or of another type than want.
func (e *elements) wrong(want string) error {
	found, at := e.found(), e.p
	if err := e.skip(wordsRefused); err != nil {
		return err
	}
	if found == "a number" || found == "a bool" || found == "null" {
		found = short(e.b[at:e.p])
	}
	return e.fault("element %d: %s, got %s", e.seen, want, found)
}

func (e *elements) fault(format string, args ...any) error {
	return TensorErrorf(e.name, "%s %q: "+format, append([]any{e.what, e.name}, args...)...)
}
