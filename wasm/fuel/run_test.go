package fuel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/wat"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

func assemble(t testing.TB, text string) []byte {
	t.Helper()
	module, err := wat.Assemble(text)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

var errDeep = errors.New("stack overflow") // as the runtime calls it

var errSpent = errors.New("fuel is spent")

// meter refills in slices up to a limit.
type meter struct {
	granted, limit int64
	slice          int32
	calls          int
}

func (m *meter) refill(_ context.Context, stack []uint64) {
	m.calls++
	left := int64(int32(stack[0]))
	if left == fuel.TooDeep {
		panic(errDeep)
	}
	if m.granted-left > m.limit {
		panic(errSpent)
	}
	m.granted += int64(m.slice) - left
	stack[0] = uint64(uint32(m.slice))
}

// bounded is a memory of at most so many bytes: the rewritten module declares a page more than the host is to allow.
type bounded struct {
	data []byte
	most uint64
}

func (m *bounded) Allocate(_, _ uint64) experimental.LinearMemory { return m }

func (m *bounded) Reallocate(size uint64) []byte {
	if size > m.most {
		return nil
	}
	m.data = append(m.data, make([]byte, size-uint64(len(m.data)))...)
	return m.data
}

func (m *bounded) Free() {}

// outcome is all that one can see of a run: results, trap, memory.
type outcome struct {
	results []uint64
	trap    string
	memory  string
	used    int64
	calls   int
}

// runRewritten runs a rewritten module within a limit of fuel.
func runRewritten(t testing.TB, config wazero.RuntimeConfig, m *fuel.Module, limit int64, args ...uint64) (outcome, error) {
	t.Helper()
	ctx := experimental.WithMemoryAllocator(context.Background(), &bounded{most: uint64(m.MaxPages) * fuel.PageSize})
	return run(t, ctx, config, m.Binary, limit, args...)
}

// run instantiates a module and calls f with arguments.
func run(t testing.TB, ctx context.Context, config wazero.RuntimeConfig, binary []byte, limit int64, args ...uint64) (outcome, error) {
	t.Helper()
	r := wazero.NewRuntimeWithConfig(ctx, config)
	defer func() { _ = r.Close(ctx) }()
	m := &meter{limit: limit, slice: 1000}
	_, err := r.NewHostModuleBuilder(fuel.HookModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(m.refill), []api.ValueType{api.ValueTypeI32},
			[]api.ValueType{api.ValueTypeI32}).Export(fuel.HookName).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o := outcome{}
	mod, err := r.InstantiateWithConfig(ctx, binary, wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		return o, err
	}
	if f := mod.ExportedFunction("f"); f != nil {
		o.results, err = f.Call(ctx, args...)
		if errors.Is(err, errSpent) {
			return o, err
		}
		if err != nil {
			o.trap, _, _ = strings.Cut(strings.TrimPrefix(strings.Replace(err.Error(), " (recovered by wazero)", "", 1), "wasm error: "), "\n")
		}
	}
	if mem := mod.ExportedMemory("memory"); len(mod.ExportedMemoryDefinitions()) > 0 {
		data, _ := mem.Read(0, mem.Size())
		o.memory = string(data)
	}
	o.calls = m.calls
	if g := mod.ExportedGlobal(fuel.Counter); g != nil {
		o.used = m.granted - int64(int32(g.Get()))
	}
	return o, nil
}

func rewrite(t testing.TB, module []byte) *fuel.Module {
	t.Helper()
	m, err := fuel.Rewrite(module, fuel.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// same compares what a guest can show of a run.
func same(a, b outcome) bool {
	if a.trap != b.trap || a.memory != b.memory || len(a.results) != len(b.results) {
		return false
	}
	for i := range a.results {
		if a.results[i] != b.results[i] {
			return false
		}
	}
	return true
}

var programs = []struct {
	name, text string
	args       []uint64
}{
	{"a loop", `(func (export "f") (param $n i32) (result i32) (local $s i32)
		loop $l  local.get $s local.get $n i32.add local.set $s  local.get $n i32.const 1 i32.sub local.tee $n br_if $l
		  end local.get $s)`, []uint64{100000}},
	{"recursion", `(func $fib (export "f") (param i32) (result i32)
		(if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
		(else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))`, []uint64{20}},
	{"a leaf in a loop", `(func $leaf (param i32) (result i32) (i32.mul (local.get 0) (i32.const 3)))
		(func (export "f") (param $n i32) (result i32) (local $s i32)
		loop $l (local.set $s (i32.add (call $leaf (local.get $n)) (local.get $s)))
		  (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))) end local.get $s)`, []uint64{5000}},
	{"br_table", `(func (export "f") (param $n i32) (result i32) (local $s i32)
		loop $l block $c block $b block $a (br_table $a $b $c (i32.rem_u (local.get $n) (i32.const 4))) end
		(local.set $s (i32.add (local.get $s) (i32.const 1))) br $c end (local.set $s (i32.add (local.get $s) (i32.const 100))) end
		(br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))) end local.get $s)`, []uint64{1000}},
	{"a br_table that goes back", `(func (export "f") (param $n i32) (result i32)
		block $o loop $l (local.set $n (i32.sub (local.get $n) (i32.const 1))) (br_table $l $o (i32.eqz (local.get $n))) end
		  end (i32.const 9))`, []uint64{1000}},
	{"multiple values through a loop", `(func (export "f") (param $n i32) (result i32 i64)
		(local $x i64) i32.const 1 i64.const 2
		loop $l (param i32 i64) (result i32 i64) i64.const 3 i64.mul local.set $x i32.const 5 i32.add local.get $x
		(local.set 0 (i32.sub (local.get 0) (i32.const 1))) (br_if $l (local.get 0)) end)`, []uint64{77}},
	{"SIMD", `(memory (export "memory") 1) (func (export "f") (param $n i32) (result i32) (local $v v128)
		loop $l (local.set $v (i32x4.add (local.get $v) (v128.const i32x4 1 2 3 4)))
		(v128.store (i32.const 16) (f32x4.add (v128.load (i32.const 16)) (v128.load (i32.const 32))))
		(br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))) end (v128.store (i32.const 0) (local.get $v))
		  (i32x4.extract_lane 3 (local.get $v)))`, []uint64{3000}},
	{"bulk memory", `(memory (export "memory") 2) (data $d "hello, world") (func (export "f") (param $n i32) (result i32)
		(memory.init $d (i32.const 8) (i32.const 0) (i32.const 12)) (memory.fill (i32.const 100) (i32.const 7) (local.get $n))
		(memory.copy (i32.const 70000) (i32.const 90) (local.get $n)) (memory.copy (i32.const 95) (i32.const 90) (i32.const 20))
		(data.drop $d) (i32.load (i32.const 70020)))`, []uint64{40000}},
	{"bulk memory past the end", `(memory (export "memory") 1) (func (export "f") (param $n i32)
		(memory.fill (i32.const 100) (i32.const 7) (local.get $n)))`, []uint64{65500}},
	{"tables", `(type $t (func (result i32))) (table 4 20 funcref) (elem (i32.const 0) $a $b) (elem declare func $c)
		(func $a (result i32) i32.const 1) (func $b (result i32) i32.const 2) (func $c (result i32) i32.const 40)
		(func (export "f") (result i32) (table.set 0 (i32.const 2) (ref.func $c)) (drop (table.grow 0 (ref.null func) (i32.const 3)))
		(i32.add (call_indirect (type $t) (i32.const 2)) (i32.add (call_indirect (type $t) (i32.const 1)) (table.size 0))))`, nil},
	{"a missing element", `(table 4 funcref) (func (export "f") (call_indirect (param) (i32.const 3)))`, nil},
	{"globals and imports of globals", `(global $g (mut i64) (i64.const 5)) (global $h i32 (i32.const 7)) (func (export "f") (result i64)
		(global.set $g (i64.add (global.get $g) (i64.extend_i32_u (global.get $h)))) (global.get $g))`, nil},
	{"start", `(memory (export "memory") 1) (func $s (i32.store (i32.const 4) (i32.const 99)) (call $t))
	  (func $t (i32.store (i32.const 8) (i32.const 98))) (start $s)
		(func (export "f") (result i32) (i32.load (i32.const 8)))`, nil},
	{"growing", `(memory (export "memory") 1 3) (func (export "f") (result i32)
	  (i32.add (i32.mul (i32.const 100) (memory.grow (i32.const 1)))
	  (i32.add (i32.mul (i32.const 10) (memory.grow (i32.const 5))) (memory.size))))`, nil},
	{"unreachable", `(func (export "f") unreachable loop $l br $l end)`, nil},
	{"dead code", `(memory 1) (func (export "f") (result i32) i32.const 3 return memory.fill loop $l br $l end i32.const 4)`, nil},
	{"divide by zero", `(func (export "f") (param i32) (result i32) (i32.div_u (i32.const 1) (local.get 0)))`, []uint64{0}},
	{"deep recursion", `(func $r (export "f") call $r)`, nil},
	{"nested loops and ifs", `(func (export "f") (param $n i32) (result i32) (local $i i32) (local $j i32) (local $s i32)
		loop $a (local.set $j (i32.const 0)) loop $b
		(if (i32.and (local.get $j) (i32.const 1)) (then (local.set $s (i32.add (local.get $s) (local.get $j))))
		  (else loop $c end (local.set $s (i32.xor (local.get $s) (local.get $i)))))
		(br_if $b (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 1))) (i32.const 50))) end
		(br_if $a (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))) end local.get $s)`, []uint64{60}},
	{"returns of several values from within blocks", `(func $two (param i32) (result i32 i64)
		block block (br_if 1 (i32.eqz (local.get 0))) (return (i32.const 1) (i64.const 2)) end end
		(call $none) (i32.const 3) (i64.const 4))
		(func $none) (func $g call $none return) (func (export "f") (param $n i32) (result i32 i64 i32) call $g
		  (call $two (local.get $n)) (call $two (i32.const 0)) drop)`, []uint64{1}},
	{"branches to the function itself", `(func $a (result i32) (call $b) drop (br 0 (i32.const 5)))
	  (func $b (result i32) (call $c) block (result i32) (br_table 0 1 (i32.const 6) (i32.const 1)) end) (func $c)
	  (func (export "f") (result i32) (i32.add (call $a) (call $b)))`, nil},
	{"select with a type", `(func (export "f") (param i32) (result i32)
	  (select (result i32) (i32.const 3) (i32.const 4) (local.get 0)))`, []uint64{1}},
}

func TestARewrittenModuleDoesWhatTheOriginalDoes(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			original := assemble(t, p.text)
			rewritten := rewrite(t, original)
			for name, config := range map[string]wazero.RuntimeConfig{
				"compiler":    wazero.NewRuntimeConfigCompiler(),
				"interpreter": wazero.NewRuntimeConfigInterpreter(),
			} {
				want, err := run(t, context.Background(), config, original, 0, p.args...)
				if err != nil {
					t.Fatal(err)
				}
				got, err := runRewritten(t, config, rewritten, 1<<40, p.args...)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if !same(got, want) {
					t.Errorf("%s: got %v %q, want %v %q (memory equal: %v)", name, got.results, got.trap, want.results, want.trap,
						got.memory == want.memory)
				}
			}
		})
	}
}

func kindOf(err error) string { return edgewise.KindOf(err).String() }

func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
