package wat

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// function assembles a body.
type function struct {
	a      *assembler
	locals []string
	labels []string
	code   []byte
}

func (f *function) instructions(nodes []node) {
	for len(nodes) > 0 {
		if nodes[0].kind == list {
			f.folded(nodes[0])
			nodes = nodes[1:]
			continue
		}
		nodes = f.plain(nodes)
	}
}

// folded assembles (op immediates operands...), with the operands first.
func (f *function) folded(n node) {
	switch n.head() {
	case "block", "loop":
		rest := f.begin(n.list)
		f.instructions(rest)
		f.end()
	case "if":
		f.foldedIf(n)
	default:
		after := 1
		for after < len(n.list) && (n.list[after].kind != list || immediate(n.list[after])) {
			after++
		}
		f.instructions(n.list[after:])
		f.plain(n.list[:after])
	}
}

// immediate tells the lists that are part of an instruction from operands.
func immediate(n node) bool {
	return n.head() == "type" || n.head() == "param" || n.head() == "result" || n.head() == "repeat"
}

func (f *function) foldedIf(n node) {
	head := n.list[:1]
	rest := n.list[1:]
	name, rest := identifier(rest)
	if name != "" {
		head = n.list[:2]
	}
	for len(rest) > 0 && immediate(rest[0]) {
		head = append(head[:len(head):len(head)], rest[0])
		rest = rest[1:]
	}
	for len(rest) > 0 && rest[0].head() != "then" {
		f.folded(rest[0])
		rest = rest[1:]
	}
	f.begin(head)
	for i, branch := range rest {
		if i == 1 {
			f.code = append(f.code, 0x05)
		}
		f.instructions(branch.list[1:])
	}
	f.end()
}

// begin assembles the start of a block: its opcode, label and type. It returns what follows.
func (f *function) begin(nodes []node) []node {
	f.code = f.a.opcodes[nodes[0].atom].encode(f.code)
	name, rest := identifier(nodes[1:])
	f.labels = append(f.labels, name)
	switch {
	case len(rest) == 0 || !immediate(rest[0]):
		f.code = append(f.code, 0x40)
	case rest[0].head() == "result" && len(rest[0].list) == 2 && (len(rest) < 2 || !immediate(rest[1])):
		f.code = append(f.code, valueType(rest[0].list[1]))
		rest = rest[1:]
	default:
		var t uint64
		t, _, rest = f.a.typeUse(rest)
		f.code = appendS(f.code, int64(t))
	}
	return rest
}

func (f *function) end() {
	f.code = append(f.code, 0x0b)
	f.labels = f.labels[:len(f.labels)-1]
}

// plain assembles one instruction whose operands stand before it and returns what follows.
func (f *function) plain(nodes []node) []node {
	n := nodes[0]
	rest := nodes[1:]
	op, ok := f.a.opcodes[n.atom]
	switch {
	case n.atom == "block" || n.atom == "loop" || n.atom == "if":
		return f.begin(nodes)
	case n.atom == "end":
		f.end()
		return rest
	case n.atom == "byte": // byte 0x06: an opcode of one's own
		f.code = append(f.code, byte(f.a.index("", rest[0])))
		return rest[1:]
	case !ok:
		fail(n, "unknown instruction %q", n.atom)
	}
	if n.atom == "select" && len(rest) > 0 && rest[0].head() == "result" {
		f.code = append(f.code, 0x1c, 1, valueType(rest[0].list[1]))
		return rest[1:]
	}
	f.code = op.encode(f.code)
	return f.immediates(n, rest)
}

