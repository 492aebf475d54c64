package onnxfile_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// weightBytes is the size of the good weights.bin in these tests.
const weightBytes = 64

// outside makes a model whose initializer "w" of four floats has this external data.
func outside(entries ...onnxgen.Entry) []byte {
	return withInitializer(onnxgen.Tensor{Name: "w", Type: onnxgen.Float, Dims: []int64{4}, External: entries})
}

func at(location string) []byte { return outside(onnxgen.Entry{Key: "location", Value: location}) }

// externalFolder has a good weights.bin, one in a folder, and things that are not regular files.
func externalFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	weights := make([]byte, weightBytes)
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "parts"), 0o700),
		os.WriteFile(filepath.Join(dir, "weights.bin"), weights, 0o600),
		os.WriteFile(filepath.Join(dir, "parts", "weights.bin"), weights, 0o600),
		os.Symlink("weights.bin", filepath.Join(dir, "link.bin")),
		os.Symlink("/etc/passwd", filepath.Join(dir, "passwd.bin")),
		os.Symlink("parts", filepath.Join(dir, "linked")),
		os.Symlink("/etc", filepath.Join(dir, "etc")),
		syscall.Mkfifo(filepath.Join(dir, "pipe.bin"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadRefusesExternalData(t *testing.T) {
	entry := func(key, value string) onnxgen.Entry { return onnxgen.Entry{Key: key, Value: value} }
	weights := entry("location", "weights.bin")
	dir := externalFolder(t)
	for _, r := range []refusal{
		{"missing file", at("absent.bin"), edgewise.Invalid, `file "absent.bin" is not among the model's files`},
		{"no location", outside(entry("offset", "0")), edgewise.Invalid, "no location"},
		{"empty location", at(""), edgewise.Invalid, "no location"},
		{"absolute path", at("/etc/passwd"), edgewise.Invalid, "want a clean path"},
		{"parent folder", at("../weights.bin"), edgewise.Invalid, "want a clean path"},
		{"parent folder in the middle", at("parts/../../x"), edgewise.Invalid, "want a clean path"},
		{"not clean", at("./weights.bin"), edgewise.Invalid, "want a clean path"},
		{"backslash", at(`parts\weights.bin`), edgewise.Invalid, "backslashes"},
		{"NUL", at("weights.bin\x00.png"), edgewise.Invalid, "NUL"},
		{"control character", at("weights.bin\n"), edgewise.Invalid, "control characters"},
		{"memory address marker", at("*/_ORT_MEM_ADDR_/*"), edgewise.Invalid, "address in memory"},
		{"other marker", at("*/x"), edgewise.Invalid, "address in memory"},
		{"asterisk inside", at("a*b"), edgewise.Invalid, "address in memory"},
		{"link inside", at("link.bin"), edgewise.Invalid, "a symbolic link"},
		{"link outside", at("passwd.bin"), edgewise.Invalid, "a symbolic link"},
		{"linked folder inside", at("linked/weights.bin"), edgewise.Invalid, "a symbolic link"},
		{"linked folder outside", at("etc/passwd"), edgewise.Invalid, "a symbolic link"},
		{"folder", at("parts"), edgewise.Invalid, "a folder"},
		{"pipe", at("pipe.bin"), edgewise.Invalid, "a pipe"},
		{"file as a folder", at("weights.bin/x"), edgewise.Invalid, "is not a folder"},
		{
			"offset past the end", outside(weights, entry("offset", "65")), edgewise.Invalid,
			`16 bytes at offset 65 are not in file "weights.bin", which has 64`,
		},
		{
			"end past the end", outside(weights, entry("offset", "49"), entry("length", "16")), edgewise.Invalid,
			"are not in file",
		},
		{
			"offset that overflows", outside(weights, entry("offset", "9223372036854775807"), entry("length", "16")),
			edgewise.Invalid, "are not in file",
		},
		{
			"offset over 64 bits", outside(weights, entry("offset", "18446744073709551616")), edgewise.Invalid,
			"decimal number",
		},
		{"negative offset", outside(weights, entry("offset", "-1")), edgewise.Invalid, "decimal number"},
		{"signed offset", outside(weights, entry("offset", "+1")), edgewise.Invalid, "decimal number"},
		{"hexadecimal offset", outside(weights, entry("offset", "0x10")), edgewise.Invalid, "decimal number"},
		{"empty offset", outside(weights, entry("offset", "")), edgewise.Invalid, "decimal number"},
		{
			"other length than the tensor's", outside(weights, entry("length", "12")), edgewise.Invalid,
			"length 12, but tensor(float)[4] takes 16 bytes",
		},
		{"length 0", outside(weights, entry("length", "0")), edgewise.Invalid, "takes 16 bytes"},
		{"location twice", outside(weights, entry("location", "/etc/passwd")), edgewise.Invalid, "twice"},
		{"prepacked weights", outside(weights, entry("prepacked_0", "x|0|16")), edgewise.Unsupported, `key "prepacked_0"`},
		{
			"external data without data_location",
			withInitializer(onnxgen.Tensor{
				Name: "w", Type: onnxgen.Float, Data: make([]byte, 4),
				Extra: message().Nested(13, message().String(1, "location").String(2, "weights.bin")),
			}), edgewise.Invalid,
			"data_location does not say so",
		},
		{
			"data_location without external data",
			withInitializer(onnxgen.Tensor{
				Name: "w", Type: onnxgen.Float,
				Extra: message().Int(14, 1),
			}), edgewise.Invalid, "no location",
		},
		{"data here and there", withInitializer(onnxgen.Tensor{
			Name: "w", Type: onnxgen.Float, Dims: []int64{4},
			Data: make([]byte, 16), External: []onnxgen.Entry{weights},
		}), edgewise.Invalid, "given twice"},
		{"strings", withInitializer(onnxgen.Tensor{
			Name: "w", Type: onnxgen.String, Dims: []int64{4},
			External: []onnxgen.Entry{weights},
		}), edgewise.Unsupported, "strings"},
		{
			"tensor attribute", withAttribute(onnxgen.TensorAttribute("value",
				onnxgen.Tensor{Name: "w", Type: onnxgen.Float, Dims: []int64{4}, External: []onnxgen.Entry{weights}})),
			edgewise.Unsupported, "not allowed in a tensor attribute",
		},
		{"list of tensors", withAttribute(onnxgen.Attribute{
			Name: "v", Type: 9,
			Value: message().Nested(10, (&onnxgen.Tensor{
				Name: "w", Type: onnxgen.Float, Dims: []int64{4},
				External: []onnxgen.Entry{weights},
			}).Message()),
		}), edgewise.Unsupported, "not allowed in a tensor attribute"},
		{"bytes beyond counting", withInitializer(onnxgen.Tensor{
			Name: "w", Type: onnxgen.Float, Dims: []int64{1 << 62},
			External: []onnxgen.Entry{weights},
		}), edgewise.Invalid, "more elements than can be counted"},
	} {
		t.Run(r.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, modelFile), r.file, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := onnxfile.Read(dir, modelFile, onnxfile.DefaultLimits())
			checkRefused(t, f, err, r.kind, r.says)
		})
	}
}

