package appliance

import (
	"path/filepath"

	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
)

// ExternalFiles returns the files beside an ONNX file that its weights stand in, relative to its folder. Error: the
// file is no ONNX file that this build reads, or one of those files is missing or too short.
func ExternalFiles(model string) ([]string, error) {
	f, err := onnxfile.Read(filepath.Dir(model), filepath.Base(model), onnxfile.DefaultLimits())
	if err != nil {
		return nil, err
	}
	return f.Files, nil
}
