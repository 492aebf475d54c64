package sdk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/step"
)

// culprits put a function that traps into the template of each language, and a call of it. want is in the error: the
// place in the source.
var culprits = map[step.Language]struct{ before, function, call, instead, want string }{
	step.C: {
		"static const ew_list *process",
		"__attribute__((noinline)) static void culprit(void) { __builtin_trap(); }\n", "if (!x ||",
		"if (x) culprit();\n\tif (!x ||", "trap: unreachable in function culprit (step.c:10), called by ",
	},
	step.Rust: {
		"fn process", "#[inline(never)]\nfn culprit(v: &[f32]) -> f32 { v[v.len()] }\n\n",
		"let mut outputs", "let factor = factor + culprit(x.values());\n    let mut outputs", "step.rs:13:",
	},
	step.Go: {
		"func scale", "//go:noinline\nfunc culprit(v []float32) float32 { return v[len(v)] }\n\n",
		"y := make", "factor += float64(culprit(x.Values))\n\ty := make",
		"panic: runtime error: index out of range [1] with length 1 in main.culprit, main.go:14",
	},
	step.AssemblyScript: {
		"function process", "function culprit(v: StaticArray<f32>): f32 { return v[v.length]; }\n\n",
		"return new Outputs()", "culprit(y);\n  return new Outputs()", "Index out of range in ~lib/staticarray.ts:",
	},
}

// TestATrapNamesItsFunction traps in a step of each language, as it is built.
func TestATrapNamesItsFunction(t *testing.T) {
	for _, language := range step.Languages() {
		t.Run(language.String(), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "double")
			if err := step.New(dir, "double", language); err != nil {
				t.Fatal(err)
			}
			c, path := culprits[language], filepath.Join(dir, language.Source())
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			source := strings.Replace(string(text), c.before, c.function+c.before, 1)
			source = strings.Replace(source, c.call, c.instead, 1)
			if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := step.Build(t.Context(), dir, filepath.Join(dir, step.ModuleFile), toolchain()); err != nil {
				t.Fatal(err)
			}
			in := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 1}, Data: make([]byte, 4)}
			_, err = loaded(t, dir, nil).Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{in}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
