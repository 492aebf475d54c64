package runner

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

// Bounds of a frame. Both sides refuse what is beyond them.
const (
	maxFrame    = 64 << 10 // bytes of one frame; what describes a run's tensors must fit
	maxTensors  = 1024     // tensors in one direction of a run
	maxAttached = 32       // blocks handed over with one run
	maxText     = 16 << 10 // bytes of an error's text
)

// kind tells frames apart. A frame is one message of a SOCK_SEQPACKET socket: its kind, then little-endian fields.
type kind uint8

const (
	kindReady      kind = iota + 1 // child, control: the model is loaded
	kindFailed                     // child: failure
	kindChannel                    // parent, control: a channel's socket, its memory and its wakePipe are attached; channel, member
	kindTerminate                  // parent, control: end a run; channel, run
	kindForget                     // parent, control: unmap a block; block, member
	kindUnload                     // parent, control: unload a member; member
	kindRun                        // parent, channel: runFrame
	kindDone                       // child, channel: doneFrame
	kindGrow                       // child, channel: the outputs need this many bytes of the block; size
	kindGrown                      // parent, channel: the block's new size; 0: refused
	kindDescribed                  // child, control: what the runtime says of the outputs, as JSON
	kindBackground                 // parent, control: kindChannel, for runs in the background
)

// place is where a tensor's bytes stand.
type place struct {
	block        uint32
	offset, size uint64
}

// placed is a tensor whose bytes stand in a block. Outputs carry no name: they answer the wanted names in order.
type placed struct {
	name  string
	kind  edgewise.DataType
	shape edgewise.Shape
	place place
}

// attached describes a block whose descriptor travels with a frame.
type attached struct {
	block uint32
	size  uint64
}

// runFrame asks for a run. Outputs go to block out, from byte free on.
type runFrame struct {
	run    uint64
	core   int32 // on which the thread of this channel is to wait for its next run; anywhere
	solo   bool  // nothing else runs on the machine
	pads   bool  // rows may be added
	out    uint32
	free   uint64
	attach []attached
	inputs []placed
	want   []string
}

// doneFrame answers a run. Times are in nanoseconds; copied counts the bytes that the child copied into the block.
type doneFrame struct {
	run                  uint64
	wide                 bool // on more cores than others have
	input, infer, output int64
	copied               uint64
	outputs              []placed
}

// failure answers a run, or a load, that failed.
type failure struct {
	run  uint64 // or the member that was being loaded
	kind edgewise.Kind
	text string
}

// pair is a frame of a kind with one or two numbers.
type pair struct{ a, b uint64 }

func (f runFrame) append(to []byte) []byte {
	to = append(to, byte(kindRun))
	to = number(to, f.run)
	to = binary.LittleEndian.AppendUint32(to, uint32(f.core))
	to = append(to, flag(f.solo), flag(f.pads))
	to = binary.LittleEndian.AppendUint32(to, f.out)
	to = number(to, f.free)
	to = binary.LittleEndian.AppendUint16(to, uint16(len(f.attach)))
	for _, a := range f.attach {
		to = number(binary.LittleEndian.AppendUint32(to, a.block), a.size)
	}
	to = appendPlaced(to, f.inputs)
	to = binary.LittleEndian.AppendUint16(to, uint16(len(f.want)))
	for _, name := range f.want {
		to = text(to, name)
	}
	return to
}

func (f doneFrame) append(to []byte) []byte {
	to = append(to, byte(kindDone), flag(f.wide))
	for _, n := range []uint64{f.run, uint64(f.input), uint64(f.infer), uint64(f.output), f.copied} {
		to = number(to, n)
	}
	return appendPlaced(to, f.outputs)
}

func (f failure) append(to []byte) []byte {
	to = append(to, byte(kindFailed))
	to = number(to, f.run)
	to = append(to, byte(f.kind))
	return text(to, f.text[:min(len(f.text), maxText)])
}

func (f pair) append(to []byte, k kind) []byte { return number(number(append(to, byte(k)), f.a), f.b) }

func appendPlaced(to []byte, list []placed) []byte {
	to = binary.LittleEndian.AppendUint16(to, uint16(len(list)))
	for _, t := range list {
		to = text(to, t.name)
		to = append(to, byte(t.kind), byte(len(t.shape)))
		for _, d := range t.shape {
			to = number(to, uint64(d))
		}
		to = binary.LittleEndian.AppendUint32(to, t.place.block)
		to = number(number(to, t.place.offset), t.place.size)
	}
	return to
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

func number(to []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(to, n) }

func text(to []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(to, uint16(len(s))), s...)
}

