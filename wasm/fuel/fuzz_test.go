package fuel_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise/test/hostile"
	"github.com/edgewise-ai/edgewise/test/wat"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

// fuzzLimit is how many units a generated module may use: more than most of them need.
const fuzzLimit = 100_000

// compare generates a module, rewrites it, and runs both.
func compare(t testing.TB, choices []byte) (compared bool) {
	g := &generator{choices: choices}
	text := g.module()
	original, err := wat.Assemble(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	m, err := fuel.Rewrite(original, fuel.DefaultLimits())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	got, err := runRewritten(t, wazero.NewRuntimeConfigCompiler(), m, fuzzLimit, 3)
	if errors.Is(err, errSpent) || got.trap == errDeep.Error() {
		return false // the original may not end, or end elsewhere
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	want, err := run(t, context.Background(), wazero.NewRuntimeConfigCompiler(), original, 0, 3)
	if err != nil {
		t.Fatalf("the generated module is not valid: %v\n%s", err, text)
	}
	if !same(got, want) {
		t.Fatalf("got %v %q, want %v %q (memory equal: %v)\n%s", got.results, got.trap, want.results, want.trap, got.memory == want.memory, text)
	}
	return true
}

// FuzzEquivalence holds that a rewritten module validates and does what the original does.
func FuzzEquivalence(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Fuzz(func(t *testing.T, choices []byte) { compare(t, choices) })
}

func TestGeneratedModulesDoTheSameRewritten(t *testing.T) {
	compared, all := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		all++
		if compare(t, rapid.SliceOfN(rapid.Byte(), 20, 400).Draw(r, "choices")) {
			compared++
		}
	})
	t.Logf("%d of %d modules were compared", compared, all)
	if compared*3 < all {
		t.Errorf("only %d of %d modules could be compared: the generator is of no use", compared, all)
	}
}

// valid tells whether the runtime accepts a module. It does not run it.
func valid(module []byte) bool {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(fuel.DefaultLimits().Pages+1))
	defer func() { _ = r.Close(ctx) }()
	_, err := r.CompileModule(ctx, module)
	return err == nil
}

// FuzzRewrite holds that no bytes make the decoder panic, and that the rewriting keeps a module as valid as it was.
func FuzzRewrite(f *testing.F) {
	for _, p := range programs {
		f.Add(assemble(f, p.text))
	}
	corpus, err := hostile.Read("../testdata/hostile")
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range corpus {
		if len(m.Binary) < 1<<12 {
			f.Add(m.Binary)
		}
	}
	f.Fuzz(func(t *testing.T, module []byte) {
		l := fuel.DefaultLimits()
		l.Locals, l.Nesting = 200, 100
		m, err := fuel.Rewrite(module, l)
		if err != nil {
			return
		}
		if before, after := valid(withoutCustom(module)), valid(m.Binary); before != after {
			t.Errorf("valid before: %v, after: %v\n%x\n%x", before, after, module, m.Binary)
		}
	})
}

// withoutCustom leaves out custom sections, whose content carries no meaning: the rewriting drops them whatever it is.
func withoutCustom(module []byte) []byte {
	out := slices.Clone(module[:8])
	for rest := module[8:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		section := rest[:1+n+int(size)]
		if section[0] != 0 {
			out = append(out, section...)
		}
		rest = rest[len(section):]
	}
	return out
}

