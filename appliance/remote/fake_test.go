package remote

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// TestMain is also the program that fetches, from a folder: this binary under the name of that program.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == child.LaunchVerb:
		os.Exit(child.RunLaunch())
	case strings.HasSuffix(os.Args[0], "edgewise-fetch"):
		if err := fetch.Serve(context.Background(), os.Stdin, os.Stdout, fake); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fake lists and gets the files of a folder, as its file "order" says: "down", "denied", "silent" or "die" stand for
// faults.
func fake(ctx context.Context, r *fetch.Request, to fetch.Replies) error {
	tree := filepath.Join(os.Getenv("HOME"), ".aws")
	order, _ := os.ReadFile(filepath.Join(tree, "order"))
	fault, of, _ := strings.Cut(string(order), " ")
	if of != "" && of != r.Command {
		fault = ""
	}
	switch fault {
	case "down":
		return fetch.Failf(fetch.Unavailable, "connection refused")
	case "denied":
		return fetch.Failf(fetch.Denied, "%s may not", r.Credentials.KeyID)
	case "silent":
		<-ctx.Done()
	case "die":
		os.Exit(3)
	case "babble":
		_, _ = os.Stdout.WriteString("what?\n")
	case "peek":
		_, err := os.ReadFile("/etc/passwd")
		return fetch.Failf(fetch.Denied, "%v", err)
	}
	if r.Command == fetch.List {
		if strings.HasPrefix(r.URL, "oci://") {
			if err := to.Send(fetch.Reply{Artifact: &fetch.Artifact{Digest: fakeDigest, Form: fetch.FormModel}}); err != nil {
				return err
			}
		}
		return fakeList(filepath.Join(tree, "files"), strings.HasPrefix(r.URL, "oci://"), to)
	}
	for _, e := range r.Files {
		if err := fakeGet(filepath.Join(tree, "files"), e, r.Folder, to); err != nil {
			return err
		}
	}
	return nil
}

// fakeDigest is that of the fake's artifact.
const fakeDigest = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

// fakeList lists files, with their digests where a registry does.
func fakeList(tree string, digests bool, to fetch.Replies) error {
	return filepath.WalkDir(tree, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(tree, path)
		e := fetch.Entry{Name: name, Size: int64(len(data)), Tag: string(data), Changed: 1}
		if digests {
			e.SHA256 = digestOf(data)
		}
		return to.Send(fetch.Reply{Entries: []fetch.Entry{e}})
	})
}

func fakeGet(tree string, e fetch.Entry, folder string, to fetch.Replies) error {
	data, err := os.ReadFile(filepath.Join(tree, e.Name))
	if err != nil || string(data) != e.Tag {
		return to.Send(fetch.Reply{Failure: &fetch.Failure{Kind: fetch.Changed, Object: e.Name, Message: "it has changed"}})
	}
	digest := digestOf(data)
	for name, content := range map[string]string{"keys/" + e.Key(): digest, "files/" + digest: string(data)} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return to.Send(fetch.Reply{File: &fetch.Fetched{Name: e.Name, Key: e.Key(), SHA256: digest, Size: e.Size, Received: e.Size}})
}

// fakeStore is a tree in a store that is a folder.
type fakeStore struct {
	*testing.T
	home   string
	config config.Config
	log    *strings.Builder
}

func newStore(t *testing.T, files ...string) *fakeStore {
	t.Helper()
	s := &fakeStore{T: t, home: t.TempDir(), log: &strings.Builder{}}
	s.config = config.Config{DataDir: t.TempDir(), Environment: []string{"HOME=" + s.home}}
	for _, file := range files {
		s.put(file, "content of "+file)
	}
	return s
}

func (s *fakeStore) put(name, content string) {
	s.Helper()
	path := filepath.Join(s.home, ".aws", "files", name)
	s.must(os.MkdirAll(filepath.Dir(path), 0o755))
	s.must(os.WriteFile(path, []byte(content), 0o644))
}

// order makes the next requests of a command, or all, fail in a way.
func (s *fakeStore) order(text string) {
	s.Helper()
	s.must(os.MkdirAll(filepath.Join(s.home, ".aws"), 0o755))
	s.must(os.WriteFile(filepath.Join(s.home, ".aws", "order"), []byte(text), 0o644))
}

func (s *fakeStore) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// open opens the tree, as a box does that has just started.
func (s *fakeStore) open() *Tree {
	s.Helper()
	own, err := os.Executable()
	s.must(err)
	program := filepath.Join(s.TempDir(), "edgewise-fetch")
	s.must(os.Link(own, program))
	t := Open(s.config, "s3://bucket/models", []string{"model.onnx"}, slog.New(slog.NewTextHandler(s.log, nil)))
	t.program = program
	t.memory = 4 << 30 // with the race detector this program takes more than what it stands for
	return t
}

// names lists the models of a tree.
func names(t *Tree) string {
	folders, _, err := t.Tree().Folders()
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, f := range folders {
		list = append(list, f.Name)
	}
	return strings.Join(list, " ")
}

// fetchAll fetches every file of the tree that is seen.
func fetchAll(ctx context.Context, t *Tree) error {
	s := t.seen.Load()
	var list []string
	for name, e := range s.entries {
		if !e.folder {
			list = append(list, name)
		}
	}
	return s.Fetch(ctx, list)
}

func read(t *Tree, name string) (string, error) {
	f, err := t.Tree().FS.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(f)
	return string(data), err
}

// wantError fails unless err has a kind and texts.
func (s *fakeStore) wantError(err error, kind edgewise.Kind, texts ...string) {
	s.Helper()
	if err == nil || edgewise.KindOf(err) != kind {
		s.Fatalf("got %v: want %v", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			s.Errorf("%q does not name %q", err, text)
		}
	}
}
