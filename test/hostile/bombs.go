package hostile

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Bomb is a module whose every size is small and whose product of sizes makes compiling or checking it expensive.
type Bomb struct {
	Name string
	Make func() []byte
}

// Numbers of the binary format that bombs are made of.
const (
	i32Type  = 0x7f
	v128Type = 0x7b
	noResult = 0x40
)

// builder assembles a step with an empty set-up. Function types 0 to 2 are those of the step's exports.
type builder struct {
	types, imports, functions, tables, globals, exports, elements, bodies, data []string
}

// Types that every builder begins with.
const (
	typeNone    = iota // () -> ()
	typeProcess        // (i32) -> i32
	typeAlloc          // (i32, i32) -> i32
	typeFree           // the first of the bomb's own
)

func newBuilder() *builder {
	b := &builder{types: []string{funcType(0, 0, i32Type), funcType(1, 1, i32Type), funcType(2, 1, i32Type)}}
	return b
}

func funcType(params, results int, kind byte) string {
	return "\x60" + uleb(params) + strings.Repeat(string([]byte{kind}), params) + uleb(results) + strings.Repeat(string([]byte{kind}), results)
}

// function adds a function of a type, with locals of kind i32 and a body without its end.
func (b *builder) function(of, locals int, body string) {
	b.kindFunction(of, locals, i32Type, body)
}

func (b *builder) kindFunction(of, locals int, kind byte, body string) {
	declared := uleb(0)
	if locals > 0 {
		declared = uleb(1) + uleb(locals) + string([]byte{kind})
	}
	code := declared + body + "\x0b"
	b.functions = append(b.functions, uleb(of))
	b.bodies = append(b.bodies, uleb(len(code))+code)
}

// build adds the step's exports and returns the module.
func (b *builder) build() []byte {
	first := len(b.imports) + len(b.functions)
	b.function(typeNone, 0, "")
	b.function(typeAlloc, 0, "\x41\x80\x20") // 4096
	b.function(typeProcess, 0, "\x41\x00")
	for i, name := range []string{"edgewise_step_v1", "edgewise_alloc", "edgewise_process"} {
		b.exports = append(b.exports, text(name)+"\x00"+uleb(first+i))
	}
	b.exports = append(b.exports, text("memory")+"\x02\x00")
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, entries []string) {
		if len(entries) == 0 {
			return
		}
		content := uleb(len(entries)) + strings.Join(entries, "")
		out = append(append(append(out, id), uleb(len(content))...), content...)
	}
	section(1, b.types)
	section(2, b.imports)
	section(3, b.functions)
	section(4, b.tables)
	section(5, []string{"\x01\x02\x40"})
	section(6, b.globals)
	section(7, b.exports)
	section(9, b.elements)
	section(10, b.bodies)
	section(11, b.data)
	return out
}

func text(s string) string { return uleb(len(s)) + s }

func uleb(n int) string { return string(binary.AppendUvarint(nil, uint64(n))) }

// get and set are instructions on a local.
func get(i int) string { return "\x20" + uleb(i) }
func set(i int) string { return "\x21" + uleb(i) }

// touched is a body that reads and writes each of n locals.
func touched(n int) string {
	var s strings.Builder
	for i := range n {
		s.WriteString(get(i) + set((i+1)%n))
	}
	return s.String()
}

// nested is body within n blocks of one kind: 0x02 a block, 0x03 a loop.
func nested(kind string, n int, result byte, body string) string {
	return strings.Repeat(kind+string([]byte{result}), n) + body + strings.Repeat("\x0b", n)
}

// Bombs returns the modules. Each keeps to every single limit.
func Bombs() []Bomb {
	var list []Bomb
	add := func(name string, make func(b *builder)) {
		list = append(list, Bomb{name, func() []byte {
			b := newBuilder()
			make(b)
			return b.build()
		}})
	}
	addFunctionBombs(add)
	addBlockBombs(add)
	addSectionBombs(add)
	addAllowed(add)
	return list
}

type adder = func(name string, make func(b *builder))

