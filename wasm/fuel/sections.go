package fuel

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// read fills in what the section holds and returns the section as it stands in the rewritten module.
func (m *module) read(s section) ([]byte, error) {
	r := &reader{data: s.data, base: s.at, what: sectionNames[s.id]}
	var out []byte
	switch s.id {
	case typeID:
		out = m.readTypes(r)
	case importID:
		out = m.readImports(r)
	case functionID:
		out = m.readFunctions(r)
	case tableID:
		out = m.readTables(r)
	case memoryID:
		out = m.readMemory(r)
	case globalID:
		out = m.readGlobals(r)
	case exportID:
		out = m.readExports(r)
	case startID:
		out = appendU32(nil, m.shifted(r.index("function", len(m.funcs))))
	case elementID:
		out = m.readElements(r)
	case dataCountID:
		m.data = int(r.u32())
		if r.err == nil && m.data > m.limits.Segments {
			r.fail(edgewise.TooLarge, "%d data segments: at most %d are allowed", m.data, m.limits.Segments)
		}
		out = s.data
	case codeID:
		m.readBodies(r)
	case dataID:
		out = m.readData(r)
	}
	if r.more() {
		r.invalid("%d bytes are left over", len(r.data)-r.at)
	}
	return out, r.err
}

// recount puts a new length in front of the entries of a vector, and more entries behind them.
func recount(n int, entries []byte, more ...[]byte) []byte {
	out := appendU32(make([]byte, 0, len(entries)+64), uint32(n+len(more)))
	out = append(out, entries...)
	for _, m := range more {
		out = append(out, m...)
	}
	return out
}

// refill is the type of the function that the module calls when its fuel is spent.
var refill = []byte{0x60, 1, I32, 1, I32}

func (m *module) readTypes(r *reader) []byte {
	n := r.count("types", m.limits.Types)
	start := r.at
	values := 0
	for range n {
		if form := r.byte(); r.err == nil && form != 0x60 {
			r.invalid("type form 0x%02x: only function types (0x60) are allowed", form)
		}
		t := FuncType{Params: m.valueTypes(r, "parameters")}
		t.Results = m.valueTypes(r, "results")
		m.types = append(m.types, t)
		if values += t.size(); r.err == nil && values > m.limits.TypeValues {
			r.fail(edgewise.TooLarge, "%d parameters and results in types: at most %d are allowed", values, m.limits.TypeValues)
		}
	}
	m.entries = append(append([]byte{}, r.data[start:r.at]...), refill...)
	return nil // see typeSection
}

// typeSection is complete when the code has been rewritten.
func (m *module) typeSection() []byte {
	var more [][]byte
	for _, results := range m.added {
		more = append(more, append([]byte{0x60, 0}, append(appendU32(nil, uint32(len(results))), results...)...))
	}
	return recount(len(m.types)+1, m.entries, more...)
}

func (m *module) valueTypes(r *reader, of string) string {
	n := r.count(of, m.limits.Params)
	return string(r.bytes(n))
}

func (m *module) readImports(r *reader) []byte {
	n := r.count("imports", m.limits.Imports)
	start := r.at
	for range n {
		if r.err != nil {
			return nil
		}
		i := Import{Module: r.name()}
		i.Name = r.name()
		i.Kind = ExternKind(r.byte())
		switch i.Kind {
		case Function:
			t := r.index("type", len(m.types))
			if r.err != nil {
				return nil
			}
			i.Type = m.types[t]
			m.funcs = append(m.funcs, t)
			m.imported++
		case Table:
			r.byte()
			r.limits()
			m.tables++
		case Memory:
			r.limits()
			m.memories++
		case Global:
			kind := r.byte()
			m.globals = append(m.globals, global{kind, r.byte() == 1})
			m.firstOwn++
		default:
			r.invalid("import %q %q: kind %d does not exist", i.Module, i.Name, i.Kind)
		}
		m.imports = append(m.imports, i)
	}
	return recount(n, r.data[start:r.at], m.hook())
}

// hook is the import of the host's refill function.
func (m *module) hook() []byte {
	entry := append(appendU32(nil, uint32(len(HookModule))), HookModule...)
	entry = append(appendU32(entry, uint32(len(HookName))), HookName...)
	return appendU32(append(entry, byte(Function)), uint32(len(m.types)))
}

