package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/google/go-cmp/cmp"
)

// texts is an ImportSource of texts by digest.
type texts struct {
	byDigest map[edgewise.Digest]string
	check    func(v *edgewise.Version, dir string) error
}

func (t *texts) Open(f edgewise.File) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(t.byDigest[f.Digest])), nil
}

func (t *texts) Check(_ context.Context, v *edgewise.Version, dir string) error {
	if t.check == nil {
		return nil
	}
	return t.check(v, dir)
}

// version returns a version of files (path to content), as another store would describe it.
func (t *texts) version(tb testing.TB, name string, number int64, files map[string]string) *edgewise.Version {
	v := &edgewise.Version{ID: edgewise.ModelID{Name: name, Version: number}, Model: model(name), Origin: "test"}
	for path, content := range files {
		f := edgewise.File{Path: path, Size: int64(len(content)), Digest: digestOfText(content)}
		t.byDigest[f.Digest] = content
		v.Files, v.Size = append(v.Files, f), v.Size+f.Size
	}
	slices.SortFunc(v.Files, func(a, b edgewise.File) int { return strings.Compare(a.Path, b.Path) })
	if _, err := encodeManifest(v); err != nil && tb != nil {
		tb.Fatal(err)
	}
	return v
}

// bring imports two models with three versions, which share a file with each other and with what is stored.
func bring(s *Store, far, near string) error {
	from := &texts{byDigest: map[edgewise.Digest]string{}}
	list := []Import{
		{Name: far, Wanted: true, Labels: []edgewise.Label{{Name: "live", Version: 4, History: []int64{2}}}, Versions: []*edgewise.Version{
			from.version(nil, far, 2, map[string]string{"a.bin": far, "d/shared.bin": "shared"}),
			from.version(nil, far, 4, map[string]string{"a.bin": far + "4", "d/own.bin": far}),
		}},
		{Name: near, Versions: []*edgewise.Version{from.version(nil, near, 1, map[string]string{"a.bin": far})}},
	}
	b, err := s.Stage(ctx, list, from)
	if err != nil {
		return err
	}
	return errors.Join(b.Put(ctx), b.Discard())
}

func TestABatchBeginsToExistAsAWhole(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	mustUpload(t, s, "cat", 0, map[string]string{"m": "shared"})
	before := s.Records()
	if err := bring(s, "far", "near"); err != nil {
		t.Fatal(err)
	}
	records := s.Records()
	if len(records) != 3 || records[1].Label("live") != 4 || !records[1].Wanted || records[2].Wanted || len(records[1].Versions) != 2 {
		t.Fatal(cmp.Diff(before, records))
	}
	if got := read(t, s, edgewise.ModelID{Name: "far", Version: 4}, "d/own.bin"); got != "far" {
		t.Errorf("read %q", got)
	}
	wantWhole(t, s)
	if u := &s.budget; u.inFlight != 0 || u.promised != 0 {
		t.Errorf("%d uploads are in flight, with %d bytes promised", u.inFlight, u.promised)
	}
	closeStore(t, s)
	if diff := cmp.Diff(records, open(t, dir, quiet()).Records()); diff != "" {
		t.Error(diff)
	}
}

func TestABatchThatIsRefusedLeavesNothing(t *testing.T) {
	cause := edgewise.Errorf("test", edgewise.Unsupported, "no")
	for name, test := range map[string]struct {
		spoil func(list []Import, from *texts)
		kind  edgewise.Kind
		part  string
	}{
		"a version that is stored": {func(l []Import, _ *texts) {
			l[1].Versions[0].ID = edgewise.ModelID{Name: "cat", Version: 1}
			l[1].Name = "cat"
		}, edgewise.Exists, `"cat" version 1`},
		"labels of a stored model":    {func(l []Import, _ *texts) { l[1].Name, l[1].Wanted = "cat", true }, edgewise.Conflict, `"cat"`},
		"a label without its version": {func(l []Import, _ *texts) { l[0].Labels[0].Version = 9 }, edgewise.Invalid, "version 9"},
		"a label twice": {
			func(l []Import, _ *texts) { l[0].Labels = append(l[0].Labels, l[0].Labels[0]) },
			edgewise.Invalid, "twice",
		},
		"a label that is a number": {
			func(l []Import, _ *texts) { l[0].Labels[0].Name = "7" }, edgewise.Invalid,
			"must not look like a version",
		},
		"a version twice": {func(l []Import,
			_ *texts,
		) {
			l[0].Versions = append(l[0].Versions, l[0].Versions[0])
		}, edgewise.Conflict, `"far" version 2`},
		"another digest": {
			func(l []Import, _ *texts) { l[1].Versions[0].Digest = digestOfText("x") },
			edgewise.Corrupt, "instead of",
		},
		"other content": {
			func(_ []Import, f *texts) { f.byDigest[digestOfText("second")] = "secxnd" },
			edgewise.Corrupt, "SHA-256",
		},
		"too few bytes":       {func(_ []Import, f *texts) { f.byDigest[digestOfText("second")] = "sec" }, edgewise.Invalid, "3 came"},
		"a path out of it":    {func(l []Import, _ *texts) { l[1].Versions[0].Files[0].Path = "../x" }, edgewise.Invalid, "../x"},
		"a name that is none": {func(l []Import, _ *texts) { l[1].Versions[0].ID.Name = "../x" }, edgewise.Invalid, "../x"},
		"a number too high": {
			func(l []Import, _ *texts) { l[1].Versions[0].ID.Version = MaxVersion + 1 },
			edgewise.Invalid, "too high",
		},
		"a check that fails": {func(_ []Import,
			f *texts,
		) {
			f.check = func(*edgewise.Version, string) error { return cause }
		}, edgewise.Unsupported, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), quiet())
			mustUpload(t, s, "cat", 0, map[string]string{"m": "stored"})
			before := s.Records()
			from := &texts{byDigest: map[edgewise.Digest]string{}}
			list := []Import{
				{
					Name: "far", Wanted: true, Labels: []edgewise.Label{{Name: "live", Version: 2}},
					Versions: []*edgewise.Version{from.version(t, "far", 2, map[string]string{"a": "first"})},
				},
				{Name: "near", Versions: []*edgewise.Version{from.version(t, "near", 1, map[string]string{"b": "second"})}},
			}
			test.spoil(list, from)
			b, err := s.Stage(ctx, list, from)
			if err == nil {
				err = b.Put(ctx)
			}
			wantKind(t, err, test.kind, test.part)
			if diff := cmp.Diff(before, s.Records()); diff != "" {
				t.Errorf("something is there:\n%s", diff)
			}
			wantWhole(t, s)
			for _, folder := range []string{s.root.staging(), filepath.Join(s.root.models(), "far"), filepath.Join(s.root.models(), "near")} {
				if left, _ := os.ReadDir(folder); len(left) > 0 {
					t.Errorf("%s is left in %s", left[0].Name(), filepath.Base(folder))
				}
			}
			if u := &s.budget; u.inFlight != 0 || u.promised != 0 {
				t.Errorf("%d uploads are in flight, with %d bytes promised", u.inFlight, u.promised)
			}
		})
	}
}

func digestOfText(text string) edgewise.Digest {
	sum := sha256.Sum256([]byte(text))
	return edgewise.Digest(hex.EncodeToString(sum[:]))
}
