package fuel_test

import (
	"fmt"
	"strings"
)

// generator makes a valid module out of bytes: each byte is a choice. When they are used up, choices are the first
// ones, which end everything.
type generator struct {
	choices []byte
	out     strings.Builder
	funcs   int
	labels  int // open blocks of the function without a value
	counter int // loops of the function so far, each of which needs a local
}

func (g *generator) choose(n int) int {
	if len(g.choices) == 0 {
		return 0
	}
	c := int(g.choices[0])
	g.choices = g.choices[1:]
	return c % n
}

func (g *generator) emit(format string, args ...any) { fmt.Fprintf(&g.out, format+" ", args...) }

// maxLoops bounds the loops of a function.
const maxLoops = 4

// module returns text. Functions take an i32 and return an i32 and an i64; f is the last one.
func (g *generator) module() string {
	g.funcs = 1 + g.choose(4)
	g.emit(`(type $t (func (param i32) (result i32 i64))) (memory (export "memory") 1 3) (table 4 8 funcref) (elem (i32.const 0) $f0)
(global $g (mut i32) (i32.const 7)) (global $h (mut i64) (i64.const -1)) (data $d "0123456789")`)
	for i := range g.funcs {
		g.counter, g.labels = 0, 0
		g.emit("(func $f%d (type $t) (local $a i32) (local $b i64) (local $v v128) (local $c0 i32) (local $c1 i32) (local "+
			"$c2 i32) (local $c3 i32)", i)
		g.statements(4)
		g.i32(3)
		g.i64(3)
		g.emit(")\n")
	}
	g.emit(`(export "f" (func $f%d))`, g.funcs-1)
	return g.out.String()
}

func (g *generator) statements(depth int) {
	for range g.choose(4) {
		g.statement(depth)
	}
}

func (g *generator) statement(depth int) {
	if depth == 0 {
		g.emit("nop")
		return
	}
	kind := g.choose(20)
	switch kind {
	case 0:
		g.emit("nop")
	case 1, 2:
		g.i32(depth - 1)
		g.emit("local.set %s", []string{"0", "$a"}[kind-1])
	case 3:
		g.i64(depth - 1)
		g.emit("local.set $b")
	case 4:
		g.i32(depth - 1)
		g.emit("global.set $g")
	case 5:
		g.emit("(i32.store offset=8 (i32.and")
		g.operand()
		g.emit("(i32.const 0xffff))")
		g.operand()
		g.emit(")")
	case 6, 7:
		g.emit("block")
		g.labels++
		g.statements(depth - 1)
		g.labels--
		g.emit("end")
	case 8, 9, 10:
		g.loop(depth)
	case 11:
		g.i32(depth - 1)
		g.emit("if")
		g.labels++
		g.statements(depth - 1)
		if g.choose(2) == 1 {
			g.emit("else")
			g.statements(depth - 1)
		}
		g.labels--
		g.emit("end")
	case 12:
		g.branch(depth)
	case 13:
		g.i32(depth - 1)
		g.i64(depth - 1)
		g.emit([]string{"drop drop", "return"}[g.choose(2)])
	case 14:
		g.emit("(memory.fill (i32.const %d) (i32.const 3)", 7*g.choose(256))
		g.size()
		g.emit(")")
	case 15:
		g.emit("(memory.copy (i32.const %d) (i32.const %d)", 9*g.choose(256), 200*g.choose(256))
		g.size()
		g.emit(")")
	case 16:
		g.emit("(memory.init $d (i32.const %d) (i32.const 1) (i32.const %d))", g.choose(256), g.choose(12))
	case 17:
		g.emit([]string{
			"(drop (memory.grow (i32.const 1)))", "(drop (table.grow 0 (ref.func $f0) (i32.const 2)))",
			"(table.fill 0 (i32.const 1) (ref.func $f0) (i32.const 2))", "(data.drop $d)",
			"(table.copy (i32.const 0) (i32.const 1) (i32.const 3))",
		}[g.choose(5)])
	case 18:
		g.emit("(local.set $v (i32x4.add (local.get $v) (i32x4.splat")
		g.operand()
		g.emit("))) (v128.store offset=64 (i32.const 0) (f32x4.mul (local.get $v) (v128.load offset=3 (i32.const 60))))")
	case 19:
		g.emit("unreachable")
	}
}

