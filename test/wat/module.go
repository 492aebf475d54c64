package wat

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Assemble returns the binary form of a module. The text is a (module ...) or the list of its fields. Imports stand
// before definitions, as the format wants it. Errors name the line.
func Assemble(text string) (module []byte, err error) {
	l := &lexer{text: text, line: 1}
	nodes, err := l.nodes(0)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 1 && nodes[0].head() == "module" {
		nodes = nodes[0].list[1:]
	}
	if len(nodes) == 1 && nodes[0].head() == "bytes" {
		return nodes[0].list[1].text, nil
	}
	a := &assembler{names: map[string]map[string]uint64{}, counts: map[string]uint64{}, opcodes: opcodes()}
	defer func() {
		if f, ok := recover().(failure); ok {
			module, err = nil, f
		}
	}()
	return a.module(nodes), nil
}

// failure ends the assembling.
type failure struct{ error }

func fail(n node, format string, args ...any) {
	panic(failure{fmt.Errorf("line %d: %s", n.line, fmt.Sprintf(format, args...))})
}

// assembler collects sections.
type assembler struct {
	names    map[string]map[string]uint64 // by kind: $name to index
	counts   map[string]uint64
	opcodes  map[string]opcode
	types    [][]byte
	sections [13]section
	pending  []func() // bodies and expressions, once every name is known
	raw      []byte
	funcs    []string // names, for the name section
}

type section struct {
	count uint64
	body  []byte
}

func (s *section) add(entry []byte) {
	s.count++
	s.body = append(s.body, entry...)
}

// The sections, by their numbers.
const (
	typeSection = 1 + iota
	importSection
	functionSection
	tableSection
	memorySection
	globalSection
	exportSection
	startSection
	elementSection
	codeSection
	dataSection
	dataCountSection
)

func (a *assembler) module(nodes []node) []byte {
	for _, n := range nodes {
		a.field(n)
	}
	for _, f := range a.pending {
		f()
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	if a.sections[dataSection].count > 0 {
		a.sections[dataCountSection] = section{count: a.sections[dataSection].count}
	}
	for _, id := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11} {
		s := a.sections[id]
		if s.count == 0 {
			continue
		}
		body := s.body
		if id != startSection {
			body = append(appendU(nil, s.count), body...)
		}
		out = append(out, byte(id))
		out = append(appendU(out, uint64(len(body))), body...)
	}
	out = append(out, a.nameSection()...)
	return append(out, a.raw...)
}

func (a *assembler) nameSection() []byte {
	var entries []byte
	count := uint64(0)
	for i, name := range a.funcs {
		if name == "" {
			continue
		}
		count++
		entries = appendName(appendU(entries, uint64(i)), strings.TrimPrefix(name, "$"))
	}
	if count == 0 {
		return nil
	}
	entries = append(appendU(nil, count), entries...)
	body := append(appendU(append(appendName(nil, "name"), 1), uint64(len(entries))), entries...)
	return append(appendU([]byte{0}, uint64(len(body))), body...)
}

func (a *assembler) field(n node) {
	rest := n.list
	if len(rest) > 0 {
		rest = rest[1:]
	}
	switch n.head() {
	case "type":
		name, rest := identifier(rest)
		a.define("type", name)
		a.types = append(a.types, nil)
		t, _, _ := signature(rest[0].list[1:])
		a.types[len(a.types)-1] = t
		a.sections[typeSection].add(t)
	case "import":
		a.imported(n, rest)
	case "func":
		a.function(n, rest)
	case "memory":
		a.memory(rest)
	case "table":
		a.table(rest)
	case "global":
		a.global(rest)
	case "export":
		what := rest[1]
		a.pending = append(a.pending, func() { a.export(rest[0].text, what.head(), a.index(what.head(), what.list[1])) })
	case "start":
		a.pending = append(a.pending, func() {
			a.sections[startSection] = section{1, appendU(nil, a.index("func", rest[0]))}
		})
	case "elem":
		a.elem(rest)
	case "data":
		a.data(rest)
	case "raw":
		a.raw = append(a.raw, rest[0].text...)
	default:
		fail(n, "unknown field %q", n.head())
	}
}

