package sequence

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// The kinds of control, as configurations name them.
const (
	controlStart = "CONTROL_SEQUENCE_START"
	controlReady = "CONTROL_SEQUENCE_READY"
	controlEnd   = "CONTROL_SEQUENCE_END"
	controlID    = "CONTROL_SEQUENCE_CORRID"
)

// MaxIDBytes bounds a correlation ID that is text.
const MaxIDBytes = 128

// signal is one control of a row of a batch.
type signal struct {
	start, end, ready bool
	id                correlationID
}

// control is an input that tells the model about a sequence. It has one element for each row.
type control struct {
	name     string
	kind     string
	dataType edgewise.DataType
	no, yes  []byte // the element, for the kinds that are false or true
}

// controlsOf reads a model's control inputs. They have been checked: each kind stands there once at most.
func controlsOf(b *edgewise.SequenceBatching) []control {
	var list []control
	for _, in := range b.ControlInput {
		for _, c := range in.Control {
			list = append(list, controlOf(in.Name, c))
		}
	}
	return list
}

func controlOf(name string, c edgewise.Control) control {
	made := control{name: name, kind: c.Kind, dataType: c.DataType}
	switch {
	case c.Kind == controlID:
	case len(c.Int32FalseTrue) == 2:
		made.dataType = edgewise.Int32
		made.no = binary.LittleEndian.AppendUint32(nil, uint32(c.Int32FalseTrue[0]))
		made.yes = binary.LittleEndian.AppendUint32(nil, uint32(c.Int32FalseTrue[1]))
	case len(c.FP32FalseTrue) == 2:
		made.dataType = edgewise.FP32
		made.no = binary.LittleEndian.AppendUint32(nil, math.Float32bits(c.FP32FalseTrue[0]))
		made.yes = binary.LittleEndian.AppendUint32(nil, math.Float32bits(c.FP32FalseTrue[1]))
	case len(c.BoolFalseTrue) == 2:
		made.dataType = edgewise.Bool
		made.no, made.yes = boolByte(c.BoolFalseTrue[0]), boolByte(c.BoolFalseTrue[1])
	}
	return made
}

func boolByte(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}

// append appends the element of one row.
func (c *control) append(data []byte, s signal) []byte {
	switch c.kind {
	case controlStart:
		return append(data, c.choose(s.ready && s.start)...)
	case controlEnd:
		return append(data, c.choose(s.ready && s.end)...)
	case controlReady:
		return append(data, c.choose(s.ready)...)
	}
	if !s.ready {
		s.id = correlationID{}
	}
	switch c.dataType {
	case edgewise.Bytes:
		return edgewise.AppendElement(data, s.id.name)
	case edgewise.Uint32, edgewise.Int32:
		return binary.LittleEndian.AppendUint32(data, uint32(s.id.id)) // its low bits
	}
	return binary.LittleEndian.AppendUint64(data, s.id.id)
}

func (c *control) choose(b bool) []byte {
	if b {
		return c.yes
	}
	return c.no
}

// tensor makes the control for the rows of a batch; for one row of a model that does not batch the shape is [1].
func (c *control) tensor(rows []signal, batches bool) edgewise.Tensor {
	shape := edgewise.Shape{1}
	if batches {
		shape = edgewise.Shape{int64(len(rows)), 1}
	}
	var data []byte
	if len(rows) == 1 && c.kind != controlID {
		data = c.append(nil, rows[0])
	} else {
		data = sched.AlignedBytes(8 * len(rows))[:0]
		for _, s := range rows {
			data = c.append(data, s)
		}
	}
	return edgewise.Tensor{Name: c.name, Type: c.dataType, Shape: shape, Data: data}
}