// size is a length for a bulk instruction: a small constant, a large one, or a value.
func (g *generator) size() {
	switch g.choose(3) {
	case 0:
		g.emit("(i32.const %d)", 16*g.choose(256))
	case 1:
		g.emit("(i32.const %d)", 1000*g.choose(256))
	default:
		g.operand()
	}
}

// loop runs a bounded number of times, unless a branch closes it for ever.
func (g *generator) loop(depth int) {
	if g.counter == maxLoops {
		return
	}
	c := g.counter
	g.counter++
	g.emit("(local.set $c%d (i32.const %d))", c, 1+g.choose(40))
	parameters := g.choose(2) == 1
	if parameters {
		g.emit("i64.const 5 loop (param i64) (result i64) i64.const 3 i64.mul")
	} else {
		g.emit("loop")
	}
	if !parameters {
		g.labels++
	}
	saved := g.labels
	if parameters {
		g.labels = 0 // its label takes a value
	}
	g.statements(depth - 1)
	g.labels = saved
	g.emit("(br_if 0 (local.tee $c%d (i32.sub (local.get $c%d) (i32.const 1))))", c, c)
	if parameters {
		g.emit("end local.set $b")
	} else {
		g.labels--
		g.emit("end")
	}
}

// branch leaves an open block, or goes back to an open loop.
func (g *generator) branch(depth int) {
	if g.labels == 0 {
		return
	}
	to := g.choose(g.labels)
	switch g.choose(3) {
	case 0:
		g.emit("br %d", to)
	case 1:
		g.i32(depth - 1)
		g.emit("br_if %d", to)
	case 2:
		g.i32(depth - 1)
		g.emit("br_table %d %d %d", g.choose(g.labels), to, g.choose(g.labels))
	}
}

// operand is an i32 in folded form.
func (g *generator) operand() {
	g.emit([]string{"(local.get 0)", "(local.get $a)", "(global.get $g)", "(i32.wrap_i64 (local.get $b))"}[g.choose(4)])
}

func (g *generator) i32(depth int) {
	if depth == 0 {
		g.emit("i32.const %d", g.choose(256)-64)
		return
	}
	switch g.choose(12) {
	case 0:
		g.emit("i32.const %d", g.choose(256)*1000003)
	case 1:
		g.operand()
	case 2, 3:
		g.i32(depth - 1)
		g.i32(depth - 1)
		g.emit([]string{"i32.add", "i32.sub", "i32.mul", "i32.xor", "i32.shl", "i32.lt_s", "i32.div_u", "i32.rem_s"}[g.choose(8)])
	case 4:
		g.i64(depth - 1)
		g.emit("i32.wrap_i64")
	case 5:
		g.i32(depth - 1)
		labels := g.labels
		g.labels = 0
		g.emit("if (result i32)")
		g.i32(depth - 1)
		g.emit("else")
		g.i32(depth - 1)
		g.emit("end")
		g.labels = labels
	case 6:
		labels := g.labels
		g.labels = 0
		g.emit("block (result i32)")
		g.i32(depth - 1)
		g.i32(depth - 1)
		g.emit("br_if 0 drop")
		g.i32(depth - 1)
		g.emit("end")
		g.labels = labels
	case 7:
		g.i32(depth - 1)
		g.emit("i32.const 0xffff i32.and i32.load offset=4")
	case 8, 9:
		g.i32(depth - 1)
		g.emit("call $f%d drop", g.choose(g.funcs))
	case 10:
		g.i32(depth - 1)
		g.i32(depth - 1)
		g.emit("i32.const 3 i32.and call_indirect (type $t) drop")
	case 11:
		g.emit("(i32.add (memory.size) (table.size 0))")
	}
}

func (g *generator) i64(depth int) {
	if depth == 0 {
		g.emit("i64.const %d", g.choose(256))
		return
	}
	switch g.choose(4) {
	case 0:
		g.emit("local.get $b")
	case 1:
		g.i32(depth - 1)
		g.emit("i64.extend_i32_s")
	case 2:
		g.i64(depth - 1)
		g.i64(depth - 1)
		g.emit("i64.add")
	case 3:
		g.i32(depth - 1)
		g.emit("call $f%d local.set $b drop local.get $b", g.choose(g.funcs))
	}
}
