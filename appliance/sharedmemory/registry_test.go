package sharedmemory

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// shared is a registry over a folder of its own.
func shared(t *testing.T) (r *Registry, make func(key string, content []byte)) {
	t.Helper()
	r = New(true)
	r.folder = t.TempDir()
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		for _, link := range descriptors(t) {
			if strings.HasPrefix(link, r.folder) {
				t.Errorf("%s is still open", link)
			}
		}
	})
	return r, func(key string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.folder, key), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// descriptors returns what the process has open.
func descriptors(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var links []string
	for _, e := range entries {
		if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			links = append(links, link)
		}
	}
	return links
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, name string, err error, kind edgewise.Kind, text string) {
	t.Helper()
	if err == nil || edgewise.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want %v: ...%s...", name, err, kind, text)
	}
}

func part(name, key string, offset, size int64) edgewise.Region {
	return edgewise.Region{Name: name, Key: key, Offset: offset, Size: size}
}

func TestTensorsCrossInBothDirections(t *testing.T) {
	r, object := shared(t)
	object("k", []byte("0123456789"))
	must(t, r.Register(part("r", "/k", 2, 6)))
	w, err := r.Open("r", 1, 3)
	must(t, err)
	defer w.Close()
	got := make([]byte, w.Size())
	must(t, w.Read(got))
	if string(got) != "345" {
		t.Errorf("read %q", got)
	}
	must(t, w.Write([]byte("ab")))
	wantError(t, "too much", w.Write([]byte("abcd")), edgewise.Invalid, "4 bytes do not fit into 3")
	if data, _ := os.ReadFile(filepath.Join(r.folder, "k")); string(data) != "012ab56789" {
		t.Errorf("the object holds %q", data)
	}
}

func TestBadRegionsAreRefused(t *testing.T) {
	r, object := shared(t)
	object("k", make([]byte, 100))
	must(t, os.Symlink(filepath.Join(r.folder, "k"), filepath.Join(r.folder, "link")))
	must(t, os.Mkdir(filepath.Join(r.folder, "dir"), 0o755))
	must(t, r.Register(part("taken", "k", 0, 100)))
	tests := []struct {
		name   string
		region edgewise.Region
		kind   edgewise.Kind
		text   string
	}{
		{"no name", part("", "k", 0, 1), edgewise.Invalid, "want a name of 1 to 255 bytes, got 0"},
		{"long name", part(strings.Repeat("n", 256), "k", 0, 1), edgewise.Invalid, "want a name of 1 to 255 bytes, got 256"},
		{"no key", part("r", "", 0, 1), edgewise.Invalid, "cannot register shared memory region 'r' - invalid shm key '': " +
			"want the name of a POSIX shared memory object"},
		{"slash alone", part("r", "/", 0, 1), edgewise.Invalid, "invalid shm key '/'"},
		{"parent", part("r", "..", 0, 1), edgewise.Invalid, "invalid shm key '..'"},
		{"path", part("r", "../etc/passwd", 0, 1), edgewise.Invalid, "invalid shm key '../etc/passwd'"},
		{"absolute path", part("r", "//etc/passwd", 0, 1), edgewise.Invalid, "invalid shm key '//etc/passwd'"},
		{"NUL", part("r", "k\x00", 0, 1), edgewise.Invalid, "invalid shm key 'k\x00'"},
		{"long key", part("r", strings.Repeat("k", 256), 0, 1), edgewise.Invalid, "invalid shm key"},
		{"reserved", part("r", "/triton_python_backend_shm_region_1", 0, 1), edgewise.Invalid, "reserved prefix"},
		{
			"reserved behind slashes", part("r", "///triton_python_backend_shm_region_1", 0, 1), edgewise.Invalid,
			"reserved prefix",
		},
		{"slashes alone", part("r", "///", 0, 1), edgewise.Invalid, "invalid shm key '///'"},
		{"nothing there", part("r", "nobody", 0, 1), edgewise.Invalid, "Unable to open shared memory region: 'nobody': no " +
			"such file"},
		{"link", part("r", "link", 0, 1), edgewise.Invalid, "Unable to open shared memory region: 'link'"},
		{"folder", part("r", "dir", 0, 1), edgewise.Invalid, "Unable to open shared memory region: 'dir'"},
		{"empty", part("r", "k", 0, 0), edgewise.Invalid, "failed to register shared memory region 'r': invalid args"},
		{"negative offset", part("r", "k", -1, 1), edgewise.Invalid, "offset -1"},
		{"overflow", part("r", "k", 1<<62, 1<<63-1), edgewise.Invalid, "at least one byte"},
		{"past the end", part("r", "k", 1, 100), edgewise.Invalid, "do not fit into the 100 bytes of 'k'"},
		{"twice", part("taken", "k", 0, 1), edgewise.Exists, "shared memory region 'taken' already in manager"},
	}
	for _, test := range tests {
		wantError(t, test.name, r.Register(test.region), test.kind, test.text)
	}
	if list, err := r.Status(""); err != nil || len(list) != 1 {
		t.Errorf("regions %v, error %v", list, err)
	}
}