// identifier takes a $name from the front.
func identifier(nodes []node) (string, []node) {
	if len(nodes) > 0 && nodes[0].kind == atom && strings.HasPrefix(nodes[0].atom, "$") {
		return nodes[0].atom, nodes[1:]
	}
	return "", nodes
}

// define gives a name the next index of its kind.
func (a *assembler) define(kind, name string) uint64 {
	i := a.counts[kind]
	a.counts[kind]++
	if name != "" {
		if a.names[kind] == nil {
			a.names[kind] = map[string]uint64{}
		}
		a.names[kind][name] = i
	}
	return i
}

// index resolves a $name or a number.
func (a *assembler) index(kind string, n node) uint64 {
	if i, ok := a.names[kind][n.atom]; ok {
		return i
	}
	i, err := strconv.ParseUint(n.atom, 0, 32)
	if err != nil {
		fail(n, "unknown %s %q", kind, n.atom)
	}
	return i
}

// signature reads (param ...) and (result ...) from the front; locals are the parameters' names.
func signature(nodes []node) (encoded []byte, locals []string, rest []node) {
	var params, results []byte
	for len(nodes) > 0 && (nodes[0].head() == "param" || nodes[0].head() == "result") {
		types := nodes[0].list[1:]
		name, types := identifier(types)
		for _, t := range types {
			if nodes[0].head() == "result" {
				results = append(results, valueType(t))
				continue
			}
			params, locals = append(params, valueType(t)), append(locals, name)
		}
		nodes = nodes[1:]
	}
	encoded = append(appendU([]byte{0x60}, uint64(len(params))), params...)
	return append(appendU(encoded, uint64(len(results))), results...), locals, nodes
}

func valueType(n node) byte {
	t, ok := valueTypes[n.atom]
	if !ok {
		fail(n, "unknown type %q", n.atom)
	}
	return t
}

// typeUse reads (type $t) or an inline signature and returns its index.
func (a *assembler) typeUse(nodes []node) (index uint64, locals []string, rest []node) {
	if len(nodes) > 0 && nodes[0].head() == "type" {
		index = a.index("type", nodes[0].list[1])
		nodes = nodes[1:]
		_, locals, rest = signature(nodes)
		if len(locals) == 0 && index < uint64(len(a.types)) && len(a.types[index]) > 1 {
			locals = make([]string, a.types[index][1])
		}
		return index, locals, rest
	}
	t, locals, rest := signature(nodes)
	for i := range a.types {
		if bytes.Equal(a.types[i], t) {
			return uint64(i), locals, rest
		}
	}
	a.types = append(a.types, t)
	a.sections[typeSection].add(t)
	return a.define("type", ""), locals, rest
}

func (a *assembler) imported(n node, rest []node) {
	entry := appendName(appendName(nil, string(rest[0].text)), string(rest[1].text))
	name, what := identifier(rest[2].list[1:])
	switch rest[2].head() {
	case "func":
		t, _, _ := a.typeUse(what)
		entry = appendU(append(entry, 0), t)
		a.funcs = append(a.funcs, name)
	case "table":
		entry = append(limits(append(entry, 1, valueType(what[len(what)-1])), what[:len(what)-1]), nil...)
	case "memory":
		entry = limits(append(entry, 2), what)
	case "global":
		entry = append(append(entry, 3), globalType(what[0])...)
	default:
		fail(n, "unknown import %q", rest[2].head())
	}
	a.define(rest[2].head(), name)
	a.sections[importSection].add(entry)
}

func limits(dst []byte, nodes []node) []byte {
	flag := byte(len(nodes) - 1)
	if len(nodes) == 3 { // "shared"
		flag, nodes = 3, nodes[:2]
	}
	dst = append(dst, flag)
	for _, n := range nodes {
		v, err := strconv.ParseUint(n.atom, 0, 64)
		if err != nil {
			fail(n, "bad limit %q", n.atom)
		}
		dst = appendU(dst, v)
	}
	return dst
}

func globalType(n node) []byte {
	if n.head() == "mut" {
		return []byte{valueType(n.list[1]), 1}
	}
	return []byte{valueType(n), 0}
}

func appendName(dst []byte, name string) []byte {
	return append(appendU(dst, uint64(len(name))), name...)
}