// limits reads the size of a table or memory. most is 1<<32-1 when none is declared.
func (r *reader) limits() (least, most uint32, declared bool) {
	flag := r.byte()
	if r.err == nil && flag > 1 {
		r.invalid("limits of form %d: shared and 64-bit memories are not allowed", flag)
	}
	least, most = r.u32(), 1<<32-1
	if flag == 1 {
		most = r.u32()
	}
	if r.err == nil && most < least {
		r.invalid("the most (%d) is less than the least (%d)", most, least)
	}
	return least, most, flag == 1
}

func (m *module) readFunctions(r *reader) []byte {
	n := r.count("functions", m.limits.Functions)
	for range n {
		m.funcs = append(m.funcs, r.index("type", len(m.types)))
	}
	return r.data
}

// readTables cuts the tables to what the limits allow.
func (m *module) readTables(r *reader) []byte {
	n := r.count("tables", m.limits.Tables)
	var entries []byte
	for range n {
		kind := r.byte()
		if r.err == nil && kind != FuncRef && kind != ExternRef {
			r.invalid("element type 0x%02x of a table is not a reference", kind)
		}
		least, most, _ := r.limits()
		m.elements += uint64(least)
		if r.err == nil && m.elements > uint64(m.limits.TableElements) {
			r.fail(edgewise.TooLarge, "tables of %d elements: at most %d are allowed", m.elements, m.limits.TableElements)
		}
		most = min(most, uint32(m.limits.TableElements))
		entries = appendU32(appendU32(append(entries, kind, 1), least), most)
	}
	m.tables += n
	return recount(n, entries)
}

// readMemory writes a maximum one page above what the memory may really have: the host enforces that, and needs the
// room to shrink a memory.
func (m *module) readMemory(r *reader) []byte {
	n := r.count("memories", 1)
	if n == 0 {
		return r.data
	}
	m.memories++
	least, most, _ := r.limits()
	m.pages, m.ceiling = least, min(most, m.limits.Pages)
	if r.err == nil && least > m.limits.Pages {
		r.fail(edgewise.TooLarge, "a memory of %d pages of 64 KiB: at most %d are allowed", least, m.limits.Pages)
	}
	return recount(1, appendU32(appendU32([]byte{1}, least), m.ceiling+1))
}

func (m *module) readGlobals(r *reader) []byte {
	n := r.count("globals", m.limits.Globals)
	var entries []byte
	for range n {
		g := global{kind: r.byte()}
		flag := r.byte()
		if r.err == nil && flag > 1 {
			r.invalid("mutability %d of a global does not exist", flag)
		}
		g.mutable = flag == 1
		entries = append(entries, g.kind, flag)
		entries = m.expression(r, entries)
		m.globals = append(m.globals, g)
	}
	depth := append(appendSigned([]byte{I32, 1, opI32Const}, Depth), opEnd)
	return recount(n, entries, []byte{I32, 1, opI32Const, 0, opEnd}, depth)
}

// expression copies a constant expression.
func (m *module) expression(r *reader, dst []byte) []byte {
	for r.err == nil {
		start := r.at
		switch op := r.byte(); op {
		case opEnd:
			return append(dst, op)
		case opI32Const:
			r.signed(32)
		case opI64Const:
			r.signed(64)
		case opF32Const:
			r.bytes(4)
		case opF64Const:
			r.bytes(8)
		case opGlobalGet:
			r.index("global", len(m.globals))
		case opRefNull:
			r.byte()
		case opRefFunc:
			dst = appendU32(append(dst, op), m.shifted(r.index("function", len(m.funcs))))
			continue
		case opVector:
			if sub := r.u32(); r.err == nil && sub != vecConst {
				r.invalid("instruction 0xfd %d is not allowed in a constant expression", sub)
			}
			r.bytes(16)
		default:
			r.at = start
			r.invalid("instruction 0x%02x is not allowed in a constant expression", op)
		}
		if r.err == nil {
			dst = append(dst, r.data[start:r.at]...)
		}
	}
	return dst
}

