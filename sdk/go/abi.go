//go:build wasip1

package step

import (
	"encoding/binary"
	"errors"
	"path"
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

const (
	listHead     = 8  // bytes of a list before its tensors
	tensorRecord = 32 // bytes of each
	maxAlign     = 64
)

// memory keeps what the box reads or writes alive until the request ends.
type memory struct{ blocks [][]byte }

var request = &memory{}

// alloc returns size bytes at a multiple of align, a power of two.
func (m *memory) alloc(size, align uint32) []byte {
	align = max(align, 1)
	if align > maxAlign || size > 1<<31-1 {
		return nil
	}
	block := make([]byte, size+align)
	m.blocks = append(m.blocks, block)
	skip := -address(block) & (align - 1)
	return block[skip:][:size]
}

func (m *memory) keep(block []byte) { m.blocks = append(m.blocks, block) }

func (m *memory) free() {
	clear(m.blocks)
	m.blocks = m.blocks[:0]
}

func address(data []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(data)))) }

func at(pointer, size uint32) []byte {
	if size == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), uintptr(pointer))), size)
}

//go:wasmexport edgewise_step_v1
func mark() {}

//go:wasmexport edgewise_alloc
func alloc(size, align uint32) uint32 { return address(request.alloc(max(size, 1), align)) }

//go:wasmexport edgewise_reset
func reset() { request.free() }

// Run answers edgewise_process: it calls process on the list at inputs. An error, or a panic, of process fails the
// request with its message.
func Run(inputs uint32, process func(List) (List, error)) (outputs uint32) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case error:
			outputs = failed("panic: " + reason.Error() + origin())
		case string:
			outputs = failed("panic: " + reason + origin())
		default:
			outputs = failed("panic" + origin())
		}
	}()
	list, err := process(decode(inputs))
	if err != nil {
		return failed(err.Error())
	}
	return encode(list)
}

// origin is the function and the line that a panic comes from. It is called by the function that recovers.
func origin() string {
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for inside := false; ; {
		frame, more := frames.Next()
		switch {
		case strings.HasPrefix(frame.Function, "runtime."):
			inside = true
		case inside:
			return " in " + frame.Function + ", " + path.Base(frame.File) + ":" + strconv.Itoa(frame.Line)
		}
		if !more {
			return ""
		}
	}
}

func failed(message string) uint32 {
	fail(unsafe.Pointer(unsafe.StringData(message)), uint32(len(message)))
	return 0
}

// Describe answers edgewise_describe with a JSON document.
func Describe(json string) uint32 {
	block := request.alloc(uint32(4+len(json)), 8)
	binary.LittleEndian.PutUint32(block, uint32(len(json)))
	copy(block[4:], json)
	return address(block)
}

// decode returns the list at pointer; the data of its tensors is where the box wrote it.
func decode(pointer uint32) List {
	count := binary.LittleEndian.Uint32(at(pointer, listHead))
	records := at(pointer+listHead, count*tensorRecord)
	list := make(List, count)
	for i := range list {
		field := func(offset int) uint32 { return binary.LittleEndian.Uint32(records[i*tensorRecord+offset:]) }
		shape := make([]int64, field(12))
		for d, bytes := 0, at(field(16), 8*field(12)); d < len(shape); d++ {
			shape[d] = int64(binary.LittleEndian.Uint64(bytes[8*d:]))
		}
		list[i] = Tensor{Name: string(at(field(0), field(4))), Type: DataType(field(8)), Shape: shape, Data: at(field(20), field(24))}
	}
	return list
}

// encode writes list as the ABI has it and returns where; the data of its tensors stays where it is.
func encode(list List) uint32 {
	size := listHead + tensorRecord*len(list)
	for _, t := range list {
		size += 8*len(t.Shape) + (len(t.Name)+7)&^7
	}
	block := request.alloc(uint32(size), 8)
	base, free := address(block), listHead+tensorRecord*len(list)
	binary.LittleEndian.PutUint32(block, uint32(len(list)))
	for i, t := range list {
		request.keep(t.Data)
		record := block[listHead+i*tensorRecord:]
		shape := free
		for _, d := range t.Shape {
			binary.LittleEndian.PutUint64(block[free:], uint64(d))
			free += 8
		}
		name := free
		free += (copy(block[free:], t.Name) + 7) &^ 7
		for f, v := range [...]uint32{
			base + uint32(name), uint32(len(t.Name)), uint32(t.Type), uint32(len(t.Shape)),
			base + uint32(shape), address(t.Data), uint32(len(t.Data)), 0,
		} {
			binary.LittleEndian.PutUint32(record[4*f:], v)
		}
	}
	return base
}

// Infer runs another model on inputs, through that model's own queue. The answer is read in place.
func Infer(model string, inputs List) (List, error) {
	pointer := infer(unsafe.Pointer(unsafe.StringData(model)), uint32(len(model)), encode(inputs))
	if pointer == 0 {
		return nil, LastError()
	}
	return decode(pointer), nil
}

// Emit sends outputs as a response of a decoupled model, and lets them go. It waits while the client reads slowly.
func Emit(outputs List) error {
	kept := len(request.blocks)
	sent := emit(encode(outputs)) == 0
	clear(request.blocks[kept:])
	request.blocks = request.blocks[:kept]
	if !sent {
		return LastError()
	}
	return nil
}

// LastError returns the reason of the last import that failed in this request, nil when none did.
func LastError() error {
	n := lastError(nil, 0)
	if n <= 0 {
		return nil
	}
	text := make([]byte, n)
	lastError(unsafe.Pointer(unsafe.SliceData(text)), uint32(n))
	return errors.New(string(text))
}

// Parameter returns the text of a parameter of the request, else of the model's configuration. ok is false when there
// is none.
func Parameter(name string) (value string, ok bool) {
	pointer := unsafe.Pointer(unsafe.StringData(name))
	n := parameter(pointer, uint32(len(name)), nil, 0)
	if n < 0 {
		return "", false
	}
	text := make([]byte, n)
	parameter(pointer, uint32(len(name)), unsafe.Pointer(unsafe.SliceData(text)), uint32(n))
	return string(text), true
}

// Level is how important a line of the log is.
type Level int32

// The levels.
const (
	Debug Level = iota
	Info
	Warning
	Error
)

// Log writes a line to the step's log. The box limits their rate and their length.
func Log(level Level, text string) {
	log(int32(level), unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}

//go:wasmimport edgewise_v1 log
func log(level int32, text unsafe.Pointer, size uint32)

//go:wasmimport edgewise_v1 fail
func fail(text unsafe.Pointer, size uint32)

//go:wasmimport edgewise_v1 parameter
func parameter(name unsafe.Pointer, size uint32, dst unsafe.Pointer, room uint32) int32

//go:wasmimport edgewise_v1 infer
func infer(model unsafe.Pointer, size uint32, inputs uint32) uint32

//go:wasmimport edgewise_v1 emit
func emit(outputs uint32) int32

//go:wasmimport edgewise_v1 last_error
func lastError(dst unsafe.Pointer, room uint32) int32
