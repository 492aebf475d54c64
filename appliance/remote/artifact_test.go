package remote

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// pulls is the folder of what is being fetched.
func (s *fakeStore) pulls() string { return filepath.Join(s.config.DataDir, pullsFolder) }

// pull pulls the files as an artifact, with the program of the tests.
func (s *fakeStore) pull(most limits) (folder, pinned string, err error) {
	s.Helper()
	folder = filepath.Join(s.TempDir(), "version")
	tree := s.open()
	tree.url = "oci://registry.example/box/cat:3"
	tree.folder = filepath.Join(s.pulls(), "0")
	pinned, err = tree.pull(s.Context(), most, folder, func(int64, int64) {})
	return folder, pinned, err
}

// tree reads the files below a folder.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var enough = limits{bytes: 1 << 20, files: 100}

func TestAPullLaysTheFilesOfAVersionIntoAFolder(t *testing.T) {
	s := newStore(t, "cat/config.pbtxt", "cat/1/model.onnx", "cat/1/labels/de.txt")
	folder, pinned, err := s.pull(enough)
	s.must(err)
	if pinned != "oci://registry.example/box/cat@"+fakeDigest {
		t.Errorf("it is %s", pinned)
	}
	want := map[string]string{
		"config.pbtxt": "content of cat/config.pbtxt", "model.onnx": "content of cat/1/model.onnx",
		"labels/de.txt": "content of cat/1/labels/de.txt",
	}
	if got := tree(t, folder); !maps.Equal(got, want) {
		t.Errorf("it has %v", got)
	}
	if left, _ := os.ReadDir(s.pulls()); len(left) > 0 {
		t.Errorf("it has left %v", left)
	}
}

func TestAPullThatFailsLeavesWhatALaterOneGoesOnFrom(t *testing.T) {
	s := newStore(t, "cat/1/model.onnx")
	for _, c := range []struct {
		order  string
		limits limits
		kind   edgewise.Kind
		kept   bool
	}{
		{"down", enough, edgewise.Unavailable, true},
		{"down get", enough, edgewise.Unavailable, true},
		{"die get", enough, edgewise.Unavailable, true},
		{"denied", enough, edgewise.Denied, false},
		{"", limits{bytes: 3, files: 10}, edgewise.TooLarge, false},
		{"", limits{bytes: 1 << 20, files: 0}, edgewise.TooLarge, false},
	} {
		s.order(c.order)
		folder, _, err := s.pull(c.limits)
		s.wantError(err, c.kind, "registry.example/box/cat:3")
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%q: the folder is there", c.order)
		}
		if left, _ := os.ReadDir(s.pulls()); (len(left) > 0) != c.kept {
			t.Errorf("%q: it has left %v", c.order, left)
		}
	}
}

func TestAReferenceKeepsItsNameWithADigest(t *testing.T) {
	for reference, want := range map[string]string{
		"oci://localhost:5000/a/b:3": "oci://localhost:5000/a/b@D", "oci://localhost:5000/a/b": "oci://localhost:5000/a/b@D",
		"registry.example/b@sha256:1": "registry.example/b@D", "registry.example/b:1@sha256:1": "registry.example/b@D",
	} {
		if got := pinned(reference, "D"); got != want {
			t.Errorf("%s: %s, want %s", reference, got, want)
		}
	}
}

// entry is one of a layer; a name that ends with '/' is a folder, "a -> b" a link.
func layer(t *testing.T, path string, entries ...string) string {
	t.Helper()
	var text bytes.Buffer
	z := gzip.NewWriter(&text)
	w := tar.NewWriter(z)
	for _, e := range entries {
		name, target, isLink := strings.Cut(e, " -> ")
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(e))}
		switch {
		case isLink:
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		case strings.HasSuffix(name, "/"):
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = w.Write([]byte(e))
		}
	}
	_, _ = w.Close(), z.Close()
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheLayersOfAnImageAreUnpackedOverOneAnother(t *testing.T) {
	for _, c := range []struct {
		name   string
		layers [][]string
		want   []string // names whose content is that of the entry
	}{
		{
			"a model",
			[][]string{{"bin/sh", "etc/passwd"}, {"models/", "models/config.pbtxt", "models/1/model.onnx"}},
			[]string{"config.pbtxt", "1/model.onnx"},
		},
		{"with a point", [][]string{{"./models/model.onnx", "./other/x"}}, []string{"model.onnx"}},
		{"with a slash", [][]string{{"/models/model.onnx"}}, []string{"model.onnx"}},
		{"a file is removed", [][]string{{"models/a", "models/b"}, {"models/.wh.a"}}, []string{"b"}},
		{"a folder is emptied", [][]string{{"models/1/a", "models/b"}, {"models/1/.wh..wh..opq", "models/1/c"}}, []string{"b", "1/c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder, most := t.TempDir(), enough
			for _, entries := range c.layers {
				if err := unpackLayer(layer(t, filepath.Join(t.TempDir(), "l"), entries...), "layer-00000.tar.gz", folder, &most); err != nil {
					t.Fatal(err)
				}
			}
			got := tree(t, folder)
			for _, name := range c.want {
				if !strings.HasSuffix(got[name], "models/"+name) {
					t.Errorf("%s has %q", name, got[name])
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("it has %v, want %v", got, c.want)
			}
		})
	}
}

func TestLayersThatAreRefusedChangeNothingOutsideTheFolder(t *testing.T) {
	for _, c := range []struct {
		entry string
		kind  edgewise.Kind
	}{
		{"models/a -> /etc/passwd", edgewise.Unsupported},
		{"models/.wh...", edgewise.Invalid},
		{"models/1/.wh...", edgewise.Invalid},
		{"models/.wh..", edgewise.Invalid},
		{"models/" + strings.Repeat("a/", 20) + "b", edgewise.Invalid},
		{"models/a\x01b", edgewise.Invalid},
		{"models/" + strings.Repeat("x", 200) + strings.Repeat("y", 100), edgewise.Invalid},
	} {
		parent := t.TempDir()
		folder, beside, most := filepath.Join(parent, "version"), filepath.Join(parent, "beside"), enough
		for _, err := range []error{os.Mkdir(folder, 0o700), os.WriteFile(beside, nil, 0o600)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		err := unpackLayer(layer(t, filepath.Join(t.TempDir(), "l"), c.entry), "layer-00000.tar.gz", folder, &most)
		if err == nil || edgewise.KindOf(err) != c.kind {
			t.Errorf("%q: %v, want %v", c.entry, err, c.kind)
		}
		if _, err := os.Stat(beside); err != nil {
			t.Errorf("%q: %v", c.entry, err)
		}
	}
}

func TestALayerKeepsToItsLimits(t *testing.T) {
	path := layer(t, filepath.Join(t.TempDir(), "l"), "models/a", "models/b", "models/c")
	for _, most := range []limits{{bytes: 20, files: 10}, {bytes: 1000, files: 2}} {
		if err := unpackLayer(path, "layer-00000.tar.gz", t.TempDir(), &most); err == nil || edgewise.KindOf(err) != edgewise.TooLarge {
			t.Errorf("%+v: %v", most, err)
		}
	}
	for name, kind := range map[string]edgewise.Kind{"l.tar": edgewise.Invalid, "l.tar.zst": edgewise.Unsupported} {
		most := enough
		if err := unpackLayer(path, name, t.TempDir(), &most); err == nil || edgewise.KindOf(err) != kind {
			t.Errorf("%s: %v", name, err)
		}
	}
}
