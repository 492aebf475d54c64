package compiled

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func newCache(t *testing.T, bytes int64) *Cache {
	return &Cache{
		Dir: filepath.Join(t.TempDir(), "compiled"), Logger: slog.New(slog.DiscardHandler),
		Kinds: []Kind{{Name: "cuda", Bytes: bytes, Sealed: true}, {Name: "vulkan", Bytes: bytes}},
	}
}

func version(name string, number int64) *edgewise.Version {
	return &edgewise.Version{ID: edgewise.ModelID{Name: name, Version: number}, Digest: edgewise.Digest(name)}
}

func put(t *testing.T, f *Folder, name string, size int) string {
	t.Helper()
	path := filepath.Join(f.Path(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

var (
	driver1 = Maker{"cuda", "GPU-1 driver 1"}
	driver2 = Maker{"cuda", "GPU-1 driver 2"}
	shaders = Maker{"vulkan", "device driver"}
)

func TestWhatWasSealedIsUsedAgain(t *testing.T) {
	c := newCache(t, 1<<20)
	f := c.Open(version("cat", 1), driver1)
	engine := put(t, f, "x.engine", 1000)
	put(t, f, "a/b/kernel", 10)
	f.Seal()
	if again := c.Open(version("cat", 1), driver1); again.Path() != f.Path() || !there(engine) {
		t.Error("it is compiled again")
	}
	for what, other := range map[string]*Folder{
		"another version": c.Open(version("cat", 2), driver1), "another driver": c.Open(version("cat", 1), driver2),
		"another content": c.Open(&edgewise.Version{ID: edgewise.ModelID{Name: "cat", Version: 1}, Digest: "new"}, driver1),
	} {
		if other.Path() == f.Path() {
			t.Errorf("%s has the same folder", what)
		}
	}
	if c.Open(version("cat", 1), Maker{"unknown", ""}) != nil {
		t.Error("a kind that there is none of has a folder")
	}
}

func TestAFolderThatIsNotAsItWasSealedIsEmptied(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, f *Folder, engine string) error{
		"another byte": func(_ *testing.T, _ *Folder, engine string) error {
			info, err := os.Stat(engine)
			if err != nil {
				return err
			}
			content := make([]byte, info.Size())
			content[500] = 1
			if err := os.WriteFile(engine, content, 0o600); err != nil {
				return err
			}
			return os.Chtimes(engine, time.Now(), info.ModTime()) // a disk that forgets does not tell
		},
		"cut off":     func(_ *testing.T, _ *Folder, engine string) error { return os.Truncate(engine, 10) },
		"a file less": func(_ *testing.T, _ *Folder, engine string) error { return os.Remove(engine) },
		"a file more": func(t *testing.T, f *Folder, _ string) error { put(t, f, "other", 1); return nil },
		"no seal":     func(_ *testing.T, f *Folder, _ string) error { return os.Remove(filepath.Join(f.dir, sealName)) },
		"a bad seal":  func(_ *testing.T, f *Folder, _ string) error { return os.Truncate(filepath.Join(f.dir, sealName), 9) },
		"a large seal": func(_ *testing.T, f *Folder, _ string) error {
			return os.Truncate(filepath.Join(f.dir, sealName), 2*maxSeal)
		},
		"a link": func(_ *testing.T, f *Folder, _ string) error {
			return os.Symlink("/etc/passwd", filepath.Join(f.Path(), "l"))
		},
		"a pipe": func(_ *testing.T, f *Folder, _ string) error {
			return syscall.Mkfifo(filepath.Join(f.Path(), "p"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, 1<<20)
			f := c.Open(version("cat", 1), driver1)
			engine := put(t, f, "x.engine", 1000)
			put(t, f, "x.profile", 10)
			f.Seal()
			if err := damage(t, f, engine); err != nil {
				t.Fatal(err)
			}
			c.Open(version("cat", 1), driver1)
			if entries, err := os.ReadDir(f.Path()); err != nil || len(entries) > 0 {
				t.Errorf("%v is left, %v", entries, err)
			}
		})
	}
}

func TestShadersAreLeftAsTheirDriverLeftThem(t *testing.T) {
	c := newCache(t, 1<<20)
	f := c.Open(version("cat", 1), shaders)
	path := put(t, f, "index", 1000)
	f.Seal()
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if c.Open(version("cat", 1), shaders); !there(path) || there(filepath.Join(f.dir, sealName)) {
		t.Error("they are gone, or sealed")
	}
}

func TestWhatCannotBeSealedIsNotKept(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, f *Folder){
		"too large":      func(t *testing.T, f *Folder) { put(t, f, "x", 1<<18+1) },
		"too many files": func(t *testing.T, f *Folder) { many(t, f) },
		"a link":         func(_ *testing.T, f *Folder) { _ = os.Symlink("/etc/passwd", filepath.Join(f.Path(), "l")) },
		"no room for the seal": func(t *testing.T, f *Folder) {
			put(t, f, "x", 10)
			_ = os.MkdirAll(filepath.Join(f.dir, sealName+".new", "x"), 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, 1<<20)
			f := c.Open(version("cat", 1), driver1)
			spoil(t, f)
			f.Seal()
			if entries, _ := os.ReadDir(f.Path()); len(entries) > 0 || there(filepath.Join(f.dir, sealName)) {
				t.Errorf("%d files are kept", len(entries))
			}
		})
	}
}

