package wasm

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/hostile"
)

// bombMemory is what this process may take to read any module, checked or compiled, beside what the module itself
// and its rewritten form take.
const bombMemory = 512 << 20

// TestModulesThatAreHardToCompileCostNothing meets modules whose products of sizes are large. Each is accepted, or
// refused with the limit that it crosses; this process stays small; a step beside them goes on; and what is there
// already is never compiled again.
func TestModulesThatAreHardToCompileCostNothing(t *testing.T) {
	good := load(t, Config{}, model(), identity)
	for _, bomb := range hostile.Bombs() {
		t.Run(bomb.Name, func(t *testing.T) {
			dir, cacheDir := folder(t, bomb.Make()), filepath.Join(t.TempDir(), "cache")
			before := taken()
			_, err := New(Config{
				CacheDir: cacheDir, CompileTimeout: time.Second, CompileMemory: 128 << 20,
				SetupTimeout: time.Minute,
			}).Inspect(t.Context(), dir, model())
			if err != nil && !refusedForSize(err) {
				t.Errorf("it is refused with %v", err)
			}
			if grown := taken() - before; grown > bombMemory {
				t.Errorf("this process has grown by %d MiB", grown>>20)
			}
			again := New(Config{CacheDir: cacheDir, CompileTimeout: time.Nanosecond, SetupTimeout: time.Minute})
			version := &edgewise.Version{ID: edgewise.ModelID{Name: model().Name, Version: 1}, Model: model()}
			instance, loading := again.Load(t.Context(), version, dir, edgewise.Device{})
			if loading == nil {
				_ = instance.Close()
			}
			if (err == nil) != (loading == nil) || err != nil && loading != nil && err.Error() != loading.Error() {
				t.Errorf("at the next start: %v, at its upload: %v", loading, err)
			}
			result, err := good.Run(t.Context(), floats(3), []string{"x"}, edgewise.RunOptions{})
			if err != nil {
				t.Fatalf("the step beside it: %v", err)
			}
			result.Free()
		})
	}
}

// refusedForSize tells whether an error names a limit of a module, or says that its set-up failed, which is after
// compiling.
func refusedForSize(err error) bool {
	switch edgewise.KindOf(err) {
	case edgewise.TooLarge:
		return strings.Contains(err.Error(), "at most ") || strings.Contains(err.Error(), "to compile")
	case edgewise.Guest:
		return strings.Contains(err.Error(), "step: start: trap")
	}
	return false
}

// taken is the memory that this process has taken for Go.
func taken() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// TestACompilerEndsAtItsLimits reaches each limit with a module that is compiled otherwise.
func TestACompilerEndsAtItsLimits(t *testing.T) {
	module := folder(t, bomb(t, "straight-code"))
	for _, test := range []struct {
		name, want string
		config     Config
	}{
		{"time", " bytes takes more than 10ms to compile", Config{CompileTimeout: 10 * time.Millisecond}},
		{"memory", " bytes takes more than 32 MiB of memory to compile", Config{CompileMemory: 32 << 20, CompileTimeout: 10 * time.Minute}},
	} {
		_, err := New(test.config).Inspect(t.Context(), module, model())
		if err == nil || edgewise.KindOf(err) != edgewise.TooLarge ||
			!strings.HasPrefix(err.Error(), `model "step": its module of `) || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
	}
}

func bomb(t *testing.T, name string) []byte {
	t.Helper()
	for _, b := range hostile.Bombs() {
		if b.Name == name {
			return b.Make()
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// TestARefusalIsKeptUntilTheNextUpload loads a module that a compiler has refused: it is not compiled again, but an
// upload tries it again.
func TestARefusalIsKeptUntilTheNextUpload(t *testing.T) {
	module, dir := folder(t, assemble(t, identity)), filepath.Join(t.TempDir(), "cache")
	strict, fair := New(Config{CacheDir: dir, CompileTimeout: time.Nanosecond}), New(Config{CacheDir: dir})
	version := &edgewise.Version{ID: edgewise.ModelID{Name: "step", Version: 1}, Model: model()}
	_, err := strict.Inspect(t.Context(), module, model())
	if err == nil {
		t.Fatal("it was compiled within a nanosecond")
	}
	if _, again := fair.Load(t.Context(), version, module, edgewise.Device{}); again == nil || again.Error() != err.Error() {
		t.Errorf("it is loaded after its refusal: %v", again)
	}
	if _, err := fair.Inspect(t.Context(), module, model()); err != nil {
		t.Errorf("the next upload: %v", err)
	}
	instance, err := fair.Load(t.Context(), version, module, edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	_ = instance.Close()
}

// TestForeignMachineCodeIsNotRead puts an entry there that another box has made, and one under the name of another
// module.
func TestForeignMachineCodeIsNotRead(t *testing.T) {
	module, dir := folder(t, assemble(t, identity)), filepath.Join(t.TempDir(), "cache")
	if _, err := New(Config{CacheDir: dir}).Inspect(t.Context(), module, model()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	entry := filepath.Join(dir, entries[0].Name())
	other := filepath.Join(dir, strings.Repeat("0", 64)+"-"+strings.Repeat("0", 32))
	if err := os.CopyFS(other, os.DirFS(entry)); err != nil {
		t.Fatal(err)
	}
	moved := &cache{dir: dir, bytes: 1 << 30}
	if found, _ := moved.find(filepath.Base(other)); found != "" {
		t.Error("an entry of another module is trusted")
	}
	if found, _ := moved.find(filepath.Base(entry)); found == "" {
		t.Error("the entry itself is not trusted")
	}
	if err := os.Remove(dir + keySuffix); err != nil {
		t.Fatal(err)
	}
	if found, _ := (&cache{dir: dir, bytes: 1 << 30}).find(filepath.Base(entry)); found != "" {
		t.Error("an entry that was sealed with another key is trusted")
	}
}

// TestAFolderThatOthersMayWriteIsNotUsed compiles all the same.
func TestAFolderThatOthersMayWriteIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{CacheDir: dir}).Inspect(t.Context(), folder(t, assemble(t, identity)), model()); err != nil {
		t.Error(err)
	}
	if left := kept(t, dir); len(left) != 0 {
		t.Errorf("it holds %v", left)
	}
}

// TestSweepRemovesWhatIsNotStored keeps what is stored, and what was used a moment ago.
func TestSweepRemovesWhatIsNotStored(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	b := New(Config{CacheDir: dir})
	if err := b.Sweep(nil); err != nil {
		t.Errorf("before there is a cache: %v", err)
	}
	for _, text := range []string{identity, identity + "(func)"} {
		if _, err := b.Inspect(t.Context(), folder(t, assemble(t, text)), model()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, stagePrefix+"1"), 0o700); err != nil {
		t.Fatal(err)
	}
	list, err := b.cache.entries()
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	wanted := ""
	for _, e := range list {
		if !e.staged() {
			wanted = filepath.Base(e.dir)
		}
	}
	stored := func(d edgewise.Digest) bool { return strings.HasPrefix(wanted, string(d)+"-") }
	if err := b.Sweep(stored); err != nil {
		t.Error(err)
	}
	if list, _ := b.cache.entries(); len(list) != 3 {
		t.Errorf("what was used a moment ago was removed: %v", list)
	}
	if err := b.cache.sweep(time.Now().Add(2*unused), stored); err != nil {
		t.Error(err)
	}
	if list, _ := b.cache.entries(); len(list) != 1 || filepath.Base(list[0].dir) != wanted {
		t.Errorf("%v is left, of which %s is stored", list, wanted)
	}
}
