package wasm

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

// dividing divides by zero in a loop of a function that it calls: the rewriting moves all of that code.
const dividing = prelude + `
(func $divide (param i32) (result i32) (local $n i32)
  loop $l
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $l (i32.lt_u (local.get $n) (i32.const 1000)))
  end
  (i32.div_u (i32.const 77) (local.get 0)))
(func $process (export "edgewise_process") (param $in i32) (result i32)
  (drop (call $divide (i32.const 0)))
  local.get $in)`

// everyByte returns a line for each byte of a module's code section, whose number is that of the byte, and the numbers of
// the bytes that begin the places given.
func everyByte(t *testing.T, module []byte, places ...[]byte) (lines []fuel.Line, numbers []int) {
	t.Helper()
	const codeSection = 10
	for at := 8; at < len(module); {
		size, n := 0, 0
		for more := true; more; n++ {
			b := module[at+1+n]
			size |= int(b&0x7f) << (7 * n)
			more = b >= 0x80
		}
		content := module[at+1+n:][:size]
		if module[at] == codeSection {
			for i := range content {
				lines = append(lines, fuel.Line{At: uint32(i), File: "step.c", Line: uint32(i)})
			}
			for _, p := range places {
				numbers = append(numbers, bytes.Index(content, p))
			}
			return lines, numbers
		}
		at += 1 + n + size
	}
	t.Fatal("the module has no code")
	return nil, nil
}

func TestATrapNamesTheLinesOfTheSource(t *testing.T) {
	module := assemble(t, dividing)
	lines, at := everyByte(t, module, []byte{0x41, 0xcd, 0x00, 0x20, 0x00, 0x6e}, []byte{0x41, 0x00, 0x10})
	divides, calls := at[0]+5, at[1]+2
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "step", Version: 1}, Model: model()}
	trap := func(module []byte) (text string) {
		backend := New(Config{CacheDir: t.TempDir()})
		for range 2 { // compiled, then read from the cache
			instance, err := backend.Load(context.Background(), v, folder(t, module), edgewise.Device{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = instance.Run(t.Context(), floats(1), []string{"x"}, edgewise.RunOptions{})
			if closing := instance.Close(); closing != nil {
				t.Error(closing)
			}
			if err == nil || text != "" && err.Error() != text {
				t.Fatalf("got %v, at first %s", err, text)
			}
			text = err.Error()
		}
		return text
	}
	want := fmt.Sprintf("in function divide (step.c:%d), called by process (step.c:%d)", divides, calls)
	if got := trap(fuel.AppendLines(module, lines)); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := trap(module); !strings.Contains(got, "in function divide, called by process") {
		t.Errorf("without lines: %s", got)
	}
	damaged := fuel.AppendLines(module, lines)
	if got := trap(append(damaged[:len(damaged)-1], 0x80)); !strings.Contains(got, "in function divide, called by process") {
		t.Errorf("with damaged lines: %s", got)
	}
}