// addFunctionBombs adds those of many functions times something.
func addFunctionBombs(add adder) {
	add("functions-times-locals", func(b *builder) {
		for range 3_000 {
			b.function(typeNone, 4_990, "")
		}
	})
	add("functions-times-locals-that-live", func(b *builder) {
		body := "\x03\x40" + get(0) + set(4_000) + "\x0b"
		for range 3_000 {
			b.function(typeNone, 4_900, body)
		}
	})
	add("functions-times-vector-locals", func(b *builder) {
		for range 3_000 {
			b.kindFunction(typeNone, 4_900, v128Type, "")
		}
	})
	add("functions-times-parameters", func(b *builder) {
		b.types = append(b.types, funcType(128, 128, i32Type))
		body := strings.Builder{}
		for i := range 128 {
			body.WriteString(get(i))
		}
		for range 10_000 {
			b.function(typeFree, 0, body.String())
		}
	})
	add("calls-times-results", func(b *builder) {
		b.types = append(b.types, funcType(0, 128, i32Type))
		b.function(typeFree, 0, strings.Repeat("\x41\x00", 128))
		body := strings.Repeat("\x10\x00"+strings.Repeat("\x1a", 128), 4_000)
		for range 8 {
			b.function(typeNone, 0, body)
		}
	})
	add("calls-times-live-values", func(b *builder) {
		live := 4_000
		body := strings.Repeat("\x3f\x00", live) + strings.Repeat("\x10\x00", 40_000) + strings.Repeat("\x1a", live)
		b.function(typeNone, 0, "\x03\x40\x0b")
		for range 8 {
			b.function(typeNone, 0, body)
		}
	})
	add("functions-times-imports", func(b *builder) {
		b.types = append(b.types, "\x60\x03\x7f\x7f\x7f\x00")
		for range 200 {
			b.imports = append(b.imports, text("edgewise_v1")+text("log")+"\x00"+uleb(typeFree))
		}
		var body strings.Builder
		for i := range 200 {
			body.WriteString("\x41\x00\x41\x00\x41\x00\x10" + uleb(i))
		}
		for range 4_000 {
			b.function(typeNone, 0, body.String())
		}
	})
	add("functions-many", func(b *builder) {
		for range 49_990 {
			b.function(typeNone, 0, "\x03\x40\x0b")
		}
	})
	add("straight-code", func(b *builder) {
		body := strings.Repeat(get(0)+"\x41\x03\x6c"+set(0), 140_000)
		for range 6 {
			b.function(typeNone, 1, body)
		}
	})
	add("vectors", func(b *builder) {
		body := strings.Repeat(get(0)+get(1)+"\xfd\xb5\x01"+set(0), 110_000) // i32x4.mul
		for range 6 {
			b.kindFunction(typeNone, 2, v128Type, body)
		}
	})
}

// addBlockBombs adds those of blocks times something.
func addBlockBombs(add adder) {
	for _, kind := range []struct{ name, op string }{{"blocks", "\x02"}, {"loops", "\x03"}} {
		add(kind.name+"-nested-times-locals", func(b *builder) {
			const locals, depth = 4_900, 1_990
			b.function(typeNone, locals, nested(kind.op, depth, noResult, touched(locals)+"\x41\x00\x0d"+uleb(depth-1)))
		})
		add(kind.name+"-in-a-row-times-locals", func(b *builder) {
			const locals = 4_900
			one := kind.op + "\x40" + get(7) + "\x0d\x00\x0b"
			b.function(typeNone, locals, touched(locals)+strings.Repeat(one, 100_000)+touched(locals))
		})
		add(kind.name+"-nested-with-results", func(b *builder) {
			b.types = append(b.types, funcType(0, 128, i32Type), funcType(128, 128, i32Type))
			const depth = 1_900
			body := strings.Repeat("\x41\x00", 128) + strings.Repeat(kind.op+uleb(typeFree+1), depth) + strings.Repeat("\x0b",
				depth) + strings.Repeat("\x1a", 128)
			for range 20 {
				b.function(typeNone, 0, body)
			}
		})
	}
	add("ifs-times-locals", func(b *builder) {
		const locals = 4_900
		one := get(1) + "\x04\x40" + get(2) + set(3) + "\x05" + get(3) + set(4_000) + "\x0b"
		b.function(typeNone, locals, touched(locals)+strings.Repeat(one, 60_000)+touched(locals))
	})
	add("branches-times-locals", func(b *builder) {
		const locals = 4_900
		b.function(typeNone, locals, nested("\x02", 1_990, noResult, touched(locals)+get(0)+"\x0e"+uleb(9_990)+cycle(9_990, 1_990)+"\x00"))
	})
	add("branch-tables", func(b *builder) {
		one := get(0) + "\x0e" + uleb(9_990) + strings.Repeat("\x00", 9_991)
		b.function(typeNone, 1, nested("\x02", 100, noResult, one))
		body := strings.Repeat("\x02\x40"+one+"\x0b", 100)
		for range 6 {
			b.function(typeNone, 1, body)
		}
	})
	add("branch-tables-times-results", func(b *builder) {
		b.types = append(b.types, funcType(0, 128, i32Type))
		one := "\x02" + uleb(typeFree) + strings.Repeat("\x41\x00",
			128) + get(0) + "\x0e" + uleb(9_990) + strings.Repeat("\x00", 9_991) + "\x0b" + strings.Repeat("\x1a", 128)
		body := strings.Repeat(one, 90)
		for range 6 {
			b.function(typeNone, 1, body)
		}
	})
	add("branches-out-of-nested-loops", func(b *builder) {
		const depth = 1_900
		var body strings.Builder
		for i := range depth {
			body.WriteString("\x03\x40" + get(i%40) + "\x0d" + uleb(i))
		}
		for i := range depth {
			body.WriteString(get(i%40) + set((i+7)%40) + "\x0b")
		}
		for range 100 {
			b.function(typeNone, 40, body.String())
		}
	})
}

