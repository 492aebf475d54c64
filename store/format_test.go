package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/later"
)

func TestWhatALaterReleaseHasAddedIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	v := mustUpload(t, s, "cat", 0, map[string]string{"m": "1"})
	mustLabel(t, s, "cat", "live", v.ID.Version)
	added := later.Make(t, s.db, "9", "1", [][]byte{versionsBucket, labelsBucket, blobsBucket})
	closeStore(t, s)

	s = open(t, dir, quiet())
	r, err := s.Record("cat")
	if err != nil || r.Label("live") != v.ID.Version || r.Version(v.ID.Version).Digest != v.Digest {
		t.Fatalf("read %+v, %v", r, err)
	}
	second := mustUpload(t, s, "cat", 0, map[string]string{"m": "2"})
	mustLabel(t, s, "cat", "live", second.ID.Version)
	if _, err := s.Rollback(context.Background(), "cat", "live"); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteVersion(context.Background(), second.ID); err != nil {
		t.Fatal(err)
	}
	later.WantAdded(t, s.db, added)
	closeStore(t, s)
	if s = open(t, dir, quiet()); len(s.Records()) != 1 {
		t.Errorf("after a second start: %+v", s.Records())
	}
	closeStore(t, s)
	_, err = Repair(context.Background(), dir, quiet())
	wantKind(t, err, edgewise.Unsupported, "schema 9", "with the release that wrote it")
}

func TestWhatNeedsALaterReaderIsRefused(t *testing.T) {
	tests := []struct {
		name, schema, reader string
		kind                 edgewise.Kind
		texts                []string
	}{
		{"it says which", "9", "8", edgewise.Unsupported, []string{"schema 9", "from schema 8 on", "schema 1"}},
		{"it says nothing", "9", "", edgewise.Unsupported, []string{"schema 9", "schema 1"}},
		{"a reader that is no number", "9", "all", edgewise.Corrupt, []string{"reader", "all"}},
		{"a schema that is no number", "nine", "1", edgewise.Corrupt, []string{"schema", "nine"}},
		{"a schema below all", "0", "1", edgewise.Corrupt, []string{"schema", "0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, quiet())
			later.Make(t, s.db, tt.schema, tt.reader, nil)
			closeStore(t, s)
			before, err := os.ReadFile(filepath.Join(dir, catalogFile))
			if err != nil {
				t.Fatal(err)
			}
			_, err = Open(dir, quiet())
			wantKind(t, err, tt.kind, tt.texts...)
			if after, err := os.ReadFile(filepath.Join(dir, catalogFile)); err != nil || string(after) != string(before) {
				t.Errorf("what cannot be read was changed: %v", err)
			}
		})
	}
}
