package wasm

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

// workloads are loops and calls as steps have them. Each exports f without parameters.
var workloads = []struct{ name, text string }{
	{"normalise-scalar", `(memory (export "memory") 16) (func (export "f") (local $i i32)
		loop $l
		(f32.store offset=200000 (i32.shl (local.get $i) (i32.const 2))
		  (f32.mul (f32.sub (f32.convert_i32_u (i32.load8_u (local.get $i))) (f32.const 127)) (f32.const 0.017)))
		(br_if $l (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 150528))) end)`},
	{"multiply-simd", `(memory (export "memory") 16) (func (export "f") (local $i i32)
		loop $l
		(v128.store offset=400000 (local.get $i) (f32x4.mul (v128.load (local.get $i)) (v128.load (local.get $i))))
		(v128.store offset=400016 (local.get $i) (f32x4.add (v128.load offset=16 (local.get $i)) (v128.load offset=16 (local.get $i))))
		(br_if $l (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 32))) (i32.const 320000))) end)`},
	{"sum-tight", `(memory (export "memory") 16) (func (export "f") (result i32) (local $i i32) (local $s i32)
		loop $l (local.set $s (i32.add (local.get $s) (i32.load8_u (local.get $i))))
		(br_if $l (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 500000))) end local.get $s)`},
	{"nested-4x4", `(memory (export "memory") 16) (func (export "f") (local $i i32) (local $k i32)
		loop $o (local.set $k (i32.const 0)) loop $l
		(i32.store (i32.shl (local.get $k) (i32.const 2))
		  (i32.add (i32.mul (local.get $i) (local.get $k)) (i32.load (i32.shl (local.get $k) (i32.const 2)))))
		(br_if $l (i32.ne (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 4))) end
		(br_if $o (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 50000))) end)`},
	{"calls-fib", `(func $fib (param i32) (result i32)
		(if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
		(else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
		(func (export "f") (result i32) (call $fib (i32.const 22)))`},
}

// BenchmarkFuel runs each workload as it is, with fuel, and with the runtime's own interruption.
func BenchmarkFuel(b *testing.B) {
	for _, w := range workloads {
		module := assemble(b, w.text)
		rewritten, err := fuel.Rewrite(module, fuel.DefaultLimits())
		if err != nil {
			b.Fatal(err)
		}
		for _, way := range []struct {
			name   string
			module []byte
			config wazero.RuntimeConfig
		}{
			{"plain", module, wazero.NewRuntimeConfigCompiler()},
			{"fuel", rewritten.Binary, wazero.NewRuntimeConfigCompiler()},
			{"close-on-done", module, wazero.NewRuntimeConfigCompiler().WithCloseOnContextDone(true)},
		} {
			b.Run(w.name+"/"+way.name, func(b *testing.B) { benchmarkModule(b, way.module, way.config) })
		}
	}
}

func benchmarkModule(b *testing.B, module []byte, config wazero.RuntimeConfig) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	r := wazero.NewRuntimeWithConfig(ctx, config)
	defer func() { _ = r.Close(ctx) }()
	i32 := []api.ValueType{api.ValueTypeI32}
	if _, err := r.NewHostModuleBuilder(fuel.HookModule).NewFunctionBuilder().WithGoFunction(api.GoFunc(refill), i32,
		i32).Export(fuel.HookName).Instantiate(ctx); err != nil {
		b.Fatal(err)
	}
	mod, err := r.Instantiate(ctx, module)
	if err != nil {
		b.Fatal(err)
	}
	c := begin(ctx, &program{}, time.Hour, never)
	f := mod.ExportedFunction("f")
	stack := make([]uint64, 1)
	for b.Loop() {
		if err := f.CallWithStack(c, stack); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStep is a request that does nothing, in process: taking a guest, writing the inputs, two calls, reading the
// outputs, putting the guest back.
func BenchmarkStep(b *testing.B) {
	for _, size := range []int{4, 150_528} {
		b.Run(fmt.Sprintf("%d-floats", size), func(b *testing.B) {
			s := load(b, Config{}, model(), identity)
			in := floats(size)
			for b.Loop() {
				r, err := s.Run(context.Background(), in, []string{"x"}, edgewise.RunOptions{})
				if err != nil {
					b.Fatal(err)
				}
				r.Free()
			}
		})
	}
}

// BenchmarkGuest is what a new guest costs.
func BenchmarkGuest(b *testing.B) {
	s := load(b, Config{}, model(), identity)
	for b.Loop() {
		g, err := s.p.newGuest(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		g.close()
	}
}

// BenchmarkStop lets two guests loop until a deadline, with the garbage collector running all the time, and reports the
// longest and the mean time that a guest ran past it.
func BenchmarkStop(b *testing.B) {
	for _, procs := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("procs-%d", procs), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			s := load(b, Config{Pause: -1}, model(),
				prelude+`(func (export "edgewise_process") (param i32) (result i32) loop $l br $l end unreachable)`)
			collect, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-collect:
						return
					default:
						runtime.GC()
					}
				}
			}()
			var most, sum time.Duration
			for b.Loop() {
				for _, late := range runaways(b, s) {
					most = max(most, late)
					sum += late
				}
			}
			close(collect)
			<-done
			b.ReportMetric(float64(most.Microseconds())/1000, "max-late-ms")
			b.ReportMetric(float64(sum.Microseconds())/1000/float64(2*b.N), "mean-late-ms")
		})
	}
}

// runaways stops two guests at the same time and returns how late each was.
func runaways(b *testing.B, s *step) [2]time.Duration {
	var late [2]time.Duration
	var wait sync.WaitGroup
	for i := range late {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			_, err := s.Run(ctx, floats(1), []string{"x"}, edgewise.RunOptions{})
			deadline, _ := ctx.Deadline()
			late[i] = time.Since(deadline)
			if edgewise.KindOf(err) != edgewise.Deadline {
				b.Error(err)
			}
		})
	}
	wait.Wait()
	return late
}
