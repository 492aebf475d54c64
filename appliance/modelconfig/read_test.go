package modelconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/document"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadFindsEachConfigurationFile(t *testing.T) {
	for _, file := range Files() {
		text := map[string]string{
			".pbtxt": "max_batch_size: 7", ".yaml": "max_batch_size: 7", ".yml": "max_batch_size: 7",
			".json": `{"max_batch_size": 7}`,
		}
		m, err := Read(folder(t, map[string]string{file: text[filepath.Ext(file)], "model.onnx": "x"}), "cat")
		if err != nil || m.MaxBatchSize != 7 {
			t.Errorf("%s: got %+v, %v", file, m, err)
		}
	}
}

func TestReadWithoutAConfigurationDeclaresNothing(t *testing.T) {
	m, err := Read(folder(t, nil), "cat")
	if err != nil || m.Name != "cat" || m.MaxBatchSize != Unset || len(m.Input) != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestReadRefuses(t *testing.T) {
	link := folder(t, nil)
	if err := os.Symlink("/etc/hostname", filepath.Join(link, "config.yaml")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		dir  string
		want string
		kind edgewise.Kind
	}{
		{
			"two configurations", folder(t, map[string]string{"config.pbtxt": "", "config.json": ""}),
			`model "cat": more than one configuration: config.pbtxt, config.json: keep one`, edgewise.Invalid,
		},
		{"a link", link, `model "cat": config.yaml is not a regular file`, edgewise.Invalid},
		{
			"too large", folder(t, map[string]string{"config.pbtxt": strings.Repeat(" ", document.MaxBytes+1)}),
			"config.pbtxt: document has 262145 bytes: at most 262144 are allowed", edgewise.TooLarge,
		},
		{
			"syntax", folder(t, map[string]string{"config.pbtxt": "name: \"cat\"\nname {"}),
			`config.pbtxt:2: want a field name or "}", got the end of the file`, edgewise.Invalid,
		},
		{
			"fields", folder(t, map[string]string{"config.pbtxt": "max_batchsize: 3\ninput { data_type: TYPE_FP31 dims: 0.5 }"}),
			strings.Join([]string{
				`config.pbtxt:1: unknown field "max_batchsize" in ModelConfig (did you mean "max_batch_size"?)`,
				`config.pbtxt:2: input[0].data_type: unknown data type "TYPE_FP31": want one of TYPE_BOOL, TYPE_UINT8, ` +
					`TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, ` +
					`TYPE_FP64, TYPE_STRING, TYPE_BF16`,
				`config.pbtxt:2: input[0].dims[0]: want an integer from -9223372036854775808 to 9223372036854775807, got the number 0.5`,
			}, "\n"), edgewise.Invalid,
		},
		{
			"negative max_batch_size", folder(t, map[string]string{"config.yaml": "name: cat\nmax_batch_size: -1"}),
			"config.yaml:2: max_batch_size: want 0 (no batching) or more, got -1", edgewise.Invalid,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(tt.dir, "cat")
			if err == nil || err.Error() != tt.want || edgewise.KindOf(err) != tt.kind {
				t.Errorf("got:\n%v\nwant:\n%s", err, tt.want)
			}
		})
	}
}

func TestParseRefusesAnotherExtension(t *testing.T) {
	_, err := Parse("config.toml", nil)
	if want := `configuration "config.toml": want one of config.pbtxt, config.yaml, config.yml, config.json`; err == nil ||
		err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestParseTellsAWrittenZeroFromNothing(t *testing.T) {
	for text, want := range map[string]int32{"": Unset, "max_batch_size: 0": 0, "max_batch_size: 3": 3} {
		if m, err := Parse("config.pbtxt", []byte(text)); err != nil || m.MaxBatchSize != want {
			t.Errorf("%q: got %+v, %v", text, m, err)
		}
	}
}
