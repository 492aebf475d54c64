package external

import (
	"context"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise/api/backend/conformance"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// Check checks that the backend keeps the rules of docs/backends.md, in the sandbox that it would have. Without a
// conformance model, and without model, a folder of one that it serves, only rules that need none are checked. lines is
// given what the backend writes. Error: the backend cannot be tried at all.
func (m *Manifest) Check(
	ctx context.Context, model string, lines func([]byte), tell func(conformance.Result),
) error {
	parent, err := os.MkdirTemp("", "edgewise-backend-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(parent) }()
	if model == "" && m.Conformance != "" {
		model = filepath.Join(m.Folder, m.Conformance)
	}
	files := parent // nothing is in it
	if model != "" {
		if files, err = filepath.Abs(filepath.Join(model, "1")); err != nil {
			return err
		}
	}
	f, err := newFolder(parent, files, conformance.Model, 1, m.Scratch > 0)
	if err != nil {
		return err
	}
	t := &task{manifest: m, folder: f}
	kit := conformance.Kit{
		Model: f.root, Start: func(files []*os.File) (conformance.Process, error) { return t.try(files, lines) },
	}
	kit.Run(ctx, func(name string) bool { return model != "" || name == "start.version" }, tell)
	return nil
}

// tried is a process that is checked.
type tried struct{ *child.Process }

func (p tried) Kill()                 { p.Process.Kill("killed at the end of a check") }
func (p tried) Done() <-chan struct{} { return p.Dead() }

func (p tried) Exit() string {
	if p.Cause() == "exit status 0" {
		return ""
	}
	return p.Cause()
}

// try starts a process with files of the one who checks it.
func (t *task) try(files []*os.File, lines func([]byte)) (conformance.Process, error) {
	p, err := t.process(child.Command{Files: files, Line: func(_ int, line []byte) { lines(line) }})
	if err != nil {
		return nil, err
	}
	return tried{p}, nil
}
