package fuel

// The instructions that the rewriting treats in a way of their own.
const (
	opBlock      = 0x02
	opLoop       = 0x03
	opIf         = 0x04
	opElse       = 0x05
	opEnd        = 0x0b
	opBr         = 0x0c
	opBrIf       = 0x0d
	opBrTable    = 0x0e
	opReturn     = 0x0f
	opCall       = 0x10
	opCallIndir  = 0x11
	opDrop       = 0x1a
	opSelectType = 0x1c
	opLocalGet   = 0x20
	opLocalSet   = 0x21
	opLocalTee   = 0x22
	opGlobalGet  = 0x23
	opGlobalSet  = 0x24
	opTableGet   = 0x25
	opTableSet   = 0x26
	opI32Load    = 0x28
	opI64Store32 = 0x3e
	opMemorySize = 0x3f
	opMemoryGrow = 0x40
	opI32Const   = 0x41
	opI64Const   = 0x42
	opF32Const   = 0x43
	opF64Const   = 0x44
	opI32LtS     = 0x48
	opI32Add     = 0x6a
	opI32Sub     = 0x6b
	opI32ShrU    = 0x76
	opRefNull    = 0xd0
	opRefIsNull  = 0xd1
	opRefFunc    = 0xd2
	opMisc       = 0xfc
	opVector     = 0xfd
	vecConst     = 12
)

// form says which immediates follow an opcode.
type form uint8

const (
	formUnknown form = iota
	formNone
	formBlock  // block type
	formLabel  // label
	formLocal  // local index
	formGlobal // global index
	formTable  // table index
	formAccess // alignment and offset
	formZero   // one byte, 0
	formOther  // see scanner.other
)

// forms of the one-byte instructions of WebAssembly 2.0.
var forms = func() (f [256]form) {
	set := func(first, last int, to form) {
		for op := first; op <= last; op++ {
			f[op] = to
		}
	}
	set(0x00, 0x01, formNone)
	set(opBlock, opIf, formBlock)
	set(opElse, opElse, formNone)
	set(opEnd, opEnd, formNone)
	set(opBr, opBrIf, formLabel)
	set(opBrTable, opBrTable, formOther)
	set(0x0f, 0x0f, formNone) // return
	set(opCall, opCallIndir, formOther)
	set(0x1a, 0x1b, formNone) // drop, select
	set(opSelectType, opSelectType, formOther)
	set(opLocalGet, opLocalTee, formLocal)
	set(opGlobalGet, opGlobalSet, formGlobal)
	set(opTableGet, opTableSet, formTable)
	set(opI32Load, opI64Store32, formAccess)
	set(opMemorySize, opMemoryGrow, formZero)
	set(opI32Const, opF64Const, formOther)
	set(0x45, 0xc4, formNone) // comparisons, arithmetic, conversions, sign extension
	set(opRefNull, opRefNull, formOther)
	set(opRefIsNull, opRefIsNull, formNone)
	set(opRefFunc, opRefFunc, formOther)
	set(opMisc, opVector, formOther)
	return f
}()

// vectorForm returns the immediates of a SIMD instruction: none, an access, a lane, both, or 16 bytes.
func vectorForm(sub uint32) (access bool, plain int, known bool) {
	switch {
	case sub <= 11 || sub == 92 || sub == 93: // loads and stores
		return true, 0, true
	case sub == vecConst || sub == 13: // constant, shuffle
		return false, 16, true
	case sub >= 21 && sub <= 34: // lanes
		return false, 1, true
	case sub >= 84 && sub <= 91: // accesses of a lane
		return true, 1, true
	}
	return false, 0, sub <= 255
}

// miscForms are the instructions behind 0xfc, by their numbers: their immediates (d: data segment, e: element segment,
// t: table, m: memory 0), how much of a length costs a unit (1<<shift; 0: they work on none), and whether they change a
// table or drop a segment. The first eight are saturating conversions.
var miscForms = [18]struct {
	immediates string
	shift      uint32
	table      bool
}{
	8:  {"dm", 4, false}, // memory.init: 16 bytes a unit
	9:  {"d", 0, true},   // data.drop
	10: {"mm", 4, false}, // memory.copy
	11: {"m", 4, false},  // memory.fill
	12: {"et", 2, true},  // table.init: 4 elements a unit
	13: {"e", 0, true},   // elem.drop
	14: {"tt", 2, true},  // table.copy
	15: {"t", 2, true},   // table.grow
	16: {"t", 0, false},  // table.size
	17: {"t", 2, true},   // table.fill
}

// maxNamesBytes bounds the names that are kept. They only serve messages.
const maxNamesBytes = 4 << 20

// names returns the name section with the names of functions alone, under their new indices; nil when data is another
// custom section, or is damaged: names carry no meaning, so that is no error.
func (m *module) names(data []byte) []byte {
	r := &reader{data: data, what: "name section"}
	if r.name() != "name" || r.err != nil || len(data) > maxNamesBytes {
		return nil
	}
	for r.more() {
		id := r.byte()
		content := r.bytes(int(r.u32()))
		if id == 1 && r.err == nil {
			return m.functionNames(content)
		}
	}
	return nil
}

func (m *module) functionNames(data []byte) []byte {
	r := &reader{data: data, what: "name section"}
	n := r.count("names", len(m.funcs))
	entries := appendU32(nil, uint32(n))
	for next := uint32(0); n > 0 && r.err == nil; n-- {
		i := r.index("function", len(m.funcs))
		name := r.name()
		if i < next {
			return nil
		}
		next = i + 1
		entries = append(appendU32(appendU32(entries, m.shifted(i)), uint32(len(name))), name...)
	}
	if r.err != nil {
		return nil
	}
	return append(appendU32([]byte("\x04name\x01"), uint32(len(entries))), entries...)
}