// TestALimitIsAlwaysKept crosses each limit.
func TestALimitIsAlwaysKept(t *testing.T) {
	small := fuel.Limits{
		Bytes: 1000, Types: 3, Params: 2, Imports: 1, Functions: 2, FunctionBytes: 40, Locals: 4, Nesting: 3,
		Branches: 2, Tables: 1, TableElements: 5, Globals: 1, Exports: 1, Segments: 1, Pages: 2, TypeValues: 2, Joins: 4, Flow: 8, ModuleFlow: 12,
	}
	tests := []struct{ name, fits, over string }{
		{"types", "(type (func)) (type (func)) (type (func))", "(type (func)) (type (func)) (type (func)) (type (func))"},
		{"parameters", "(type (func (param i32 i32)))", "(type (func (param i32 i32 i32)))"},
		{"results", "(type (func (result i32 i32)))", "(type (func (result i32 i32 i32)))"},
		{"imports", `(import "a" "b" (func))`, `(import "a" "b" (func)) (import "a" "c" (func))`},
		{"functions", "(func) (func)", "(func) (func) (func)"},
		{"code", "(func nop nop)", "(func nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop " +
			"nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop nop)"},
		{"locals", "(func (local i32 i32 i32 i32))", "(func (local i32 i32 i32 i32 i32))"},
		{"locals with parameters", "(func (param i32) (local i32 i32 i32))", "(func (param i32) (local i32 i32 i32 i32))"},
		{"nesting", "(func block block end end)", "(func block block block end end end)"},
		{"branches", "(func (br_table 0 0 0 (i32.const 0)))", "(func (br_table 0 0 0 0 (i32.const 0)))"},
		{"tables", "(table 1 funcref)", "(table 1 funcref) (table 1 funcref)"},
		{"elements", "(table 5 funcref)", "(table 6 funcref)"},
		{
			"elements of a segment", "(table 1 funcref) (func $f) (elem func $f $f $f $f $f)",
			"(table 1 funcref) (func $f) (elem func $f $f $f $f $f $f)",
		},
		{"globals", "(global i32 (i32.const 0))", "(global i32 (i32.const 0)) (global i32 (i32.const 0))"},
		{"exports", `(func (export "a"))`, `(func (export "a") (export "b"))`},
		{"data segments", `(memory 1) (data "a")`, `(memory 1) (data "a") (data "a")`},
		{"element segments", `(func $f) (elem func $f)`, `(func $f) (elem func $f) (elem func $f)`},
		{"pages", "(memory 2)", "(memory 3)"},
		{"parameters of all types", "(type (func (param i32 i32)))", "(type (func (param i32 i32))) (type (func (result i32)))"},
		{"blocks times locals", "(func (local i32 i32 i32 i32) block end)", "(func (local i32 i32 i32 i32) block end block end)"},
		{
			"blocks and branches", "(func block end block end (br_table 0 (i32.const 0)))",
			"(func block end block end (br_table 0 0 (i32.const 0)) block end)",
		},
		{
			"branches times locals", "(func (local i32 i32) (block (br_if 0 (i32.const 0))))",
			"(func (local i32 i32 i32 i32) (block (br_if 0 (i32.const 0))))",
		},
		{
			"labels times locals", "(func (local i32 i32) (br_table 0 0 0 (i32.const 0)))",
			"(func (local i32 i32 i32 i32) (br_table 0 0 0 (i32.const 0)))",
		},
		{
			"blocks times results", "(func (block (result i32) (i32.const 0)) drop)",
			"(type (func (result i32 i32))) (func (block (type 0) (i32.const 0) (i32.const 0)) drop drop block end block end block end)",
		},
		{
			"blocks times locals of all functions", "(func (local i32 i32 i32 i32) block end) (func (local i32 i32 i32 i32))",
			"(func (local i32 i32 i32 i32) block end) (func (local i32 i32 i32 i32) block end)",
		},
		{
			"results of calls", "(func $f (result i32) i32.const 0) (func (call $f) drop)",
			"(func $f (result i32) i32.const 0) (func call $f drop call $f drop call $f drop call $f drop call $f drop call " +
				"$f drop call $f drop call $f drop call $f drop)",
		},
	}
	for _, test := range tests {
		if _, err := fuel.Rewrite(assemble(t, test.fits), small); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if _, err := fuel.Rewrite(assemble(t, test.over), small); err == nil || kindOf(err) != "too_large" {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
	if _, err := fuel.Rewrite(make([]byte, 1001), small); err == nil || kindOf(err) != "too_large" {
		t.Errorf("bytes: %v", err)
	}
}

// TestARunIsMetered counts what a loop costs.
func TestARunIsMetered(t *testing.T) {
	m := rewrite(t, assemble(t, programs[0].text))
	one, err := runRewritten(t, wazero.NewRuntimeConfigCompiler(), m, 1<<40, 1000)
	if err != nil {
		t.Fatal(err)
	}
	ten, err := runRewritten(t, wazero.NewRuntimeConfigCompiler(), m, 1<<40, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	if each := float64(ten.used-one.used) / 9000; each < 9 || each > 12 {
		t.Errorf("a round of ten instructions costs %.2f units", each)
	}
	if ten.calls < 50 || ten.calls > 150 {
		t.Errorf("%d calls of the host for %d units in slices of 1000", ten.calls, ten.used)
	}
}

// TestNamesAreKept finds a function's name in a trace.
func TestNamesAreKept(t *testing.T) {
	m := rewrite(t, assemble(t, `(func $other) (func $culprit unreachable) (func $f (export "f") call $culprit)`))
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer func() { _ = r.Close(ctx) }()
	hook := api.GoFunc(func(context.Context, []uint64) {})
	if _, err := r.NewHostModuleBuilder(fuel.HookModule).NewFunctionBuilder().WithGoFunction(hook,
		[]api.ValueType{api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}).Export(fuel.HookName).Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	mod, err := r.Instantiate(ctx, m.Binary)
	if err != nil {
		t.Fatal(err)
	}
	_, err = mod.ExportedFunction("f").Call(ctx)
	if err == nil || !contains(err.Error(), ".culprit()", ".f()") {
		t.Errorf("%v", err)
	}
}
