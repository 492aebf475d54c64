package npy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// maxBytes bounds the strings of a file.
const maxBytes = 1 << 30

// Write writes t as a NumPy array of format version 1.0, which numpy.load reads. BYTES become fixed-size strings
// (S), padded with NUL to the longest, so an element that itself ends in NUL is refused. BF16, which NumPy does not
// know, is written as bit patterns (V2). Errors: Invalid, and what w says.
func Write(w io.Writer, t edgewise.Tensor) error {
	if err := t.Check(); err != nil {
		return edgewise.Errorf("npy.Write", edgewise.Invalid, "%w", err)
	}
	descr, elements, err := body(t)
	if err != nil {
		return err
	}
	var dims strings.Builder
	for _, d := range t.Shape {
		fmt.Fprintf(&dims, "%d,", d)
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims.String())
	const prologue = len(Magic) + 4 // magic, two bytes of version, two of length
	padding := 63 - (prologue+len(header))%64
	front := append([]byte(Magic), 1, 0)
	front = binary.LittleEndian.AppendUint16(front, uint16(len(header)+padding+1))
	front = append(front, header+strings.Repeat(" ", padding)+"\n"...)
	if _, err := w.Write(front); err != nil {
		return fmt.Errorf("writing tensor %q: %w", t.Name, err)
	}
	if _, err := w.Write(elements); err != nil {
		return fmt.Errorf("writing tensor %q: %w", t.Name, err)
	}
	return nil
}

// body returns the NumPy type and the bytes of the elements.
func body(t edgewise.Tensor) (descr string, body []byte, err error) {
	if t.Type == edgewise.Bytes {
		return fixedStrings(t)
	}
	order := "<"
	if t.Type.Size() == 1 {
		order = "|"
	}
	return order + typeCode(t.Type), t.Data, nil
}

func fixedStrings(t edgewise.Tensor) (descr string, body []byte, err error) {
	longest := 1 // NumPy has no strings of size 0
	count := 0
	for element := range edgewise.Elements(t.Data) {
		longest = max(longest, len(element))
		count++
		if bytes.HasSuffix(element, []byte{0}) {
			return "", nil, edgewise.Errorf("npy.Write", edgewise.Invalid,
				"tensor %q: element %d ends in NUL, which NumPy strings cannot hold", t.Name, count-1)
		}
	}
	if count > maxBytes/longest {
		return "", nil, edgewise.Errorf("npy.Write", edgewise.TooLarge,
			"tensor %q: %d strings padded to %d bytes are over %d bytes", t.Name, count, longest, maxBytes)
	}
	body = make([]byte, 0, count*longest)
	for element := range edgewise.Elements(t.Data) {
		body = append(body, element...)
		body = append(body, make([]byte, longest-len(element))...)
	}
	return fmt.Sprintf("|S%d", longest), body, nil
}