func (m *module) readExports(r *reader) []byte {
	n := r.count("exports", m.limits.Exports)
	var entries []byte
	for range n {
		if r.err != nil {
			return nil
		}
		start := r.at
		e := Export{Name: r.name()}
		e.Kind = ExternKind(r.byte())
		entries = append(entries, r.data[start:r.at]...)
		switch {
		case len(e.Name) >= len(Prefix) && e.Name[:len(Prefix)] == Prefix:
			r.invalid("export %q: names that begin with %q are the host's", e.Name, Prefix)
		case slices.ContainsFunc(m.exports, func(o Export) bool { return o.Name == e.Name }):
			r.invalid("export %q is listed twice", e.Name)
		}
		switch e.Kind {
		case Function:
			i := r.index("function", len(m.funcs))
			if r.err == nil {
				e.Type = m.funcType(i)
				entries = appendU32(entries, m.shifted(i))
			}
		case Table:
			entries = appendU32(entries, r.index("table", m.tables))
		case Memory:
			entries = appendU32(entries, r.index("memory", m.memories))
		case Global:
			entries = appendU32(entries, r.index("global", len(m.globals)))
		default:
			r.invalid("export %q: kind %d does not exist", e.Name, e.Kind)
		}
		m.exports = append(m.exports, e)
	}
	return recount(n, entries, m.ownExports()...)
}

// ownExports are the counter and the globals that a reset has to restore.
func (m *module) ownExports() [][]byte {
	export := func(name string, index int) []byte {
		entry := append(appendU32(nil, uint32(len(name))), name...)
		return appendU32(append(entry, byte(Global)), uint32(index))
	}
	list := [][]byte{export(Counter, len(m.globals))}
	for i := m.firstOwn; i < len(m.globals); i++ {
		if m.globals[i].mutable {
			list = append(list, export(globalName(i-m.firstOwn), i))
		}
	}
	return list
}

func (m *module) readElements(r *reader) []byte {
	n := r.count("element segments", m.limits.Segments)
	m.segments = n
	total := 0
	var entries []byte
	for range n {
		if r.err != nil {
			return nil
		}
		flag := r.u32()
		if r.err == nil && flag > 7 {
			r.invalid("an element segment of form %d does not exist", flag)
		}
		entries = appendU32(entries, flag)
		if flag&1 == 0 { // active
			if flag&2 != 0 {
				entries = appendU32(entries, r.index("table", m.tables))
			}
			entries = m.expression(r, entries)
		}
		if flag&3 != 0 { // a kind or a type
			entries = append(entries, r.byte())
		}
		count := r.count("elements", m.limits.TableElements)
		if total += count; r.err == nil && total > m.limits.TableElements {
			r.fail(edgewise.TooLarge, "%d elements in segments: at most %d are allowed", total, m.limits.TableElements)
		}
		entries = appendU32(entries, uint32(count))
		for range count {
			if flag&4 != 0 {
				entries = m.expression(r, entries)
				continue
			}
			entries = appendU32(entries, m.shifted(r.index("function", len(m.funcs))))
		}
	}
	return recount(n, entries)
}

func (m *module) readBodies(r *reader) {
	m.code = r.base
	n := r.count("function bodies", m.limits.Functions)
	if own := len(m.funcs) - m.imported; r.err == nil && n != own {
		r.invalid("%d function bodies for %d functions", n, own)
	}
	for range n {
		size := r.u32()
		if r.err == nil && int64(size) > int64(m.limits.FunctionBytes) {
			r.fail(edgewise.TooLarge, "function %d has %d bytes of code: at most %d are allowed", m.imported+len(m.bodies), size,
				m.limits.FunctionBytes)
		}
		m.offsets = append(m.offsets, r.base+r.at)
		m.bodies = append(m.bodies, r.bytes(int(size)))
	}
}

// readData checks the segments' framing. They are kept as they are.
func (m *module) readData(r *reader) []byte {
	n := r.count("data segments", m.limits.Segments)
	if r.err == nil && m.data >= 0 && m.data != n {
		r.invalid("%d data segments, but the data count section says %d", n, m.data)
	}
	var scratch []byte
	for range n {
		if r.err != nil {
			return nil
		}
		flag := r.u32()
		if r.err == nil && flag > 2 {
			r.invalid("a data segment of form %d does not exist", flag)
		}
		if flag == 2 {
			r.index("memory", m.memories)
		}
		if flag != 1 {
			scratch = m.expression(r, scratch[:0])
		}
		r.bytes(int(r.u32()))
	}
	return r.data
}