func (f *function) immediates(n node, rest []node) []node {
	take := func(kind string) uint64 {
		i := f.a.index(kind, rest[0])
		rest = rest[1:]
		return i
	}
	optional := func(kind string) uint64 {
		if len(rest) > 0 && rest[0].kind == atom && (strings.HasPrefix(rest[0].atom, "$") || rest[0].atom[0] >= '0' && rest[0].atom[0] <= '9') {
			return take(kind)
		}
		return 0
	}
	switch name := n.atom; {
	case name == "br" || name == "br_if":
		f.code = appendU(f.code, f.label(rest[0]))
		return rest[1:]
	case name == "br_table":
		return f.table(rest)
	case name == "call" || name == "ref.func" || name == "return_call":
		f.code = appendU(f.code, take("func"))
	case name == "call_indirect" || name == "return_call_indirect":
		table := optional("table")
		var t uint64
		t, _, rest = f.a.typeUse(rest)
		f.code = appendU(appendU(f.code, t), table)
	case strings.HasPrefix(name, "local."):
		f.code = appendU(f.code, f.local(rest[0]))
		return rest[1:]
	case strings.HasPrefix(name, "global."):
		f.code = appendU(f.code, take("global"))
	case name == "table.copy":
		to := optional("table")
		f.code = appendU(appendU(f.code, to), optional("table"))
	case name == "table.init":
		f.code = append(appendU(f.code, take("elem")), 0)
	case name == "elem.drop" || name == "data.drop":
		f.code = appendU(f.code, take(name[:4]))
	case strings.HasPrefix(name, "table."):
		f.code = appendU(f.code, optional("table"))
	case name == "memory.init":
		f.code = append(appendU(f.code, take("data")), 0)
	case name == "memory.copy":
		f.code = append(f.code, 0, 0)
	case strings.HasPrefix(name, "memory."):
		f.code = append(f.code, 0)
	case name == "ref.null":
		f.code = append(f.code, valueType(rest[0]))
		return rest[1:]
	case strings.HasSuffix(name, "_lane"):
		f.code = append(f.code, byte(take("")))
	case strings.HasSuffix(name, ".const"):
		return f.constant(name, rest)
	case name == "i8x16.shuffle":
		for range 16 {
			f.code = append(f.code, byte(take("")))
		}
	case strings.Contains(name, ".load") || strings.Contains(name, ".store"):
		return f.access(name, rest)
	}
	return rest
}

// table reads the labels of a br_table; (repeat COUNT label) stands for many.
func (f *function) table(rest []node) []node {
	var labels []uint64
	for len(rest) > 0 && (rest[0].kind == atom && (rest[0].atom[0] == '$' ||
		rest[0].atom[0] >= '0' && rest[0].atom[0] <= '9') || rest[0].head() == "repeat") {
		n := rest[0]
		count := uint64(1)
		if n.head() == "repeat" {
			count, n = f.a.index("", n.list[1]), n.list[2]
		}
		for range count {
			labels = append(labels, f.label(n))
		}
		rest = rest[1:]
	}
	f.code = appendU(f.code, uint64(len(labels)-1))
	for _, l := range labels {
		f.code = appendU(f.code, l)
	}
	return rest
}

func (f *function) label(n node) uint64 {
	for i := range f.labels {
		if n.atom == f.labels[len(f.labels)-1-i] && n.atom != "" {
			return uint64(i)
		}
	}
	return f.a.index("label", n)
}

func (f *function) local(n node) uint64 {
	for i, name := range f.locals {
		if name != "" && name == n.atom {
			return uint64(i)
		}
	}
	return f.a.index("local", n)
}

func (f *function) access(name string, rest []node) []node {
	align, offset := natural(name), uint64(0)
	for len(rest) > 0 && rest[0].kind == atom {
		key, value, ok := strings.Cut(rest[0].atom, "=")
		if !ok {
			break
		}
		v := f.a.index("", node{atom: value, line: rest[0].line})
		if key == "offset" {
			offset = v
		} else {
			for align = 0; 1<<align < v; align++ {
			}
		}
		rest = rest[1:]
	}
	f.code = appendU(appendU(f.code, align), offset)
	return rest
}

func (f *function) constant(name string, rest []node) []node {
	text := strings.ReplaceAll(rest[0].atom, "_", "")
	switch name {
	case "i32.const", "i64.const":
		v, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			u, err := strconv.ParseUint(text, 0, 64)
			if err != nil {
				fail(rest[0], "bad number %q", text)
			}
			v = int64(u)
		}
		if name == "i32.const" {
			v = int64(int32(v))
		}
		f.code = appendS(f.code, v)
	case "f32.const", "f64.const":
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			fail(rest[0], "bad number %q", text)
		}
		if name == "f32.const" {
			f.code = binary.LittleEndian.AppendUint32(f.code, math.Float32bits(float32(v)))
		} else {
			f.code = binary.LittleEndian.AppendUint64(f.code, math.Float64bits(v))
		}
	case "v128.const": // v128.const i32x4 1 2 3 4
		for _, n := range rest[1:5] {
			f.code = binary.LittleEndian.AppendUint32(f.code, uint32(f.a.index("", n)))
		}
		return rest[5:]
	}
	return rest[1:]
}