// cycle is n labels that go round all below most.
func cycle(n, most int) string {
	var s strings.Builder
	for i := range n {
		s.WriteString(uleb(i % most))
	}
	return s.String()
}

// addSectionBombs adds those of the sections beside the code.
func addSectionBombs(add adder) {
	add("types-times-parameters", func(b *builder) {
		for range 9_990 {
			b.types = append(b.types, funcType(128, 128, i32Type))
		}
		b.function(typeNone, 0, "")
	})
	add("data-segments", func(b *builder) {
		for range 99_000 {
			b.data = append(b.data, "\x00\x41\x00\x0b"+text("abcdefgh"))
		}
	})
	add("data-large", func(b *builder) {
		for range 2 {
			b.data = append(b.data, "\x00\x41\x00\x0b"+text(strings.Repeat("x", 15<<20)))
		}
	})
	add("element-segments", func(b *builder) {
		b.tables = []string{"\x70\x00" + uleb(199_000)}
		b.function(typeNone, 0, "")
		for range 99_000 {
			b.elements = append(b.elements, "\x00\x41\x00\x0b\x02\x00\x00")
		}
	})
	add("globals-and-exports", func(b *builder) {
		for range 1_990 {
			b.globals = append(b.globals, "\x7f\x01\x41\x00\x0b")
		}
		for i := range 990 {
			b.exports = append(b.exports, text(fmt.Sprintf("%s%d", strings.Repeat("x", 900), i))+"\x03"+uleb(i))
		}
	})
}

// addAllowed adds modules just within the limits on products, in all shapes of the product. What they cost has to
// be bearable, or bounded otherwise.
func addAllowed(add adder) {
	const flow, functions = 1_900_000, 4
	for _, locals := range []int{30, 2_000} {
		for _, kind := range []struct {
			name, one string
			joins     int
		}{
			{"blocks", "\x02\x40" + get(7) + "\x0d\x00\x0b", 2},
			{"loops", "\x03\x40" + get(7) + "\x0d\x00\x0b", 2},
			{"ifs", get(1) + "\x04\x40" + get(2) + set(3) + "\x05" + get(3) + set(4) + "\x0b", 2},
		} {
			add(fmt.Sprintf("allowed-%s-times-%d-locals", kind.name, locals), func(b *builder) {
				n := min(flow/locals, 19_990) / kind.joins
				for range functions {
					b.function(typeNone, locals, touched(locals)+strings.Repeat(kind.one, n)+touched(locals))
				}
			})
			add(fmt.Sprintf("allowed-nested-%s-times-%d-locals", kind.name, locals), func(b *builder) {
				depth := min(flow/locals/2, 1_900)
				half := strings.TrimSuffix(kind.one, "\x0b")
				for range functions {
					b.function(typeNone, locals, touched(locals)+strings.Repeat(half, depth)+touched(locals)+strings.Repeat("\x0b", depth))
				}
			})
		}
	}
	add("allowed-loop-times-locals", func(b *builder) {
		for range 390 {
			b.function(typeNone, 4_900, "\x03\x40"+get(0)+"\x0d\x00\x0b")
		}
	})
	add("allowed-branch-table-times-locals", func(b *builder) {
		for range functions {
			b.function(typeNone, 180, nested("\x02", 9, noResult, touched(180)+get(0)+"\x0e"+uleb(9_900)+cycle(9_901, 9)))
		}
	})
}
