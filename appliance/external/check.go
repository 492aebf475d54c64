package external

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
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

// selfCheckTime bounds how long a backend may take to say what it lacks.
const selfCheckTime = 20 * time.Second

// Examine is List, and asks the programs that can say it what they lack to run here: all at once, for at most 20 seconds.
func (b *Backend) Examine(ctx context.Context) []admin.Backend {
	list := b.List(ctx)
	var asked sync.WaitGroup
	for i := range list {
		at := slices.IndexFunc(b.Manifests, func(m *Manifest) bool { return m.Folder == list[i].Folder })
		if !list[i].Usable || at < 0 || !b.Manifests[at].SelfCheck {
			continue
		}
		asked.Go(func() {
			list[i].Problem = b.Manifests[at].lacks(ctx)
			list[i].Usable = list[i].Problem == ""
		})
	}
	asked.Wait()
	return list
}

// lacks returns what the program of a backend lacks to run here, in the sandbox that it would have; "": nothing.
func (m *Manifest) lacks(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, selfCheckTime)
	defer cancel()
	asked, last := *m, ""
	asked.Command = append(slices.Clone(m.Command), "--check")
	t := &task{Backend: &Backend{}, manifest: &asked, folder: &folder{root: m.Folder, version: m.Folder, files: m.Folder}}
	p, err := t.process(child.Command{Line: func(_ int, line []byte) { last = strings.ToValidUTF8(string(line), "?") }})
	if err != nil {
		return err.Error()
	}
	stop := context.AfterFunc(ctx, func() { p.Kill(fmt.Sprintf("it did not say within %v what it lacks", selfCheckTime)) })
	defer stop()
	<-p.Dead()
	p.Drain()
	if p.Cause() == succeeded {
		return ""
	}
	if last == "" || ctx.Err() != nil {
		return p.Cause()
	}
	return last
}

// succeeded is the cause of the end of a process that has ended well.
const succeeded = "exit status 0"

// tried is a process that is checked.
type tried struct{ *child.Process }

func (p tried) Kill()                 { p.Process.Kill("killed at the end of a check") }
func (p tried) Done() <-chan struct{} { return p.Dead() }

func (p tried) Exit() string {
	if p.Cause() == succeeded {
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
