package fuel

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// The value types, as the format writes them.
const (
	I32       = 0x7f
	I64       = 0x7e
	F32       = 0x7d
	F64       = 0x7c
	V128      = 0x7b
	FuncRef   = 0x70
	ExternRef = 0x6f
)

// FuncType is the type of a function, in the format's bytes.
type FuncType struct{ Params, Results string }

// size is the number of parameters and results.
func (t FuncType) size() int { return len(t.Params) + len(t.Results) }

// ExternKind says what an import or an export is.
type ExternKind uint8

// The kinds, by their numbers in the format.
const (
	Function ExternKind = iota
	Table
	Memory
	Global
)

// String returns the kind as the text format writes it.
func (k ExternKind) String() string { return [...]string{"func", "table", "memory", "global"}[k&3] }

// Import is what a module wants from its host. Type is set for functions.
type Import struct {
	Module, Name string
	Kind         ExternKind
	Type         FuncType
}

// Export is what a module offers. Type is set for functions.
type Export struct {
	Name string
	Kind ExternKind
	Type FuncType
}

// global is a global's type.
type global struct {
	kind    byte
	mutable bool
}

// module is what the rewriting needs to know of the sections that stand before the code.
type module struct {
	limits   Limits
	types    []FuncType
	imports  []Import
	funcs    []uint32 // type index of every function, imported ones first
	imported int      // functions
	tables   int
	elements uint64 // of all tables at the start
	memories int
	pages    uint32 // least size of the memory
	ceiling  uint32 // and the largest it may have
	globals  []global
	firstOwn int // globals that are imported
	exports  []Export
	segments int // element segments
	data     int // data segments that the data count section announces; -1: there is none
	bodies   [][]byte
	offsets  []int    // of the bodies
	leaf     []int32  // what callers pay for a function; notLeaf: it pays itself
	calls    []bool   // it calls another one
	loops    []bool   // it has a loop
	added    []string // results of the types that the rewriting adds behind the hook's
	entries  []byte   // of the type section, with the hook's
	flow     int      // of all bodies so far, see Limits.Flow
	lines    []Line   // of the source, as they stand in the module; nil: it has none
	placed   []Line   // the same, as they stand in the rewritten module
	code     int      // offset of the code section's content in the module
	mutates  bool     // tables change, or segments are dropped
}

func (m *module) funcType(index uint32) FuncType { return m.types[m.funcs[index]] }

// shifted returns the index of a function after the rewriting, which adds an import behind the others.
func (m *module) shifted(index uint32) uint32 {
	if int(index) >= m.imported {
		return index + 1
	}
	return index
}

// section is one section of a module.
type section struct {
	id   byte
	at   int // of its content, in the module
	data []byte
}

// Sections, by their numbers in the format.
const (
	customID = iota
	typeID
	importID
	functionID
	tableID
	memoryID
	globalID
	exportID
	startID
	elementID
	codeID
	dataID
	dataCountID
)

var sectionNames = [...]string{
	"custom section", "type section", "import section", "function section", "table section", "memory section",
	"global section", "export section",
	"start section", "element section", "code section", "data section", "data count section",
}

// order is the order of the sections in a module.
var order = []byte{
	typeID, importID, functionID, tableID, memoryID, globalID, exportID, startID, elementID, dataCountID, codeID, dataID,
}

// split cuts a module into its sections, in order, each once, custom ones anywhere.
func split(data []byte, l Limits) (sections []section, err error) {
	if len(data) > l.Bytes {
		return nil, edgewise.Errorf("fuel.Rewrite", edgewise.TooLarge, "module: %d bytes: at most %d are allowed", len(data), l.Bytes)
	}
	r := &reader{data: data, what: "header"}
	if magic := r.bytes(8); r.err == nil && string(magic) != "\x00asm\x01\x00\x00\x00" {
		r.at = 0
		if string(magic[:4]) == "\x00asm" {
			r.invalid("version %x is not a core module of version 1 (a component is not one)", magic[4:])
		} else {
			r.invalid("this is not a WebAssembly module: it begins with %q", magic[:4])
		}
	}
	last := -1
	for r.more() {
		r.what = "section header"
		id := r.byte()
		size := r.u32()
		if int(id) >= len(sectionNames) {
			r.invalid("section %d does not exist", id)
			break
		}
		r.what = sectionNames[id]
		s := section{id: id, at: r.at}
		s.data = r.bytes(int(size))
		if id != customID {
			place := slices.Index(order, id)
			if place <= last {
				r.invalid("it stands in the wrong place, or twice")
			}
			last = place
		}
		sections = append(sections, s)
	}
	return sections, r.err
}

// Limits bound what a module may hold. Compiling takes time and memory by these numbers and by some of their
// products, which have limits of their own.
type Limits struct {
	Bytes         int    // of the module
	Types         int    // function types
	Params        int    // parameters of a function type, and results
	TypeValues    int    // parameters and results of all types together
	Imports       int    // imports
	Functions     int    // functions that the module defines
	FunctionBytes int    // code of one function
	Locals        int    // locals of one function, parameters included
	Nesting       int    // blocks within each other
	Branches      int    // labels of one br_table
	Joins         int    // blocks and branches of a function, each label of a br_table counted
	Flow          int    // blocks and branches of a function, times its locals and the values of its blocks
	ModuleFlow    int    // and of all functions together
	Tables        int    // tables
	TableElements int    // elements of all tables together at the start, and of one at any time
	Globals       int    // globals
	Exports       int    // exports
	Segments      int    // data segments, and element segments
	Pages         uint32 // of 64 KiB: the memory at any time. A declared maximum above it is cut
}

// DefaultLimits returns limits that compilers' output stays far below, with 64 MiB of memory.
func DefaultLimits() Limits {
	return Limits{
		Bytes: 32 << 20, Types: 10_000, Params: 128, TypeValues: 50_000, Imports: 256, Functions: 50_000,
		FunctionBytes: 1 << 20, Locals: 5_000, Nesting: 2_000,
		Branches: 10_000, Joins: 20_000, Flow: 2_000_000, ModuleFlow: 8_000_000,
		Tables: 16, TableElements: 200_000, Globals: 2_000, Exports: 1_000, Segments: 100_000, Pages: 1024,
	}
}

// PageSize is the unit of a memory's size.
const PageSize = 64 << 10
