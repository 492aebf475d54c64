package tensorfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// WriteNpy writes t as a NumPy array of format version 1.0, which numpy.load reads. BYTES become fixed-size strings
// (S), padded with NUL to the longest, so an element that itself ends in NUL is refused. BF16, which NumPy does not
// know, is written as bit patterns (V2). Errors: Invalid, and what w says.
func WriteNpy(w io.Writer, t edgewise.Tensor) error {
	if err := t.Check(); err != nil {
		return edgewise.Errorf("tensorfile.WriteNpy", edgewise.Invalid, "%w", err)
	}
	descr, body, err := npyBody(t)
	if err != nil {
		return err
	}
	var dims strings.Builder
	for _, d := range t.Shape {
		fmt.Fprintf(&dims, "%d,", d)
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims.String())
	const prologue = len(npyMagic) + 4 // magic, two bytes of version, two of length
	padding := 63 - (prologue+len(header))%64
	front := append([]byte(npyMagic), 1, 0)
	front = binary.LittleEndian.AppendUint16(front, uint16(len(header)+padding+1))
	front = append(front, header+strings.Repeat(" ", padding)+"\n"...)
	if _, err := w.Write(front); err != nil {
		return fmt.Errorf("writing tensor %q: %w", t.Name, err)
	}
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("writing tensor %q: %w", t.Name, err)
	}
	return nil
}

// npyBody returns the NumPy type and the bytes of the elements.
func npyBody(t edgewise.Tensor) (descr string, body []byte, err error) {
	if t.Type == edgewise.Bytes {
		return npyStrings(t)
	}
	order := "<"
	if t.Type.Size() == 1 {
		order = "|"
	}
	return order + npyCode(t.Type), t.Data, nil
}

func npyStrings(t edgewise.Tensor) (descr string, body []byte, err error) {
	longest := 1 // NumPy has no strings of size 0
	count := 0
	for element := range edgewise.Elements(t.Data) {
		longest = max(longest, len(element))
		count++
		if bytes.HasSuffix(element, []byte{0}) {
			return "", nil, edgewise.Errorf("tensorfile.WriteNpy", edgewise.Invalid,
				"tensor %q: element %d ends in NUL, which NumPy strings cannot hold", t.Name, count-1)
		}
	}
	if count > MaxFileBytes/longest {
		return "", nil, edgewise.Errorf("tensorfile.WriteNpy", edgewise.TooLarge,
			"tensor %q: %d strings padded to %d bytes are over %d bytes", t.Name, count, longest, MaxFileBytes)
	}
	body = make([]byte, 0, count*longest)
	for element := range edgewise.Elements(t.Data) {
		body = append(body, element...)
		body = append(body, make([]byte, longest-len(element))...)
	}
	return fmt.Sprintf("|S%d", longest), body, nil
}

// FileName returns a file name for a tensor and notes it in used. Characters that a file name cannot hold become
// underscores; where two names become the same one, the later has one more behind it.
func FileName(used map[string]bool, tensor string) string {
	name := strings.Map(fileRune, tensor)
	for used[name] {
		name += "_"
	}
	used[name] = true
	return name
}

func fileRune(r rune) rune {
	if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
		return '_'
	}
	return r
}