// fits tells whether a run can be written as one frame, before any number is cut to its field.
func fits(in []edgewise.Tensor, want []string) error {
	size := 64 + maxAttached*12
	for i := range in {
		if len(in[i].Shape) > edgewise.MaxRank {
			return fmt.Errorf("input %q has %d dimensions, at most %d are allowed", in[i].Name, len(in[i].Shape),
				edgewise.MaxRank)
		}
		size += len(in[i].Name) + 24 + 8*len(in[i].Shape)
	}
	for _, name := range want {
		size += 2 + len(name)
	}
	if size > maxFrame || len(in) > maxTensors || len(want) > maxTensors {
		return fmt.Errorf("%d inputs and %d outputs: their names and shapes take more than %d bytes, or there are more "+
			"than %d", len(in), len(want), maxFrame, maxTensors)
	}
	return nil
}

// errFrame is the one thing wrong with a frame: what a peer without a bug never sends.
var errFrame = errors.New("malformed frame")

// reader decodes a frame. After the first missing field every field reads as zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) bytes(n int) []byte {
	if r.bad || n > len(r.rest) {
		r.bad = true
		return make([]byte, n)
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *reader) u8() byte    { return r.bytes(1)[0] }
func (r *reader) u16() int    { return int(binary.LittleEndian.Uint16(r.bytes(2))) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }
func (r *reader) str() string { return string(r.bytes(r.u16())) }

func (r *reader) flag() bool {
	b := r.u8()
	if b > 1 {
		r.bad = true
	}
	return b == 1
}

// end returns errFrame unless the frame was read to its last byte.
func (r *reader) end() error {
	if r.bad || len(r.rest) > 0 {
		return errFrame
	}
	return nil
}

func (r *reader) count(most int) int {
	n := r.u16()
	if n > most {
		r.bad = true
	}
	if r.bad {
		return 0
	}
	return n
}

func (r *reader) placed() []placed {
	list := make([]placed, 0, 4)
	for range r.count(maxTensors) {
		t := placed{name: r.str(), kind: edgewise.DataType(r.u8())}
		rank := int(r.u8())
		if rank > edgewise.MaxRank {
			r.bad = true
		}
		if r.bad {
			return nil
		}
		t.shape = make(edgewise.Shape, rank)
		for d := range t.shape {
			t.shape[d] = int64(r.u64())
		}
		t.place = place{block: r.u32(), offset: r.u64(), size: r.u64()}
		list = append(list, t)
	}
	return list
}

func decodeRun(body []byte) (runFrame, error) {
	r := &reader{rest: body}
	f := runFrame{
		run: r.u64(), core: int32(r.u32()), solo: r.flag(), pads: r.flag(), out: r.u32(),
		free: r.u64(),
	}
	for range r.count(maxAttached) {
		f.attach = append(f.attach, attached{r.u32(), r.u64()})
	}
	f.inputs = r.placed()
	for range r.count(maxTensors) {
		f.want = append(f.want, r.str())
	}
	return f, r.end()
}

func decodeDone(body []byte) (doneFrame, error) {
	r := &reader{rest: body}
	f := doneFrame{
		wide: r.flag(), run: r.u64(), input: int64(r.u64()), infer: int64(r.u64()), output: int64(r.u64()),
		copied: r.u64(),
	}
	f.outputs = r.placed()
	return f, r.end()
}

func decodeFailure(body []byte) (failure, error) {
	r := &reader{rest: body}
	f := failure{run: r.u64(), kind: edgewise.Kind(r.u8()), text: r.str()}
	if int(f.kind) >= len(edgewise.Kinds()) || len(f.text) > maxText {
		r.bad = true
	}
	return f, r.end()
}

func decodePair(body []byte) (pair, error) {
	r := &reader{rest: body}
	f := pair{r.u64(), r.u64()}
	return f, r.end()
}

// within returns the bytes that a place names, or an error when it reaches outside data.
func (p place) within(data []byte) ([]byte, error) {
	size := uint64(len(data))
	if p.offset > size || p.size > size-p.offset {
		return nil, fmt.Errorf("%d bytes at %d of a block of %d", p.size, p.offset, size)
	}
	return data[p.offset : p.offset+p.size : p.offset+p.size], nil
}
