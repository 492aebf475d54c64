package repository

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModelsComeBehindThoseTheyName writes configurations that name models, in three syntaxes.
func TestModelsComeBehindThoseTheyName(t *testing.T) {
	pbtxt := func(names ...string) string {
		return `ensemble_scheduling { step { model_name: "` + strings.Join(names, `" } step { model_name:"`) + `" } }`
	}
	for _, test := range []struct {
		name    string
		configs map[string]string // by file
		want    string
	}{
		{"by name without a reason for another order", map[string]string{"b/config.pbtxt": "", "a/config.pbtxt": ""}, "a b"},
		{
			"protobuf text",
			map[string]string{"a/config.pbtxt": pbtxt("z", "b"), "b/config.pbtxt": "", "z/config.pbtxt": ""},
			"z b a",
		},
		{"YAML", map[string]string{
			"a/config.yaml": "step:\n- model_name: b\n- {model_name: 'c'}\n", "b/config.yml": "",
			"c/config.yml": "",
		}, "b c a"},
		{
			"names with commas",
			map[string]string{"a/config.json": `{"step":[{"model_name":"b,1"}]}`, "b,1/config.json": ""},
			"b,1 a",
		},
		{"a comma behind a plain name", map[string]string{
			"a/config.yaml": "step:\n- {model_name: b, model_version: 1}\n",
			"b/config.yml":  "",
		}, "b a"},
		{"JSON", map[string]string{"a/config.json": `{"step":[{"model_name":"b"}]}`, "b/config.json": ""}, "b a"},
		{"inside each other", map[string]string{
			"a/config.pbtxt": pbtxt("b"), "b/config.pbtxt": pbtxt("c"),
			"c/config.pbtxt": "",
		}, "c b a"},
		{"a circle", map[string]string{"a/config.pbtxt": pbtxt("b"), "b/config.pbtxt": pbtxt("a")}, "b a"},
		{"itself", map[string]string{"a/config.pbtxt": pbtxt("a"), "b/config.pbtxt": ""}, "a b"},
		{
			"one that is not in the repository",
			map[string]string{"a/config.pbtxt": pbtxt("elsewhere"), "b/config.pbtxt": ""},
			"a b",
		},
		{
			"other files do not count",
			map[string]string{"a/config.pbtxt": "", "a/notes.txt": pbtxt("b"), "b/config.pbtxt": ""},
			"a b",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range test.configs {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Join(filepath.Dir(path), "1"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			versions, err := Dir(dir).Versions()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range versions {
				got = append(got, v.ID.Name)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}
