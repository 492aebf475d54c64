package fuel

import (
	"fmt"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
)

// reader reads the binary format and keeps the first error; after one, everything it returns is zero.
type reader struct {
	data []byte
	at   int
	base int    // offset of data in the module
	what string // what is being read, for messages
	err  error
}

func (r *reader) fail(kind edgewise.Kind, format string, args ...any) {
	if r.err == nil {
		r.err = edgewise.Errorf("fuel.Rewrite", kind, "module: %s, byte %d: %s", r.what, r.base+r.at, fmt.Sprintf(format, args...))
	}
}

func (r *reader) invalid(format string, args ...any) { r.fail(edgewise.Invalid, format, args...) }

// more tells whether there is something left to read.
func (r *reader) more() bool { return r.err == nil && r.at < len(r.data) }

func (r *reader) byte() byte {
	if r.err != nil {
		return 0
	}
	if r.at >= len(r.data) {
		r.invalid("it ends too early")
		return 0
	}
	b := r.data[r.at]
	r.at++
	return b
}

func (r *reader) bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.data)-r.at {
		r.invalid("it ends too early: %d bytes are wanted and %d are there", n, len(r.data)-r.at)
		return nil
	}
	b := r.data[r.at : r.at+n]
	r.at += n
	return b
}

// u32 reads an unsigned LEB128 number.
func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; ; shift += 7 {
		b := r.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		if shift == 28 {
			r.invalid("a number takes more than 5 bytes")
			return 0
		}
	}
	if v > 1<<32-1 {
		r.invalid("a number is above 32 bits")
		return 0
	}
	return uint32(v)
}

// signed reads a signed LEB128 number of at most bits bits.
func (r *reader) signed(bits int) int64 {
	var v int64
	for shift := 0; ; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			break
		}
		if shift+7 >= bits {
			r.invalid("a number takes more bytes than %d bits need", bits)
			return 0
		}
	}
	if bits < 64 && (v < -1<<(bits-1) || v >= 1<<(bits-1)) {
		r.invalid("a number is above %d bits", bits)
		return 0
	}
	return v
}

// count reads the length of a vector whose entries take at least one byte each.
func (r *reader) count(of string, limit int) int {
	n := r.u32()
	if r.err == nil && int64(n) > int64(limit) {
		r.fail(edgewise.TooLarge, "%d %s: at most %d are allowed", n, of, limit)
		return 0
	}
	if int(n) > len(r.data)-r.at {
		r.invalid("%d %s cannot fit into the %d bytes that are left", n, of, len(r.data)-r.at)
		return 0
	}
	return int(n)
}

// index reads an index and holds it against the number of things there are.
func (r *reader) index(of string, count int) uint32 {
	i := r.u32()
	if r.err == nil && int64(i) >= int64(count) {
		r.invalid("%s %d does not exist: there are %d", of, i, count)
	}
	return i
}

// MaxNameBytes bounds the name of an import or export.
const MaxNameBytes = 1024

func (r *reader) name() string {
	n := r.u32()
	if r.err == nil && n > MaxNameBytes {
		r.fail(edgewise.TooLarge, "a name of %d bytes: at most %d are allowed", n, MaxNameBytes)
	}
	b := r.bytes(int(n))
	if !utf8.Valid(b) {
		r.invalid("a name is not UTF-8")
	}
	return string(b)
}

func appendU32(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

func appendSigned(dst []byte, v int64) []byte {
	for v < -0x40 || v >= 0x40 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v)&0x7f)
}

// padded is the length of a number written by putPadded.
const padded = 5

// putPadded writes a non-negative signed number in five bytes, which its value may fill in later.
func putPadded(dst []byte, v int32) {
	for i := range padded {
		dst[i] = byte(v>>(7*i))&0x7f | 0x80
	}
	dst[padded-1] &= 0x7f
}
