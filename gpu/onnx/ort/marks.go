package ort

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
)

// markBytes is the length of a mark: so many random bytes that no run makes them by chance.
const markBytes = 16

// marks finds memory that a run has not written. The bytes are those of a session and never leave it.
type marks [markBytes]byte

func newMarks() (m marks) {
	_, _ = rand.Read(m[:]) // it never fails
	return m
}

// put marks both ends of each destination, or all of it.
func (m *marks) put(into []destination, whole bool) {
	for i := range into {
		data := into[i].data
		if data == nil {
			continue
		}
		if whole {
			for at := 0; at < len(data); at += markBytes {
				copy(data[at:], m[:])
			}
		}
		copy(data, m[:])
		copy(data[len(data)-markBytes:], m[:])
	}
}

// left returns the indexes of the destinations on which a mark is left, whole or, where all of the memory was marked,
// in part. Parts are looked for four bytes at a time.
func (m *marks) left(into []destination, whole bool) (unwritten []int) {
	for i := range into {
		data := into[i].data
		if data == nil {
			continue
		}
		last := data[len(data)-markBytes:]
		if bytes.Equal(data[:markBytes], m[:]) || bytes.Equal(last, m[:]) || whole && m.within(data) {
			unwritten = append(unwritten, i)
		}
	}
	return unwritten
}

// within tells whether a word of the memory is as put has left it.
func (m *marks) within(data []byte) bool {
	le := binary.LittleEndian
	var words [markBytes / 4]uint32
	for i := range words {
		words[i] = le.Uint32(m[4*i:])
	}
	end := len(data) - markBytes // from here on the last mark stands
	for at := 0; at+4 <= end; at += 4 {
		if le.Uint32(data[at:]) == words[at/4%len(words)] {
			return true
		}
	}
	for i := range words {
		if le.Uint32(data[end+4*i:]) == words[i] {
			return true
		}
	}
	return false
}
