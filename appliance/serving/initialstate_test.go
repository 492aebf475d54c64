package serving

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// put writes a file below a folder.
func put(t *testing.T, dir, path string, data []byte) {
	t.Helper()
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestInitialStates(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, modelconfig.InitialStateFolder+"/good", []byte{1, 2, 3, 4, 5, 6, 7, 8})
	put(t, dir, modelconfig.InitialStateFolder+"/text", []byte{1, 0, 0, 0, 'x'})
	put(t, dir, "outside", []byte{1, 2, 3, 4, 5, 6, 7, 8})
	large, err := os.Create(filepath.Join(dir, modelconfig.InitialStateFolder, "large"))
	if err != nil {
		t.Fatal(err)
	}
	if err := large.Truncate(modelconfig.MaxStateBytes + 1); err != nil {
		t.Fatal(err)
	}
	if err := large.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		from edgewise.InitialState
		data string
		want string // of the error
	}{
		{
			"zeros",
			edgewise.InitialState{DataType: edgewise.FP16, Dims: edgewise.Shape{1, 2}, ZeroData: true},
			"\x00\x00\x00\x00", "",
		},
		{
			"empty strings",
			edgewise.InitialState{DataType: edgewise.Bytes, Dims: edgewise.Shape{2}, ZeroData: true},
			strings.Repeat("\x00", 8), "",
		},
		{
			"a file",
			edgewise.InitialState{DataType: edgewise.Int32, Dims: edgewise.Shape{2}, DataFile: "good"},
			"\x01\x02\x03\x04\x05\x06\x07\x08", "",
		},
		{
			"a file of text",
			edgewise.InitialState{DataType: edgewise.Bytes, Dims: edgewise.Shape{1}, DataFile: "text"},
			"\x01\x00\x00\x00x", "",
		},
		{
			"a file of another size",
			edgewise.InitialState{DataType: edgewise.Int32, Dims: edgewise.Shape{3}, DataFile: "good"},
			"", `file "good": tensor "s": INT32[3] takes 3 elements of 4 bytes, got 8 bytes`,
		},
		{
			"text that is none",
			edgewise.InitialState{DataType: edgewise.Bytes, Dims: edgewise.Shape{1}, DataFile: "good"},
			"",
			"incomplete string",
		},
		{"a file that is too large", edgewise.InitialState{
			DataType: edgewise.Int8, Dims: edgewise.Shape{1},
			DataFile: "large",
		}, "", `file "large"`},
		{
			"a file outside",
			edgewise.InitialState{DataType: edgewise.Int32, Dims: edgewise.Shape{2}, DataFile: "../outside"},
			"", "want a clean path",
		},
		{
			"no file",
			edgewise.InitialState{DataType: edgewise.Int32, Dims: edgewise.Shape{2}, DataFile: "none"},
			"",
			"no such file",
		},
		{"too many zeros", edgewise.InitialState{
			DataType: edgewise.Int8, Dims: edgewise.Shape{modelconfig.MaxStateBytes + 1},
			ZeroData: true,
		}, "", "take more than 67108864 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &edgewise.Model{
				Name: "m",
				SequenceBatching: &edgewise.SequenceBatching{State: []edgewise.SequenceState{{
					InputName:    "s",
					InitialState: []edgewise.InitialState{test.from},
				}}},
			}
			list, err := initialStates(m, dir)
			switch {
			case test.want == "" && (err != nil || len(list) != 1 || list[0].Name != "s" || string(list[0].Data) != test.data ||
				list[0].Check() != nil):
				t.Errorf("got %v, %v", list, err)
			case test.want != "" && (err == nil || edgewise.KindOf(err) != edgewise.Invalid ||
				!strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
