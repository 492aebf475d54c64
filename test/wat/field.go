package wat

// exports takes (export "name") from the front and defines them.
func (a *assembler) exports(kind string, index uint64, nodes []node) []node {
	for len(nodes) > 0 && nodes[0].head() == "export" {
		a.export(nodes[0].list[1].text, kind, index)
		nodes = nodes[1:]
	}
	return nodes
}

func (a *assembler) export(name []byte, kind string, index uint64) {
	kinds := map[string]byte{"func": 0, "table": 1, "memory": 2, "global": 3}
	a.sections[exportSection].add(appendU(append(appendName(nil, string(name)), kinds[kind]), index))
}

func (a *assembler) function(n node, rest []node) {
	name, rest := identifier(rest)
	index := a.define("func", name)
	a.funcs = append(a.funcs, name)
	rest = a.exports("func", index, rest)
	t, locals, rest := a.typeUse(rest)
	a.sections[functionSection].add(appendU(nil, t))
	var declared [][2]uint64 // count and type
	for len(rest) > 0 && rest[0].head() == "local" {
		name, types := identifier(rest[0].list[1:])
		for _, t := range types {
			declared, locals = append(declared, [2]uint64{1, uint64(valueType(t))}), append(locals, name)
		}
		rest = rest[1:]
	}
	for len(rest) > 0 && rest[0].head() == "locals" { // (locals COUNT type): many of one type
		declared = append(declared, [2]uint64{a.index("", rest[0].list[1]), uint64(valueType(rest[0].list[2]))})
		rest = rest[1:]
	}
	a.pending = append(a.pending, func() {
		body := appendU(nil, uint64(len(declared)))
		for _, d := range declared {
			body = append(appendU(body, d[0]), byte(d[1]))
		}
		f := &function{a: a, locals: locals, code: body}
		f.instructions(rest)
		f.code = append(f.code, 0x0b)
		a.sections[codeSection].add(append(appendU(nil, uint64(len(f.code))), f.code...))
	})
}

func (a *assembler) memory(rest []node) {
	name, rest := identifier(rest)
	rest = a.exports("memory", a.define("memory", name), rest)
	a.sections[memorySection].add(limits(nil, rest))
}

func (a *assembler) table(rest []node) {
	name, rest := identifier(rest)
	rest = a.exports("table", a.define("table", name), rest)
	last := len(rest) - 1
	a.sections[tableSection].add(limits([]byte{valueType(rest[last])}, rest[:last]))
}

func (a *assembler) global(rest []node) {
	name, rest := identifier(rest)
	rest = a.exports("global", a.define("global", name), rest)
	a.pending = append(a.pending, func() {
		a.sections[globalSection].add(append(globalType(rest[0]), a.expression(rest[1:])...))
	})
}

func (a *assembler) expression(nodes []node) []byte {
	f := &function{a: a}
	f.instructions(nodes)
	return append(f.code, 0x0b)
}

// elem reads (elem (i32.const 0) $f ...), (elem func $f ...) and (elem declare func $f ...).
func (a *assembler) elem(rest []node) {
	_, rest = identifier(rest)
	a.define("elem", "")
	a.pending = append(a.pending, func() {
		var entry []byte
		switch {
		case rest[0].kind == list:
			entry = append([]byte{0}, a.expression(rest[:1])...)
			rest = rest[1:]
		case rest[0].atom == "declare":
			entry, rest = []byte{3, 0}, rest[1:]
		default:
			entry = []byte{1, 0}
		}
		if len(rest) > 0 && rest[0].atom == "func" {
			rest = rest[1:]
		}
		entry = appendU(entry, uint64(len(rest)))
		for _, n := range rest {
			entry = appendU(entry, a.index("func", n))
		}
		a.sections[elementSection].add(entry)
	})
}

// data reads (data (i32.const 0) "..." ...) and the passive (data "..."). (zeros COUNT) stands for many zeros.
func (a *assembler) data(rest []node) {
	name, rest := identifier(rest)
	a.define("data", name)
	a.pending = append(a.pending, func() {
		entry := []byte{1}
		if len(rest) > 0 && rest[0].kind == list && rest[0].head() != "zeros" {
			entry = append([]byte{0}, a.expression(rest[:1])...)
			rest = rest[1:]
		}
		var text []byte
		for _, n := range rest {
			if n.head() == "zeros" {
				text = append(text, make([]byte, a.index("", n.list[1]))...)
				continue
			}
			text = append(text, n.text...)
		}
		a.sections[dataSection].add(append(appendU(entry, uint64(len(text))), text...))
	})
}
