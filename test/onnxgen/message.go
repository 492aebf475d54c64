package onnxgen

import (
	"encoding/binary"
	"io"
	"math"
)

// Message is a protobuf message under construction: the bytes of its fields in the order they are added. The zero value
// is the empty message. Bytes that are added are shared, not copied, so a model costs little more than its weights.
type Message struct {
	parts [][]byte
	size  int
}

// Size returns the bytes of the message.
func (m *Message) Size() int { return m.size }

// Raw adds bytes as they are, for messages that no writer would make.
func (m *Message) Raw(b ...byte) *Message {
	if len(b) > 0 {
		m.parts = append(m.parts, b)
		m.size += len(b)
	}
	return m
}

// Tag adds a field's tag alone.
func (m *Message) Tag(field, wire int) *Message {
	return m.Raw(binary.AppendUvarint(nil, uint64(field)<<3|uint64(wire))...)
}

// Int adds a number field.
func (m *Message) Int(field int, v int64) *Message {
	return m.Tag(field, 0).Raw(binary.AppendUvarint(nil, uint64(v))...)
}

// Float adds a float field.
func (m *Message) Float(field int, v float32) *Message {
	return m.Tag(field, 5).Raw(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))...)
}

// Bytes adds a bytes or string field.
func (m *Message) Bytes(field int, b []byte) *Message {
	return m.Tag(field, 2).Raw(binary.AppendUvarint(nil, uint64(len(b)))...).Raw(b...)
}

// String adds a string field.
func (m *Message) String(field int, s string) *Message { return m.Bytes(field, []byte(s)) }

// Text adds a string field unless s is empty.
func (m *Message) Text(field int, s string) *Message {
	if s == "" {
		return m
	}
	return m.String(field, s)
}

// Nested adds a message field.
func (m *Message) Nested(field int, inner *Message) *Message {
	m.Tag(field, 2).Raw(binary.AppendUvarint(nil, uint64(inner.size))...)
	m.parts = append(m.parts, inner.parts...)
	m.size += inner.size
	return m
}

// Packed adds a repeated number field in its packed form.
func (m *Message) Packed(field int, values ...int64) *Message {
	var b []byte
	for _, v := range values {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return m.Bytes(field, b)
}

// Repeated adds a bytes field that holds block times over.
func (m *Message) Repeated(field int, block []byte, times int) *Message {
	m.Tag(field, 2).Raw(binary.AppendUvarint(nil, uint64(len(block)*times))...)
	for range times {
		m.Raw(block...)
	}
	return m
}

// WriteTo writes the message.
func (m *Message) WriteTo(w io.Writer) (n int64, err error) {
	for _, p := range m.parts {
		wrote, err := w.Write(p)
		n += int64(wrote)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Encoded returns the message's bytes, which are new.
func (m *Message) Encoded() []byte {
	b := make([]byte, 0, m.size)
	for _, p := range m.parts {
		b = append(b, p...)
	}
	return b
}
