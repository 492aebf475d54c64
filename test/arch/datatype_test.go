package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// datatypePlaces are the files beside tensor.go that list the data types. In the pattern, NAME stands for the name of a
// type: that on the wire, or for Go's constants without regard to case.
var datatypePlaces = []struct{ path, pattern, what string }{
	{"gpu/onnx/onnxfile/element.go", `(?i)edgewise\.NAME\b`, "the number of the type in ONNX"},
	{"test/onnxgen/tensor.go", `(?i)edgewise\.NAME\b`, "the type of models that tests make"},
	{"api/inference/model_config.proto", `\bTYPE_NAME\b`, "the type of configurations over gRPC; then make proto"},
	{"sdk/go/tensor.go", `"NAME"`, "the steps in Go"},
	{"sdk/rust/src/tensor.rs", `"NAME"`, "the steps in Rust"},
	{"sdk/c/edgewise.h", `"NAME"`, "the steps in C"},
	{"sdk/assemblyscript/tensor.ts", `"NAME"`, "the steps in AssemblyScript"},
	{"webui/src/lib/tensor.ts", `\bNAME\b`, "the tensors of the page"},
	{"webui/src/lib/draft.ts", `\bNAME: [0-9]`, "the size of an element on the page, but for BYTES"},
	{"docs/steps-abi.md", `\| NAME \|`, "the number of the type in steps"},
	{"docs/guides/tensors.md", "`NAME`", "the table of types"},
}

func TestEveryDataTypeIsInEachListOfThem(t *testing.T) {
	for _, place := range datatypePlaces {
		text, err := os.ReadFile(filepath.Join("../..", place.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range edgewise.DataTypes() {
			name := kind.String()
			switch {
			case kind == edgewise.Bytes && strings.HasSuffix(place.path, ".proto"):
				name = "STRING"
			case kind == edgewise.Bytes && strings.HasSuffix(place.what, "but for BYTES"):
				continue
			}
			if !regexp.MustCompile(strings.ReplaceAll(place.pattern, "NAME", name)).Match(text) {
				t.Errorf("%s lacks %s: it lists %s", place.path, name, place.what)
			}
		}
	}
}