func TestReadAcceptsExternalDataThatFits(t *testing.T) {
	dir := externalFolder(t)
	for _, c := range []struct {
		name    string
		entries []onnxgen.Entry
		want    onnxfile.External
	}{
		{
			"location alone",
			[]onnxgen.Entry{{Key: "location", Value: "weights.bin"}},
			onnxfile.External{Path: "weights.bin", Length: 16},
		},
		{"last bytes of the file", []onnxgen.Entry{
			{Key: "offset", Value: "48"},
			{Key: "location", Value: "weights.bin"},
			{Key: "length", Value: "16"},
			{Key: "checksum", Value: "x"},
		}, onnxfile.External{Path: "weights.bin", Offset: 48, Length: 16}},
		{
			"file in a folder",
			[]onnxgen.Entry{{Key: "location", Value: "parts/weights.bin"}},
			onnxfile.External{Path: "parts/weights.bin", Length: 16},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, modelFile), outside(c.entries...), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := onnxfile.Read(dir, modelFile, onnxfile.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			got := f.Graph.Initializers[1].External
			if got == nil || *got != c.want {
				t.Errorf("external data %+v, want %+v", got, c.want)
			}
			if len(f.Files) != 1 || f.Files[0] != c.want.Path {
				t.Errorf("files %v, want %q alone", f.Files, c.want.Path)
			}
		})
	}
}

func TestReadFindsExternalDataBesideTheModelFile(t *testing.T) {
	dir := t.TempDir()
	if err := onnxgen.External().Save(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	f, err := onnxfile.Read(dir, "sub/"+modelFile, onnxfile.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Files) != 1 || f.Files[0] != "sub/weights.bin" {
		t.Errorf("files %v, want sub/weights.bin", f.Files)
	}
}

func TestReadRefusesModelFilesItMustNotOpen(t *testing.T) {
	dir := externalFolder(t)
	for _, c := range []struct{ name, file, says string }{
		{"missing", "model.onnx", "is not among the model's files"},
		{"link", "link.bin", "a symbolic link"},
		{"folder", "parts", "a folder"},
		{"pipe", "pipe.bin", "a pipe"},
		{"outside", "../model.onnx", "want a clean path"},
		{"absolute", "/etc/passwd", "want a clean path"},
		{"linked folder", "linked/weights.bin", "a symbolic link"},
		{"empty name", "", "0 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := onnxfile.Read(dir, c.file, onnxfile.DefaultLimits())
			checkRefused(t, f, err, edgewise.Invalid, c.says)
		})
	}
}
