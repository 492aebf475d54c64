package backend

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// cursor reads the body of a frame. After the first value that is not there or not valid, bad says why, and everything
// read is zero.
type cursor struct {
	b   []byte
	bad string
}

func (c *cursor) fail(why string) {
	if c.bad == "" {
		c.bad = why
	}
	c.b = nil
}

func (c *cursor) take(n int) []byte {
	if n > len(c.b) {
		c.fail("it ends early")
		return nil
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) u8() uint8 {
	if p := c.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if p := c.take(2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if p := c.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if p := c.take(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

func (c *cursor) str() string  { return string(c.take(int(c.u16()))) }
func (c *cursor) text() string { return string(c.bytes()) }

func (c *cursor) bytes() []byte {
	n := c.u32()
	if int64(n) > int64(len(c.b)) {
		c.fail("it ends early")
		return nil
	}
	return c.take(int(n))
}

// count reads a number of elements, each of which takes least bytes at least.
func (c *cursor) count(least int) int {
	n := int(c.u16())
	if n*least > len(c.b) {
		c.fail("it ends early")
		return 0
	}
	return n
}

// end returns the error of a frame of kind k that was read to its end.
func (c *cursor) end(k Kind) error {
	if c.bad == "" && len(c.b) > 0 {
		c.bad = "bytes follow its end"
	}
	if c.bad != "" {
		return broken("frame of kind %d: %s", k, c.bad)
	}
	return nil
}

// minTensor is the shortest form of a tensor.
const minTensor = 2 + 1 + 1 + 16

func (c *cursor) tensors() []Tensor {
	n := c.count(minTensor)
	if n == 0 {
		return nil
	}
	list := make([]Tensor, n)
	for i := range list {
		t := &list[i]
		t.Name, t.Type = c.str(), edgewise.DataType(c.u8())
		rank := int(c.u8())
		if rank > edgewise.MaxRank {
			c.fail("a tensor has too many dimensions")
			return nil
		}
		t.Shape = make(edgewise.Shape, rank)
		for d := range t.Shape {
			t.Shape[d] = int64(c.u64())
		}
		t.Offset, t.Size = c.u64(), c.u64()
	}
	return list
}

func appendTensors(b []byte, list []Tensor) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(list)))
	for i := range list {
		t := &list[i]
		b = appendStr(b, t.Name)
		b = append(b, byte(t.Type), byte(len(t.Shape)))
		for _, d := range t.Shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		b = binary.LittleEndian.AppendUint64(b, t.Offset)
		b = binary.LittleEndian.AppendUint64(b, t.Size)
	}
	return b
}

// appendStr appends a string of at most 65,535 bytes; a longer one is cut: names have lower bounds elsewhere.
func appendStr(b []byte, s string) []byte {
	s = s[:min(len(s), math.MaxUint16)]
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func appendText[T string | []byte](b []byte, s T) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// Types of parameters.
const (
	paramBool  = 1
	paramInt   = 2
	paramFloat = 3
	paramText  = 4
)

func (c *cursor) parameters() map[string]any {
	n := c.count(4)
	if n == 0 {
		return nil
	}
	m := make(map[string]any, n)
	for range n {
		name := c.str()
		switch c.u8() {
		case paramBool:
			m[name] = c.u8() != 0
		case paramInt:
			m[name] = int64(c.u64())
		case paramFloat:
			m[name] = math.Float64frombits(c.u64())
		case paramText:
			m[name] = c.text()
		default:
			c.fail("a parameter has an unknown type")
			return nil
		}
	}
	return m
}

// appendParameters appends parameters in the order of their names. Values of other types than those of a Request are
// left out.
func appendParameters(b []byte, m map[string]any) []byte {
	at := len(b)
	b = append(b, 0, 0)
	if len(m) == 0 {
		return b
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(m)) {
		before := len(b)
		b = appendStr(b, name)
		switch v := m[name].(type) {
		case bool:
			b = append(b, paramBool, 0)
			if v {
				b[len(b)-1] = 1
			}
		case int64:
			b = binary.LittleEndian.AppendUint64(append(b, paramInt), uint64(v))
		case float64:
			b = binary.LittleEndian.AppendUint64(append(b, paramFloat), math.Float64bits(v))
		case string:
			b = appendText(append(b, paramText), v)
		default:
			b = b[:before]
			continue
		}
		n++
	}
	binary.LittleEndian.PutUint16(b[at:], uint16(n))
	return b
}