func TestBadWindowsAreRefused(t *testing.T) {
	r, object := shared(t)
	object("k", make([]byte, 100))
	must(t, r.Register(part("r", "k", 10, 50)))
	tests := []struct {
		region       string
		offset, size int64
		kind         edgewise.Kind
		text         string
	}{
		{"nobody", 0, 1, edgewise.NotFound, "Unable to find system shared memory region: 'nobody'"},
		{"r", -1, 1, edgewise.Invalid, "Invalid offset for shared memory region: 'r': -1, of 50 bytes"},
		{"r", 51, 0, edgewise.Invalid, "Invalid offset for shared memory region: 'r': 51, of 50 bytes"},
		{"r", 1, 50, edgewise.Invalid, "Invalid offset + byte size for shared memory region: 'r': 1 + 50, of 50 bytes"},
		{"r", 1, -1, edgewise.Invalid, "Invalid offset + byte size"},
		{"r", 50, 1, edgewise.Invalid, "Invalid offset for shared memory region: 'r': 50, of 50 bytes"},
		{"r", 32, 1<<63 - 1, edgewise.Invalid, "Integer overflow detected: byte_size (9223372036854775807) + offset (32) " +
			"exceeds maximum value"},
	}
	for _, test := range tests {
		_, err := r.Open(test.region, test.offset, test.size)
		wantError(t, test.region, err, test.kind, test.text)
	}
}

func TestARegionInUseStaysUntilItsRequestsEnd(t *testing.T) {
	for _, name := range []string{"r", ""} {
		t.Run("unregister "+name, func(t *testing.T) {
			r, object := shared(t)
			object("k", []byte("still here"))
			must(t, r.Register(part("r", "k", 0, 10)))
			first, err := r.Open("r", 0, 10)
			must(t, err)
			must(t, r.Unregister(name))
			must(t, r.Unregister(name)) // once is enough: the region is not taken from its requests
			second, err := r.Open("r", 0, 10)
			must(t, err)
			first.Close()
			if list, err := r.Status(""); err != nil || len(list) != 1 {
				t.Errorf("%d regions, error %v, while a request uses one", len(list), err)
			}
			wantError(t, "register", r.Register(part("r", "k", 0, 10)), edgewise.Exists, "'r' already in manager")
			got := make([]byte, 10)
			must(t, second.Read(got))
			if string(got) != "still here" {
				t.Errorf("read %q", got)
			}
			second.Close() // the clean-up finds nothing open
			_, err = r.Status("r")
			wantError(t, "status", err, edgewise.NotFound, "Unable to find system shared memory region: 'r'")
			must(t, r.Unregister("r")) // an unknown name is no error
			must(t, r.Register(part("r", "k", 0, 10)))
		})
	}
}

func TestAnObjectThatShrinksIsAnErrorAndNoCrash(t *testing.T) {
	r, object := shared(t)
	object("k", make([]byte, 1<<20))
	must(t, r.Register(part("r", "k", 0, 1<<20)))
	w, err := r.Open("r", 0, 1<<20)
	must(t, err)
	defer w.Close()
	must(t, os.Truncate(filepath.Join(r.folder, "k"), 5))
	wantError(t, "read", w.Read(make([]byte, 1<<20)), edgewise.Invalid, "smaller than the region")
	wantError(t, "write", w.Write(make([]byte, 1<<20)), edgewise.Invalid, "smaller than the region")
	if info, err := os.Stat(filepath.Join(r.folder, "k")); err != nil || info.Size() != 5 {
		t.Errorf("the object has %d bytes: it was grown again", info.Size())
	}
}

func TestRegionsAreBounded(t *testing.T) {
	r, object := shared(t)
	object("k", []byte("x"))
	for i := range MaxRegions {
		must(t, r.Register(part(fmt.Sprint(i), "k", 0, 1)))
	}
	wantError(t, "one more", r.Register(part("more", "k", 0, 1)), edgewise.Exhausted, "1024 regions are registered")
	must(t, r.Unregister(""))
	if list, err := r.Status(""); err != nil || len(list) != 0 {
		t.Errorf("%d regions left, error %v", len(list), err)
	}
	must(t, r.Register(part("more", "k", 0, 1)))
}

func TestWithoutLeaveNothingIsShared(t *testing.T) {
	r := New(false)
	const text = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
	wantError(t, "register", r.Register(part("r", "k", 0, 1)), edgewise.Unsupported, text)
	wantError(t, "unregister", r.Unregister("r"), edgewise.Unsupported, text)
	if list, err := r.Status(""); err != nil || len(list) != 0 {
		t.Errorf("status %v, error %v", list, err)
	}
	must(t, r.Close())
}

func TestUseWhileOthersRegisterAndUnregister(t *testing.T) {
	r, object := shared(t)
	want := bytes.Repeat([]byte("edge"), 1000)
	object("k", want)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				_ = r.Register(part("r", "k", 0, 4000))
				if w, err := r.Open("r", 0, 4000); err == nil {
					got := make([]byte, 4000)
					if err := w.Read(got); err != nil || !bytes.Equal(got, want) {
						t.Errorf("read %v", err)
					}
					w.Close()
				}
				_ = r.Unregister("r")
			}
		})
	}
	all.Wait()
}
