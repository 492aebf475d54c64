package fuel

import (
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// What the rewriting adds to a module.
const (
	Prefix     = "edgewise." // exports that begin so are the host's
	Counter    = Prefix + "fuel"
	HookModule = "edgewise_fuel"
	// HookName is (counter i32) -> i32: called when the counter, which it gets, is below 0; returns the next one. With
	// TooDeep it must not return.
	HookName = "refill"
)

func globalName(i int) string { return Prefix + "global." + strconv.Itoa(i) }

// Module is a module after the rewriting, and what it says of itself.
type Module struct {
	Binary  []byte
	Imports []Import // as the module declares them, without the hook
	Exports []Export
	// Globals names the exports through which the module's own mutable globals can be read and set.
	Globals []string
	// Restorable tells whether an instance's whole state is its memory and Globals: no table or segment is changed by
	// its code, and no global is a vector or a reference.
	Restorable bool
	Pages      uint32 // least size of its memory, in pages
	MaxPages   uint32 // and the largest that the host must allow; the binary declares one page more
	Memory     bool   // it has a memory of its own
}

// Rewrite decodes a module within limits and adds the charges. The module is not kept.
// Errors: Invalid and TooLarge, with the section and the byte where the reason stands.
func Rewrite(data []byte, l Limits) (*Module, error) {
	sections, err := split(data, l)
	if err != nil {
		return nil, err
	}
	m := &module{limits: l, data: -1}
	var names []byte
	contents := map[byte][]byte{}
	for _, id := range order {
		s := section{id: id, at: len(data), data: []byte{0}} // an empty one, where what is added needs it
		at := slices.IndexFunc(sections, func(have section) bool { return have.id == id })
		switch {
		case at >= 0:
			s = sections[at]
		case id != typeID && id != importID && id != globalID && id != exportID:
			continue
		}
		if contents[id], err = m.read(s); err != nil {
			return nil, err
		}
	}
	if own := len(m.funcs) - m.imported; len(m.bodies) != own {
		return nil, edgewise.Errorf("fuel.Rewrite", edgewise.Invalid, "module: %d functions are declared and %d have code", own, len(m.bodies))
	}
	for _, s := range sections {
		if s.id == customID && names == nil {
			names = m.names(s.data)
		}
		if s.id == customID && m.lines == nil {
			m.lines = readLines(s.data)
		}
	}
	if _, ok := contents[codeID]; ok {
		if contents[codeID], err = m.rewriteCode(); err != nil {
			return nil, err
		}
	}
	contents[typeID] = m.typeSection()
	return m.finish(contents, names), nil
}

// finish puts the sections together.
func (m *module) finish(contents map[byte][]byte, names []byte) *Module {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, id := range order {
		if content, ok := contents[id]; ok {
			out = append(appendU32(append(out, id), uint32(len(content))), content...)
		}
	}
	if names != nil {
		out = append(appendU32(append(out, customID), uint32(len(names))), names...)
	}
	if len(m.placed) > 0 {
		out = appendDebug(out, m.placed, len(contents[codeID]))
	}
	result := &Module{
		Binary: out, Imports: m.imports, Exports: m.exports, Pages: m.pages, MaxPages: m.ceiling,
		Restorable: !m.mutates, Memory: m.memories > 0,
	}
	for i := m.firstOwn; i < len(m.globals); i++ {
		if g := m.globals[i]; g.mutable {
			result.Globals = append(result.Globals, globalName(i-m.firstOwn))
			result.Restorable = result.Restorable && g.kind >= F64
		}
	}
	return result
}

// label names a function in messages: its index, and the name it is exported by.
func (m *module) label(i int) string {
	return strconv.Itoa(m.imported + i)
}

// Export returns the export of that name and kind, nil when there is none.
func (m *Module) Export(name string, kind ExternKind) *Export {
	for i := range m.Exports {
		if m.Exports[i].Name == name && m.Exports[i].Kind == kind {
			return &m.Exports[i]
		}
	}
	return nil
}

// String returns the type as (i32, i64) -> i32.
func (t FuncType) String() string {
	list := func(types string) string {
		names := make([]string, len(types))
		for i := range names {
			names[i] = typeName(types[i])
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	return list(t.Params) + " -> " + list(t.Results)
}

var typeNames = map[byte]string{
	I32: "i32", I64: "i64", F32: "f32", F64: "f64", V128: "v128", FuncRef: "funcref", ExternRef: "externref",
}

func typeName(t byte) string {
	if name, known := typeNames[t]; known {
		return name
	}
	return "0x" + strconv.FormatUint(uint64(t), 16)
}
