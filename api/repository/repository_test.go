package repository

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes files into a new folder; a name that ends in a slash is a folder, one with "->" a symbolic link.
func tree(t *testing.T, files ...string) string {
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f)
		if link, target, ok := strings.Cut(path, "->"); ok {
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		below string // read this folder of the tree instead of the tree
		want  string
	}{
		{"one model", []string{"cat/1/model.onnx"}, "", `cat/1: model.onnx`},
		{"shared files come with every version", []string{
			"cat/config.pbtxt", "cat/labels.txt", "cat/1/model.onnx",
			"cat/3/model.onnx",
		}, "", "cat/1: config.pbtxt labels.txt model.onnx; cat/3: config.pbtxt labels.txt model.onnx"},
		{
			"folders below",
			[]string{"cat/warmup/x", "cat/1/model.onnx/model.onnx", "cat/1/model.onnx/weights.bin"},
			"",
			"cat/1: model.onnx/model.onnx model.onnx/weights.bin warmup/x",
		},
		{"versions in the order of their numbers", []string{"m/10/a", "m/9/a"}, "", "m/9: a; m/10: a"},
		{"names that are no versions", []string{"m/1/a", "m/01/b", "m/0/c", "m/x1/d"}, "", "m/1: 0/c 01/b a x1/d"},
		{"hidden files are left out", []string{".git/config", "m/.cache/x", "m/1/a", "m/1/.DS_Store"}, "", "m/1: a"},
		{
			"an empty version beside a configuration",
			[]string{"cat/config.pbtxt", "cat/1/", "cat/2/.gitkeep"},
			"",
			"cat/1: config.pbtxt; cat/2: config.pbtxt",
		},
		{
			"a model's folder itself",
			[]string{"r/cat/config.pbtxt", "r/cat/2/model.onnx"},
			"r/cat",
			"cat/2: config.pbtxt model.onnx",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			versions, err := Dir(filepath.Join(tree(t, test.files...), test.below)).Versions()
			if err != nil {
				t.Fatal(err)
			}
			var list []string
			for _, v := range versions {
				var paths []string
				for _, f := range v.Files {
					paths = append(paths, f.Path)
				}
				list = append(list, fmt.Sprintf("%s/%d: %s", v.ID.Name, v.ID.Version, strings.Join(paths, " ")))
			}
			if got := strings.Join(list, "; "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  string
	}{
		{"nothing", nil, "no model in it: want <model>/<version>/model.onnx"},
		{"no version", []string{"cat/config.pbtxt"}, "cat: 0 version folders: want 1 to 10000, named by a number"},
		{"empty version", []string{"cat/1/"}, "cat/1: it holds no file"},
		{"empty version beside files", []string{"cat/labels.txt", "cat/1/"}, "cat/1: it holds no file"},
		{"a file twice", []string{"cat/model.onnx", "cat/1/model.onnx"}, "cat/1: model.onnx stands in the version's folder " +
			"and in the model's"},
		{"a link", []string{"cat/1/", "cat/1/model.onnx->/etc/passwd"}, "model.onnx: not a regular file: links and devices " +
			"are not imported"},
		{"a bad name", []string{"-cat/1/model.onnx"}, `-cat: model name "-cat": character '-' at byte 0 is not allowed`},
		{"too deep", []string{"cat/1/a/b/c/d/e/f/g/h/i"}, "is 9 folders deep: at most 8 are allowed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Dir(tree(t, test.files...)).Versions()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestUploadYieldsEveryFileOnce(t *testing.T) {
	versions, err := Dir(tree(t, "cat/labels.txt", "cat/1/model.onnx")).Versions()
	if err != nil {
		t.Fatal(err)
	}
	up, files := versions[0].Upload("import")
	var got []string
	for {
		path, size, body, err := up.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(body)
		if err != nil || int64(len(data)) != size {
			t.Errorf("%s: %d bytes, declared %d, %v", path, len(data), size, err)
		}
		got = append(got, path+"="+string(data))
	}
	if want := "labels.txt=cat/labels.txt model.onnx=cat/1/model.onnx"; strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
	if up.Size != int64(len("cat/labels.txt")+len("cat/1/model.onnx")) || up.Model != "cat" || up.Version != 1 {
		t.Errorf("upload %+v", up)
	}
	if err := files.Close(); err != nil {
		t.Error(err)
	}
}
