package step

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fails(t *testing.T, err error, kind edgewise.Kind, message string) {
	t.Helper()
	if err == nil || edgewise.KindOf(err) != kind || !strings.Contains(err.Error(), message) {
		t.Errorf("%v: want a %v error with %q", err, kind, message)
	}
}

func TestTheSourceFileTellsTheLanguage(t *testing.T) {
	for _, l := range Languages() {
		dir := t.TempDir()
		write(t, filepath.Join(dir, l.Source()), "")
		if got, err := LanguageOf(dir); err != nil || got != l {
			t.Errorf("%s: %v, %v", l.Source(), got, err)
		}
		if got, err := ParseLanguage(l.String()); err != nil || got != l {
			t.Errorf("%v: %v, %v", l, got, err)
		}
	}
	dir := t.TempDir()
	_, err := LanguageOf(dir)
	fails(t, err, edgewise.Invalid, "holds 0 of the files step.c, step.rs, main.go, step.ts")
	write(t, filepath.Join(dir, "step.c"), "")
	write(t, filepath.Join(dir, "step.rs"), "")
	_, err = LanguageOf(dir)
	fails(t, err, edgewise.Invalid, "holds 2 of the files")
	_, err = LanguageOf(filepath.Join(dir, "nothing"))
	fails(t, err, edgewise.NotFound, "is not a folder")
	_, err = ParseLanguage("perl")
	fails(t, err, edgewise.Invalid, `language "perl": want one of c, rust, go, assemblyscript`)
}

func TestNewMakesWhatItsLanguageNeeds(t *testing.T) {
	want := map[Language][]string{
		C:              {"step.c", "edgewise/edgewise.h", "edgewise/pure.h", "golden/factor.json"},
		Rust:           {"step.rs", "Cargo.toml", "edgewise/Cargo.toml", "edgewise/src/lib.rs"},
		Go:             {"main.go", "go.mod", "edgewise/go.mod", "edgewise/abi.go"},
		AssemblyScript: {"step.ts", "package.json", "package-lock.json", "edgewise/index.ts"},
	}
	for _, l := range Languages() {
		dir := filepath.Join(t.TempDir(), "cats-2")
		if err := New(dir, "cats-2", l); err != nil {
			t.Fatal(err)
		}
		for _, name := range want[l] {
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				t.Errorf("%v: %v", l, err)
			}
		}
		source, err := os.ReadFile(filepath.Join(dir, l.Source()))
		if err != nil || !strings.Contains(string(source), "cats-2") || strings.Contains(string(source), placeholder) {
			t.Errorf("%v: the source does not bear the step's name: %v", l, err)
		}
		for _, name := range []string{"example", "conformance", "tensor_test.go"} {
			if _, err := os.Stat(filepath.Join(dir, sdkFolder, name)); err == nil {
				t.Errorf("%v: the SDK's copy holds %s", l, name)
			}
		}
	}
}

func TestNewChangesNothingThatIsThere(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "step.c"), "mine")
	fails(t, New(dir, "x", C), edgewise.Exists, "is there already, and not empty")
	if data, err := os.ReadFile(filepath.Join(dir, "step.c")); err != nil || string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
	fails(t, New(t.TempDir(), "../x", C), edgewise.Invalid, "model name")
}

func TestCasesSayWhatIsWrongWithThem(t *testing.T) {
	for name, tt := range map[string]struct{ text, message string }{
		"no JSON":     {"{", "EOF"},
		"unknown key": {`{"respones": {}}`, `unknown field "respones"`},
		"both":        {`{"response": {"outputs": []}, "error": "x"}`, `want one of "response" and "error"`},
		"no folder":   {"", "holds no case"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, kind := t.TempDir(), edgewise.NotFound
			if tt.text != "" {
				kind = edgewise.Invalid
				write(t, filepath.Join(dir, "a.json"), tt.text)
			}
			_, err := Cases(dir)
			fails(t, err, kind, tt.message)
		})
	}
}

func TestLoadAndBuildSayWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(t.Context(), dir, Limits{})
	fails(t, err, edgewise.NotFound, "model.wasm is not there: build the step first")
	write(t, filepath.Join(dir, ModuleFile), "not a module")
	_, err = Load(t.Context(), dir, Limits{})
	if kind := edgewise.KindOf(err); err == nil || kind != edgewise.Invalid {
		t.Errorf("%v (%v)", err, kind)
	}
	fails(t, Build(t.Context(), dir, filepath.Join(dir, ModuleFile), Toolchain{}), edgewise.Invalid, "holds 0 of the files")
	t.Setenv("PATH", t.TempDir())
	for l, message := range map[Language]string{C: "apt-get install clang-19", Go: "go.dev", AssemblyScript: "npm install"} {
		source := t.TempDir()
		write(t, filepath.Join(source, l.Source()), "")
		fails(t, Build(t.Context(), source, filepath.Join(source, ModuleFile), Toolchain{}), edgewise.NotFound, message)
	}
}

func TestWhatACompilerSaysIsTheMessage(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "step.c"), "int process(void) { return nonsense; }")
	target := filepath.Join(dir, ModuleFile)
	write(t, target, "the module before")
	fails(t, Build(t.Context(), dir, target, Toolchain{}), edgewise.Invalid, "nonsense")
	if data, err := os.ReadFile(target); err != nil || string(data) != "the module before" {
		t.Errorf("a failed build leaves %q, %v", data, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fails(t, Build(ctx, dir, target, Toolchain{}), edgewise.Canceled, "canceled")
}
