package appliance

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/wasm"
)

// Formats returns the formats of models that this build serves, and those of backends of other programs. A backend is
// named here and in App.servingConfig, and nowhere else.
func Formats(external ...edgewise.Format) edgewise.Formats {
	return slices.Concat(
		(*onnx.Backend)(nil).Formats(), (*wasm.Backend)(nil).Formats(), []edgewise.Format{ensemble.Format()}, external,
	)
}

// ExternalFiles returns the files beside a model's file that its weights stand in, relative to its folder; none for a
// file that is no ONNX file. Error: this build does not read the file, or one of those files is missing or too short.
func ExternalFiles(model string) ([]string, error) {
	if !strings.EqualFold(filepath.Ext(model), filepath.Ext(onnx.DefaultFilename)) {
		return nil, nil
	}
	f, err := onnxfile.Read(filepath.Dir(model), filepath.Base(model), onnxfile.DefaultLimits())
	if err != nil {
		return nil, err
	}
	return f.Files, nil
}
