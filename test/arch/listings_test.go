package arch

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/wasm/kernel"
)

// listing is a file that lists all things of a kind. In the pattern, NAME stands for the name of one.
type listing struct{ path, pattern, what string }

// holds fails the test unless the file has the name.
func (l listing) holds(t *testing.T, name string) {
	t.Helper()
	if !regexp.MustCompile(strings.ReplaceAll(l.pattern, "NAME", name)).MatchString(read(t, l.path)) {
		t.Errorf("%s lacks %s: it lists %s", l.path, name, l.what)
	}
}

// datatypePlaces are the files beside tensor.go that list the data types by their names on the wire, or for Go's
// constants without regard to case.
var datatypePlaces = []listing{
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
		for _, kind := range edgewise.DataTypes() {
			name := kind.String()
			switch {
			case kind == edgewise.Bytes && strings.HasSuffix(place.path, ".proto"):
				name = "STRING"
			case kind == edgewise.Bytes && strings.HasSuffix(place.what, "but for BYTES"):
				continue
			}
			place.holds(t, name)
		}
	}
}

// pictureFormatPlaces are the files beside wasm/kernel/picture.go that list the formats of pictures that steps read,
// each as its number and its name.
var pictureFormatPlaces = []listing{
	{"docs/steps-abi.md", `\bNAME\b`, "the formats of image_info"},
	{"sdk/go/kernel.go", `\bNAME\b`, "the formats of steps in Go"},
	{"sdk/rust/src/kernel.rs", `\bNAME\b`, "the formats of steps in Rust"},
	{"sdk/c/edgewise.h", `\bNAME\b`, "the formats of steps in C"},
}

func TestEveryPictureFormatIsInEachListOfThem(t *testing.T) {
	for _, place := range pictureFormatPlaces {
		for _, format := range kernel.Formats() {
			place.holds(t, fmt.Sprintf("%d %v", format, format))
		}
	}
}

// modelFilePlaces are the files that list the extensions of model files, beside the backends' own Formats.
var modelFilePlaces = []listing{
	{"webui/src/lib/drop.ts", `known = .*\bNAME\b`, "the files that may be dropped on the page"},
	{"webui/src/pages/Models.svelte", `accept="[^"]*\.NAME\b`, "the files that may be chosen on the page"},
	{"docs/guides/admin-api.md", "`\\.NAME`", "the files that may be uploaded"},
	{"docs/guides/page.md", "`\\.NAME`", "the files that may be dropped on the page"},
}

func TestEveryModelFileIsInEachListOfThem(t *testing.T) {
	for _, place := range modelFilePlaces {
		for _, extension := range appliance.Formats().Extensions() {
			place.holds(t, extension[1:])
		}
	}
}
