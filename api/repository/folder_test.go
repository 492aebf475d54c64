package repository

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/edgewise-ai/edgewise"
)

// lay writes files below a folder; a path that ends with '/' is a folder, and "a -> b" a link.
func lay(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, file := range files {
		var err error
		link, target, isLink := strings.Cut(file, " -> ")
		path := filepath.Join(dir, link)
		switch {
		case isLink:
			err = os.Symlink(target, path)
		case strings.HasSuffix(file, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("content of "+file), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// folderIn is the folder of the model "m" in a repository.
func folderIn(dir string) Folder {
	return Folder{Name: "m", repository: Dir(dir), dir: "m", follow: true}
}

func names(folders []Folder) string {
	var list []string
	for _, f := range folders {
		list = append(list, f.Name)
	}
	return strings.Join(list, " ")
}

func paths(files []File) string {
	var list []string
	for _, f := range files {
		list = append(list, f.Path)
	}
	return strings.Join(list, " ")
}

func TestFolders(t *testing.T) {
	for _, test := range []struct {
		name, root  string
		files       []string
		want        string
		refused     int
		wantVersion string // files of version 1 of the first model
	}{
		{"empty", "r", []string{"r/"}, "", 0, ""},
		{
			"models", "r",
			[]string{"r/b/1/model.onnx", "r/a/1/model.onnx", "r/a/labels.txt", "r/README", "r/.git/x"},
			"a b", 0,
			"labels.txt model.onnx",
		},
		{"names that none can have", "r", []string{"r/a b/1/model.onnx", "r/a/1/model.onnx"}, "a", 1, "model.onnx"},
		{"links", "r", []string{"real/1/model.onnx", "r/", "r/a -> ../real"}, "a", 0, "model.onnx"},
		{"a link to nothing", "r", []string{"r/", "r/a -> ../nothing"}, "", 1, ""},
		{"one model's folder", "m", []string{"m/1/model.onnx", "m/2/model.onnx"}, "m", 0, "model.onnx"},
		{"its name is configured", "m", []string{"m/1/model.onnx", "m/config.pbtxt"}, "m", 0, "config.pbtxt model.onnx"},
		{
			"a version's files", "models",
			[]string{"models/model.onnx", "models/weights.bin"},
			"models", 0,
			"model.onnx weights.bin",
		},
		{
			"a version's files and a configuration", "models",
			[]string{"models/model.onnx", "models/config.pbtxt"},
			"models", 0,
			"config.pbtxt model.onnx",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			lay(t, dir, test.files...)
			folders, refused, err := Dir(filepath.Join(dir, test.root), "model.onnx", "model.wasm").Folders()
			if err != nil || names(folders) != test.want || len(refused) != test.refused {
				t.Fatalf("got %q, refused %v, error %v", names(folders), refused, err)
			}
			if len(folders) == 0 {
				return
			}
			c, err := folders[0].Contents("")
			if err != nil {
				t.Fatal(err)
			}
			if v, err := c.Version(1); err != nil || paths(v.Files) != test.wantVersion {
				t.Errorf("version 1 has %q, %v", paths(v.Files), err)
			}
		})
	}
	if _, _, err := Dir(filepath.Join(t.TempDir(), "none")).Folders(); err == nil || edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("a repository that is not there: %v", err)
	}
}

func TestAFolderIsCalledWhatItsConfigurationSays(t *testing.T) {
	dir := t.TempDir()
	lay(t, dir, "1/model.onnx")
	if err := os.WriteFile(filepath.Join(dir, "config.pbtxt"), []byte("name: \"cat\"\ninput { name: \"x\" }\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if folders, _, err := Dir(dir).Folders(); err != nil || names(folders) != "cat" {
		t.Errorf("got %q, %v", names(folders), err)
	}
}

func TestContents(t *testing.T) {
	dir := t.TempDir()
	lay(t, dir, "m/1/model.onnx", "m/3/data/w.bin", "m/3/model.onnx", "m/04/model.onnx", "m/x/y", "m/config.pbtxt",
		"m/configs/gpu.pbtxt", "m/configs/cpu.pbtxt", "m/.hidden", "m/5")
	f := folderIn(dir)
	for _, test := range []struct{ config, shared, text string }{
		{"", "04/model.onnx config.pbtxt x/y", "content of m/config.pbtxt"},
		{"gpu", "04/model.onnx config.pbtxt x/y", "content of m/configs/gpu.pbtxt"},
		{"none", "04/model.onnx config.pbtxt x/y", "content of m/config.pbtxt"},
	} {
		c, err := f.Contents(test.config)
		if err != nil {
			t.Fatal(err)
		}
		file, text, err := c.Config()
		if paths(c.Shared) != test.shared || file != "config.pbtxt" || string(text) != test.text || err != nil {
			t.Errorf("%q: shared %q, configuration %s %q, %v", test.config, paths(c.Shared), file, text, err)
		}
		if !slices.Equal(c.Numbers(), []int64{1, 3}) {
			t.Errorf("versions %v", c.Numbers())
		}
	}
}

func TestStampsTellChangesApart(t *testing.T) {
	dir := t.TempDir()
	lay(t, dir, "m/1/model.onnx", "m/2/model.onnx")
	stamp := func(number int64) string {
		c, err := folderIn(dir).Contents("")
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Version(number)
		if err != nil {
			t.Fatal(err)
		}
		return v.Stamp()
	}
	one, two := stamp(1), stamp(2)
	if one != stamp(1) {
		t.Error("nothing has changed")
	}
	lay(t, dir, "m/1/more")
	if one == stamp(1) || two != stamp(2) {
		t.Error("the change of a version is not seen, or seen of another")
	}
	lay(t, dir, "m/labels.txt")
	if two == stamp(2) {
		t.Error("the change of a shared file is not seen")
	}
}

func TestFilesOfAClient(t *testing.T) {
	c, err := FilesOf("m", map[string][]byte{
		"1/model.onnx": []byte("one"), "labels.txt": []byte("l"),
		"config.pbtxt": []byte("old"),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.SetConfig("config.json", []byte("{}"))
	v, err := c.Version(1)
	if err != nil || paths(v.Files) != "config.json labels.txt model.onnx" || v.Size != 6 {
		t.Fatalf("%q, %d bytes, %v", paths(v.Files), v.Size, err)
	}
	upload, closer := v.Upload("test")
	var read []string
	for {
		path, size, body, err := upload.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		text, failed := io.ReadAll(body)
		if err != nil || failed != nil || int64(len(text)) != size {
			t.Fatal(path, err, failed)
		}
		read = append(read, path+"="+string(text))
	}
	if got := strings.Join(read, " "); got != "config.json={} labels.txt=l model.onnx=one" || closer.Close() != nil {
		t.Errorf("read %s", got)
	}
	for _, path := range []string{"../x", "/x", "", ".", "a/../../x", "a\x00b", `a\b`, strings.Repeat("a/", 9) + "a"} {
		if _, err := FilesOf("m", map[string][]byte{path: nil}); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("path %q: %v", path, err)
		}
	}
}

func TestACircleOfLinksEnds(t *testing.T) {
	dir := t.TempDir()
	lay(t, dir, "m/1/model.onnx", "m/1/again -> .")
	_, err := folderIn(dir).Contents("")
	if err == nil || !strings.Contains(err.Error(), "more than 8 links to folders lead to it") {
		t.Errorf("got %v", err)
	}
}

// TestAConfigurationIsReadWithinItsBound has one of the largest size, and one that would fill the memory.
func TestAConfigurationIsReadWithinItsBound(t *testing.T) {
	for _, test := range []struct {
		size int64
		kind edgewise.Kind // 0: it is read
	}{
		{MaxConfigBytes, 0},
		{MaxConfigBytes + 1, edgewise.TooLarge},
		{256 << 20, edgewise.TooLarge},
	} {
		dir := t.TempDir()
		lay(t, dir, "m/config.pbtxt", "m/1/model.onnx")
		if err := os.Truncate(filepath.Join(dir, "m", "config.pbtxt"), test.size); err != nil {
			t.Fatal(err)
		}
		folders, _, err := Dir(dir).Folders()
		if err != nil || len(folders) != 1 {
			t.Fatal(folders, err)
		}
		c, err := folders[0].Contents("")
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, data, err := c.Config()
		runtime.ReadMemStats(&after)
		switch {
		case test.kind == 0 && (err != nil || int64(len(data)) != test.size):
			t.Errorf("%d bytes: %d are read, %v", test.size, len(data), err)
		case test.kind != 0 && (err == nil || edgewise.KindOf(err) != test.kind):
			t.Errorf("%d bytes: %d are read, %v", test.size, len(data), err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
			t.Errorf("%d bytes took %d bytes of memory", test.size, took)
		}
	}
}

// TestARepositoryIsAnyFileSystem reads models that are in no folder of this machine, as those in a bucket.
func TestARepositoryIsAnyFileSystem(t *testing.T) {
	bucket := fstest.MapFS{
		"cat/config.pbtxt": {Data: []byte("max_batch_size: 4")}, "cat/1/model.onnx": {Data: []byte("net")}, ".x/1/y": {},
	}
	r := Repository{FS: bucket, Place: "https://bucket.example/models"}
	folders, refused, err := r.Folders()
	if err != nil || names(folders) != "cat" || len(refused) != 0 {
		t.Fatalf("got %q, refused %v, error %v", names(folders), refused, err)
	}
	c, err := folders[0].Contents("")
	if err != nil {
		t.Fatal(err)
	}
	if _, text, err := c.Config(); string(text) != "max_batch_size: 4" || err != nil {
		t.Errorf("the configuration is %q, %v", text, err)
	}
	v, err := c.Version(1)
	if err != nil || paths(v.Files) != "config.pbtxt model.onnx" {
		t.Fatalf("version 1 has %q, %v", paths(v.Files), err)
	}
	if got := v.Files[1].Source; got != "https://bucket.example/models/cat/1/model.onnx" {
		t.Errorf("the model's file is %s", got)
	}
	upload, closer := v.Upload("test")
	_, _, _, _ = upload.Next()
	if path, size, body, err := upload.Next(); path != "model.onnx" || size != 3 || err != nil {
		t.Errorf("the second file is %s of %d bytes, %v", path, size, err)
	} else if text, err := io.ReadAll(body); string(text) != "net" || err != nil {
		t.Errorf("it holds %q, %v", text, err)
	}
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
	versions, err := r.Versions()
	if err != nil || len(versions) != 1 || versions[0].ID != (edgewise.ModelID{Name: "cat", Version: 1}) {
		t.Errorf("versions %v, %v", versions, err)
	}
}

func TestAFolderIsReadAsAVersion(t *testing.T) {
	dir := t.TempDir()
	lay(t, dir, "flat/model.py", "flat/config.pbtxt", "flat/lib/part.py",
		"layout/config.pbtxt", "layout/labels.txt", "layout/1/model.py", "layout/10/model.py", "layout/10/lib/part.py", "layout/9/model.py",
		"twice/model.py", "twice/1/model.py")
	id := edgewise.ModelID{Name: "m"}
	for folder, want := range map[string]string{
		"flat":   "config.pbtxt lib/part.py model.py",
		"layout": "config.pbtxt labels.txt lib/part.py model.py",
		"twice":  "twice/1: model.py stands in the version's folder and in the model's",
	} {
		v, err := ReadFolder(id, filepath.Join(dir, folder))
		if err != nil {
			if !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: %v", folder, err)
			}
			continue
		}
		if got := paths(v.Files); got != want || v.ID != id {
			t.Errorf("%s: %v %q", folder, v.ID, got)
		}
		if at := v.Files[len(v.Files)-1]; folder == "layout" && !strings.HasSuffix(at.Source, "layout/10/model.py") {
			t.Errorf("it is %s", at.Source)
		}
	}
}