func many(t *testing.T, f *Folder) {
	for i := range maxFiles + 1 {
		put(t, f, "f"+strings.Repeat("x", i%100)+string(rune('a'+i%26))+strings.Repeat("y", i/100), 0)
	}
}

func TestWhatWasUsedLongestAgoGivesWay(t *testing.T) {
	c := newCache(t, 1000)
	fill := func(name string, age time.Duration) string {
		f := c.Open(version(name, 1), shaders)
		put(t, f, "x", 250)
		if err := os.Chtimes(f.dir, time.Now(), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		return f.dir
	}
	old, older, young, fourth := fill("old", time.Hour), fill("older", 2*time.Hour), fill("young", 0), fill("fourth", time.Minute)
	engines := c.Open(version("old", 1), driver1) // of another kind, with a bound of its own
	put(t, engines, "x", 250)
	engines.Seal()
	put(t, c.Open(version("old", 1), shaders), "y", 1) // too large, and used now
	c.Sweep(func() []*edgewise.Version {
		return []*edgewise.Version{version("old", 1), version("older", 1), version("young", 1), version("fourth", 1)}
	})
	if there(filepath.Join(old, filesName, "x")) {
		t.Error("a folder that holds more than its part is left as it is")
	}
	put(t, c.Open(version("old", 1), shaders), "x", 250)
	put(t, c.Open(version("fifth", 1), shaders), "x", 250)
	c.Open(version("fifth", 1), shaders)
	for path, want := range map[string]bool{old: true, older: false, young: true, fourth: true, engines.dir: true} {
		if there(path) != want {
			t.Errorf("%s is there: %v, want %v", path, there(path), want)
		}
	}
	if there(filepath.Dir(older)) {
		t.Error("the folder of a version without any is left")
	}
}

func TestWhatBelongsToADriverOrAVersionThatIsGoneIsRemoved(t *testing.T) {
	c := newCache(t, 1<<20)
	first, second := c.Open(version("cat", 1), driver1), c.Open(version("cat", 1), driver2)
	other, dog := c.Open(version("cat", 1), shaders), c.Open(version("dog", 1), driver2)
	c.Prune(nil) // nothing was found: it may be there again after the next start
	if !there(first.dir) || !there(other.dir) {
		t.Error("without any device everything was removed")
	}
	c.Prune([]Maker{driver2})
	for path, want := range map[string]bool{first.dir: false, second.dir: true, other.dir: true, dog.dir: true} {
		if there(path) != want {
			t.Errorf("%s is there: %v, want %v", path, there(path), want)
		}
	}
	c.Sweep(func() []*edgewise.Version { return []*edgewise.Version{version("cat", 1)} })
	if there(filepath.Dir(dog.dir)) || !there(second.dir) {
		t.Error("a version that is not stored, and one that is")
	}
}

func TestAFolderThatCannotBeMadeKeepsNothing(t *testing.T) {
	c := newCache(t, 1<<20)
	if err := os.WriteFile(c.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c.Open(version("cat", 1), driver1) != nil {
		t.Error("there is a folder")
	}
	c.Sweep(func() []*edgewise.Version { t.Error("it asks what is stored"); return nil })
	c.Prune([]Maker{driver1})
}

func TestClearTellsWhetherThereWasAnything(t *testing.T) {
	f := newCache(t, 1<<20).Open(version("cat", 1), driver1)
	if f.Clear() {
		t.Error("there was nothing")
	}
	path := put(t, f, "a/x", 10)
	if !f.Clear() || there(path) || !there(f.Path()) {
		t.Error("it is left, or its folder is gone")
	}
}

// TestWhatChangedAfterTheSealIsSealedOnceMore is what a version's next process does.
func TestWhatChangedAfterTheSealIsSealedOnceMore(t *testing.T) {
	c := newCache(t, 1<<20)
	f := c.Open(version("cat", 1), driver1)
	put(t, f, "x", 10)
	f.Seal()
	path := put(t, f, "x", 20)
	f.Seal()
	if c.Open(version("cat", 1), driver1); !there(path) {
		t.Error("it is compiled again")
	}
}
