package httpapi_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// fakeLibrary keeps versions in memory. A version exists only if its upload ended well.
type fakeLibrary struct {
	mu      sync.Mutex // guards records and files
	records map[string]*edgewise.Record
	files   map[edgewise.ModelID]map[string]string
	sizes   []int64 // Upload.Size of each Push
	full    int     // how many calls of Room are refused
}

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newFakeLibrary() *fakeLibrary {
	return &fakeLibrary{records: make(map[string]*edgewise.Record), files: make(map[edgewise.ModelID]map[string]string)}
}

func (l *fakeLibrary) Room(size int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full == 0 {
		return nil
	}
	l.full--
	return edgewise.Errorf("fake.Room", edgewise.Exhausted, "no room for %d bytes", size)
}

func (l *fakeLibrary) Push(_ context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error) {
	files := make(map[string]string)
	for {
		path, _, body, err := up.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, edgewise.Errorf("fake", edgewise.KindOf(err), "upload: %w", err)
		}
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, edgewise.Errorf("fake", edgewise.KindOf(err), "upload: %w", err)
		}
		files[path] = string(text)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes = append(l.sizes, up.Size)
	v, err := l.put(up, files, promote)
	return &admin.Pushed{Version: v}, err
}

func (l *fakeLibrary) put(up edgewise.Upload, files map[string]string, promote bool) (*edgewise.Version, error) {
	record := l.records[up.Model]
	if record == nil {
		record = &edgewise.Record{Name: up.Model, Wanted: true}
		l.records[up.Model] = record
	}
	id := edgewise.ModelID{Name: up.Model, Version: up.Version}
	if id.Version == 0 {
		id.Version = int64(len(record.Versions) + 1)
	}
	if record.Version(id.Version) != nil {
		return nil, &edgewise.Error{
			Op: "fake", Kind: edgewise.Exists, Model: id,
			Err: edgewise.Errorf("fake", edgewise.Exists, "model %v exists", id),
		}
	}
	v := &edgewise.Version{ID: id, Model: echoModel(), Origin: up.Origin, Created: created, Digest: "abc"}
	for path, text := range files {
		v.Files = append(v.Files, edgewise.File{Path: path, Size: int64(len(text)), Digest: "def"})
		v.Size += int64(len(text))
	}
	slices.SortFunc(v.Files, func(a, b edgewise.File) int { return strings.Compare(a.Path, b.Path) })
	record.Versions = append(record.Versions, v)
	l.files[id] = files
	if promote {
		record.Labels = []edgewise.Label{{Name: edgewise.LiveLabel, Version: id.Version, Changed: created}}
	}
	return v, nil
}

func (l *fakeLibrary) versions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.files)
}

func (l *fakeLibrary) file(id edgewise.ModelID, path string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[id][path]
}

func (l *fakeLibrary) Records() []*edgewise.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*edgewise.Record
	for _, r := range l.records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *edgewise.Record) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (l *fakeLibrary) Record(name string) (*edgewise.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.records[name]; r != nil {
		return r, nil
	}
	id := edgewise.ModelID{Name: name}
	return nil, &edgewise.Error{
		Op: "fake", Kind: edgewise.NotFound, Model: id,
		Err: edgewise.Errorf("fake", edgewise.NotFound, "model %v is not stored", id),
	}
}

func (l *fakeLibrary) SetLabel(_ context.Context, name, label string, version int64) (admin.LabelMove, error) {
	if _, err := l.Record(name); err != nil {
		return admin.LabelMove{}, err
	}
	return admin.LabelMove{Label: edgewise.Label{Name: label, Version: version, Changed: created, History: []int64{1}}},
		nil
}

func (l *fakeLibrary) Rollback(_ context.Context, name, label string) (admin.LabelMove, error) {
	if label != edgewise.LiveLabel {
		return admin.LabelMove{}, edgewise.Errorf("fake", edgewise.Conflict, "label %q of model %q has no earlier version",
			label, name)
	}
	return admin.LabelMove{Label: edgewise.Label{Name: label, Version: 1, Changed: created}}, nil
}

func (l *fakeLibrary) RemoveLabel(_ context.Context, name, label string) error {
	_, err := l.Record(name)
	return err
}

func (l *fakeLibrary) DeleteVersion(_ context.Context, id edgewise.ModelID) error {
	if id.Version == 1 {
		return edgewise.Errorf("fake", edgewise.Conflict, "model %v: label \"live\" points to it", id)
	}
	return nil
}

func (l *fakeLibrary) DeleteModel(_ context.Context, name string) error {
	_, err := l.Record(name)
	return err
}

func (l *fakeLibrary) Rename(_ context.Context, name, _ string) error {
	_, err := l.Record(name)
	return err
}

func (l *fakeLibrary) Propose(_ context.Context, id edgewise.ModelID) ([]admin.Proposal, error) {
	if _, err := l.Record(id.Name); err != nil {
		return nil, err
	}
	return []admin.Proposal{{
		Task: "image classification", Because: "it says so",
		Steps: []admin.ProposalStep{{Name: "m_labels", Gallery: "labels"}},
	}}, nil
}

func (l *fakeLibrary) Inspect(_ context.Context, id edgewise.ModelID) (*edgewise.Inspection, error) {
	if _, err := l.Record(id.Name); err != nil {
		return nil, err
	}
	return &edgewise.Inspection{Producer: "pytorch", Opsets: map[string]int64{"ai.onnx": 17}, Nodes: 2}, nil
}

// labelled returns the version that a label points to; 0 for none.
func (l *fakeLibrary) labelled(name, label string) int64 {
	record, err := l.Record(name)
	if err != nil {
		return 0
	}
	return record.Label(label)
}
