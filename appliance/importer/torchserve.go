package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

const (
	// marFolder is in every archive of TorchServe's (.mar), with its manifest.
	marFolder = "MAR-INF"
	// maxMARManifest bounds the manifest.
	maxMARManifest = 1 << 20
	// savedModel is in every folder of TensorFlow's format.
	savedModel = "saved_model.pb"
	// servedModel is how that folder is called in a version for a backend with TensorFlow.
	servedModel = "model.savedmodel"
)

// manifest says what is in an archive of TorchServe's.
type manifest struct {
	Model struct {
		Name       string `json:"modelName"`
		Serialized string `json:"serializedFile"`
		Handler    string `json:"handler"`
		File       string `json:"modelFile"`
	} `json:"model"`
}

// unwrap makes an unpacked archive of TorchServe's the files of a version: the model without the programs around it. It
// returns the model's name, and what a person should know; "" for any other archive. Errors: Invalid, Unsupported.
func (im *Importer) unwrap(folder string) (name string, notes []string, err error) {
	const op = "importer.unwrap"
	path := filepath.Join(folder, marFolder, "MANIFEST.json")
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil || info.Size() > maxMARManifest {
		return "", nil, edgewise.Errorf(op, edgewise.Invalid, "the MANIFEST.json of the archive cannot be read: it may have "+
			"%d bytes", maxMARManifest)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", nil, edgewise.Errorf(op, edgewise.Internal, "the MANIFEST.json of the archive cannot be read")
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return "", nil, edgewise.Errorf(op, edgewise.Invalid, "the MANIFEST.json of the archive is not that of a .mar file: %w",
			err)
	}
	_, served := im.config.Formats.OfFile(m.Model.Serialized)
	_, missing := os.Stat(filepath.Join(folder, filepath.Base(m.Model.Serialized)))
	if !served || m.Model.File != "" || missing != nil {
		return "", nil, edgewise.Errorf(op, edgewise.Unsupported, "the .mar file has the model %q as %s, which needs Python and "+
			"PyTorch: export the model with torch.onnx.export, and upload the .onnx file; what the handler %q does becomes a step "+
			"of an ensemble", m.Model.Name, serialized(m), m.Model.Handler)
	}
	if m.Model.Handler != "" {
		notes = append(notes, fmt.Sprintf("The handler %q of TorchServe is not run: the model takes the tensors shown here. What "+
			"it does becomes a step of an ensemble.", m.Model.Handler))
	}
	return m.Model.Name, notes, removePrograms(folder)
}

// serialized names what an archive has of its model.
func serialized(m manifest) string {
	var parts []string
	for _, file := range []string{m.Model.Serialized, m.Model.File} {
		if file != "" {
			parts = append(parts, fmt.Sprintf("%q", file))
		}
	}
	if len(parts) == 0 {
		return "a program"
	}
	return strings.Join(parts, " with ")
}

// removePrograms removes the manifest and the programs of an archive of TorchServe's: they are never run, and a program
// may be called as a model of another kind is.
func removePrograms(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if e.Name() == marFolder || filepath.Ext(e.Name()) == ".py" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(folder, e.Name())))
		}
	}
	if err != nil {
		return edgewise.Errorf("importer.removePrograms", edgewise.Internal, "what was unpacked cannot be changed")
	}
	return nil
}

// checkSavedModel refuses a folder of TensorFlow's format, or one around such folders, that is not laid out for a backend
// with TensorFlow. Error: Unsupported.
func checkSavedModel(folder string) error {
	for _, pattern := range []string{savedModel, "*/" + savedModel, "*/*/" + savedModel} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || !slices.ContainsFunc(found, func(path string) bool {
			return filepath.Base(filepath.Dir(path)) != servedModel
		}) {
			continue
		}
		return edgewise.Errorf("importer.checkSavedModel", edgewise.Unsupported, "this is a SavedModel, whose graph and "+
			"variables need TensorFlow: convert it with \"python -m tf2onnx.convert --saved-model FOLDER --output model.onnx\", and "+
			"upload model.onnx; for a box with TensorFlow, call the folder %s in the version's folder", servedModel)
	}
	return nil
}
