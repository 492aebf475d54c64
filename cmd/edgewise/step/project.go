package step

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/sdk"
)

// sdkFolder is the folder of a step that holds its copy of the SDK.
const sdkFolder = "edgewise"

// placeholder stands for the step's name in the templates.
const placeholder = "STEPNAME"

// New makes the folder dir with a step called name: a template that builds, the SDK, and a case that passes. Nothing
// that is there is changed. Errors: Invalid (the name), Exists (dir is there and not empty), and those of the disk.
func New(dir, name string, l Language) error {
	if err := edgewise.CheckName(name); err != nil {
		return edgewise.Errorf("step.New", edgewise.Invalid, "%w", err)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return edgewise.Errorf("step.New", edgewise.Exists, "%s is there already, and not empty", dir)
	}
	template, err := fs.Sub(sdk.Files(), "template/"+l.String())
	if err != nil {
		return edgewise.Errorf("step.New", edgewise.Internal, "%w", err)
	}
	if err := copyOut(template, dir, name); err != nil {
		return err
	}
	return writeSDK(filepath.Join(dir, sdkFolder), l)
}

// writeSDK writes the SDK of a language into dir.
func writeSDK(dir string, l Language) error {
	files, err := fs.Sub(sdk.Files(), l.String())
	if err != nil {
		return edgewise.Errorf("step.New", edgewise.Internal, "%w", err)
	}
	return copyOut(files, dir, "")
}

// copyOut writes the files of from below dir, but not worked examples, conformance steps and tests. The ending .txt of
// files that would disturb the tree they come from is left out; name takes the placeholder's place.
func copyOut(from fs.FS, dir, name string) error {
	return fs.WalkDir(from, ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return edgewise.Errorf("step.New", edgewise.Internal, "%w", err)
		}
		if entry.IsDir() {
			if p == "example" || p == "conformance" {
				return fs.SkipDir
			}
			return made(os.MkdirAll(filepath.Join(dir, filepath.FromSlash(p)), 0o755))
		}
		if strings.HasSuffix(p, "_test.go") {
			return nil
		}
		data, err := fs.ReadFile(from, p)
		if err != nil {
			return edgewise.Errorf("step.New", edgewise.Internal, "%w", err)
		}
		if name != "" {
			data = bytes.ReplaceAll(data, []byte(placeholder), []byte(name))
		}
		target := strings.TrimSuffix(p, ".txt")
		if path.Ext(target) == "" {
			target = p // a text, not a file in disguise
		}
		return made(os.WriteFile(filepath.Join(dir, filepath.FromSlash(target)), data, 0o644))
	})
}

// made classifies an error of the disk.
func made(err error) error {
	if err == nil {
		return nil
	}
	kind := edgewise.Internal
	if os.IsPermission(err) {
		kind = edgewise.Denied
	}
	return edgewise.Errorf("step.New", kind, "%w", err)
}
