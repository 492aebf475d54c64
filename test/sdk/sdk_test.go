package sdk

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/step"
)

// patience is for a busy machine under the race detector. The box's own limits are tested where they are made.
const patience = 2 * time.Minute

// modules is where make puts what npm installs: node_modules with the AssemblyScript compiler.
const modules = "../../.cache/assemblyscript"

// toolchain has a relative path, as make gives it.
func toolchain() step.Toolchain { return step.Toolchain{Modules: modules} }

// modulesOf are the modules that were built, by their sources: several tests use the same steps of the gallery.
var modulesOf sync.Map // of functions that return a module

// built builds the step in source, unless a test has built it before, into a folder of its own, and returns the folder.
// A compiler that is missing fails the test: "make toolchains" installs it.
func built(t testing.TB, source string) string {
	t.Helper()
	once, _ := modulesOf.LoadOrStore(source, sync.OnceValues(func() ([]byte, error) {
		path := filepath.Join(t.TempDir(), step.ModuleFile)
		if err := step.Build(t.Context(), source, path, toolchain()); err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	}))
	module, err := once.(func() ([]byte, error))()
	if err != nil {
		t.Fatalf("%v\n(\"make toolchains\" installs the compilers)", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, step.ModuleFile), module, 0o644); err != nil {
		t.Fatal(err)
	}
	if configuration, err := os.ReadFile(filepath.Join(source, "config.pbtxt")); err == nil {
		if err := os.WriteFile(filepath.Join(dir, "config.pbtxt"), configuration, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loaded loads the module in dir until the test ends. models are those that it may call; nil: those of its cases.
func loaded(t testing.TB, dir string, models edgewise.Inferer) *step.Loaded {
	t.Helper()
	l, err := step.Load(t.Context(), dir, step.Limits{Infer: models, Start: patience, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// passes runs the cases in folder.
func passes(t *testing.T, l *step.Loaded, folder string) {
	t.Helper()
	cases, err := step.Cases(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			outcome, err := l.Check(t.Context(), &c)
			if err != nil {
				t.Fatal(err)
			}
			if outcome.Problem != "" {
				t.Errorf("%s\nlog: %q", outcome.Problem, outcome.Log)
			}
		})
	}
}

func TestEveryExampleIsBuiltFromSourceAndAnswersAsItsCasesSay(t *testing.T) {
	for _, language := range step.Languages() {
		t.Run(language.String(), func(t *testing.T) {
			source := filepath.Join("../../sdk", language.String(), "example")
			passes(t, loaded(t, built(t, source), nil), filepath.Join(source, "golden"))
		})
	}
}

func TestANewStepBuildsInItsFolderAndPassesItsCases(t *testing.T) {
	for _, language := range step.Languages() {
		t.Run(language.String(), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "double")
			if err := step.New(dir, "double", language); err != nil {
				t.Fatal(err)
			}
			if err := step.Build(t.Context(), dir, filepath.Join(dir, step.ModuleFile), toolchain()); err != nil {
				t.Fatal(err)
			}
			passes(t, loaded(t, dir, nil), filepath.Join(dir, "golden"))
			if err := step.New(dir, "double", language); err == nil {
				t.Error("a second step was made in the same folder")
			}
			if _, err := os.Stat(filepath.Join(dir, "edgewise", "example")); err == nil {
				t.Error("the SDK's copy holds the worked example")
			}
		})
	}
}

func TestEverySDKSpeaksTheWholeABI(t *testing.T) {
	for _, language := range step.Languages() {
		t.Run(language.String(), func(t *testing.T) {
			dir := built(t, filepath.Join("../../sdk", language.String(), "conformance"))
			configuration, err := os.ReadFile("../../sdk/conformance/config.pbtxt")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "config.pbtxt"), configuration, 0o644); err != nil {
				t.Fatal(err)
			}
			passes(t, loaded(t, dir, nil), "../../sdk/conformance/golden")
		})
	}
}
