package appliance

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/editor"
	examples "github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/appliance/golden"
	"github.com/edgewise-ai/edgewise/appliance/importer"
	"github.com/edgewise-ai/edgewise/appliance/monitor"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/appliance/rollout"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
	"github.com/edgewise-ai/edgewise/store"
	"github.com/edgewise-ai/edgewise/store/documents"
	"github.com/edgewise-ai/edgewise/test/models"
)

// storage is as much of a box as stores what a backup brings, in a data folder of its own. Nothing is loaded.
type storage struct {
	*App
	dir string
}

// openStorage opens what a start opens, without listeners and models.
func openStorage(t testing.TB, dir string) *storage {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	a := &App{
		formats: Formats(), config: config.Default(), logger: logger, monitor: monitor.New(nil),
	}
	var err error
	if a.store, err = store.Open(dir, store.Options{SnapshotEvery: -1, Logger: logger}); err != nil {
		t.Fatalf("the store does not open: %v", err)
	}
	if a.documents, err = documents.Open(dir, documents.Options{SnapshotEvery: -1}); err != nil {
		t.Fatalf("the documents do not open: %v", err)
	}
	a.box = &box{app: a, documents: a.documents}
	if err := a.box.load(); err != nil {
		t.Fatalf("the box's documents do not load: %v", err)
	}
	cheap := auth.Cost{Memory: 8, Time: 1, Threads: 1}
	if a.accounts, err = auth.Open(auth.Config{Documents: a.documents, Times: a.box.sessionTimes, Hashing: cheap}); err != nil {
		t.Fatalf("the accounts do not open: %v", err)
	}
	a.external = serving.External(a.config, a.hardware, a.nested(), controller{a}, logger)
	a.notes, a.history = registry.NewNotes(a.documents), registry.NewHistory(a.documents, a.publish, a.names.Now, logger)
	loader := serving.New(serving.Config{Backends: []edgewise.Backend{&models.Echo{}}, Defaults: a.defaults(), Devices: models.NoGPUs{}})
	a.registry = registry.New(registry.Config{
		Store: a.store, Serving: loader, Documents: a.documents, History: a.history, Logger: logger,
	})
	a.editor = a.newEditor()
	a.config.DataDir = dir
	if err := errors.Join(a.openImporter(), a.openGoldens()); err != nil {
		t.Fatalf("the uploads do not open: %v", err)
	}
	return &storage{a, dir}
}

func (s *storage) close(t testing.TB) {
	t.Helper()
	if err := errors.Join(s.accounts.Close(), s.documents.Close(), s.store.Close()); err != nil {
		t.Fatal(err)
	}
}

// state is everything that a restore may change.
type state struct {
	Records   []*edgewise.Record
	Documents map[string]string
	Settings  admin.Settings
}

func (s *storage) state(t testing.TB) state {
	t.Helper()
	now := state{Records: s.store.Records(), Documents: map[string]string{}, Settings: s.box.Settings()}
	buckets := []string{
		registry.NotesBucket, editor.DraftsBucket, boxBucket, "users", "keys", golden.Bucket, golden.SettingsBucket,
		rollout.SettingsBucket,
	}
	err := s.documents.View(func(tx edgewise.DocumentsTx) error {
		for _, bucket := range buckets {
			if err := tx.Each(bucket, func(key string, value []byte) error {
				now.Documents[bucket+"/"+key] = string(value)
				return nil
			}); err != nil {
				return err
			}
		}
		tx.Forward(registry.DeploymentsBucket, func(number uint64, value []byte) bool {
			now.Documents["deployments/"+string(rune(number))] = string(value)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// take reads a backup as a job does and restores it, without activating anything.
func (s *storage) take(ctx context.Context, file []byte) error {
	path, folder := filepath.Join(s.dir, "upload.edgewise-backup"), filepath.Join(s.dir, "unpacked")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return err
	}
	limits := uploads.Limits{Bytes: 1 << 20, Files: 100, Room: s.store.Room}
	if err := uploads.Unpack("tar", path, folder, limits, func(int64) {}); err != nil {
		return err
	}
	m, err := importer.ReadBackup(folder)
	if err != nil {
		return err
	}
	_, err = s.importer.Restore(ctx, m, true)
	return err
}

// example returns a backup of a box that has something of everything.
func example(t testing.TB) []byte {
	t.Helper()
	s := openStorage(t, t.TempDir())
	defer s.close(t)
	ctx := context.Background()
	for _, name := range []string{"cat", "dog"} {
		for _, content := range []string{"one", "two"} {
			g, err := s.store.Begin(ctx, -1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Add(ctx, "model.onnx", -1, strings.NewReader(name+content)); err != nil {
				t.Fatal(err)
			}
			m, err := s.registry.Understand(ctx, name, g.Dir(), []string{"model.onnx"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.store.Put(ctx, g, edgewise.Version{ID: edgewise.ModelID{Name: name}, Model: m, Origin: "test"}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.store.SetLabel(ctx, name, "live", 2); err != nil {
			t.Fatal(err)
		}
		s.history.Note(ctx, admin.Deployment{Model: name, Label: "live", To: 2}, time.Now(), nil)
	}
	_, made := s.accounts.CreateUser(admin.UserNew{Name: "anna", Role: "admin", Password: "a staple for my paper"})
	_, keyed := s.accounts.CreateKey(admin.KeyNew{Name: "camera", Rights: []string{"infer"}},
		&edgewise.Principal{Kind: "person", Name: "anna", Rights: edgewise.AllRights})
	_, drafted := s.editor.CreateDraft(&edgewise.Principal{Name: "anna"}, admin.DraftNew{Name: "both", Config: json.RawMessage("{}")})
	_, changed := s.box.ChangeSettings(admin.SettingsChange{Name: ptr("the box")})
	if err := errors.Join(made, keyed, drafted, changed, s.notes.Set(edgewise.ModelID{Name: "cat", Version: 2}, "purrs")); err != nil {
		t.Fatal(err)
	}
	s.addGoldens(t)
	var b bytes.Buffer
	if err := s.importer.WriteBackup(ctx, &b, true); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// addGoldens gives a model goldens, of which one is damaged, and plans of rollouts.
func (s *storage) addGoldens(t testing.TB) {
	t.Helper()
	answer := edgewise.AppendElement(nil, "meow")
	for _, name := range []string{"first", "damaged"} {
		one, err := s.goldens.Add(&edgewise.Principal{Name: "anna"}, name, &examples.Example{
			Model:   edgewise.ModelID{Name: "cat", Version: 2},
			Inputs:  []edgewise.Tensor{{Name: "in", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, name)}},
			Outputs: []edgewise.Tensor{{Name: "out", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: answer}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if name == "damaged" {
			if err := os.WriteFile(filepath.Join(s.dir, goldensFolder, string(one.Digest)), []byte("?"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := s.goldens.Configure("cat", admin.GoldenSettings{Policy: admin.GoldensWarn, Rules: []admin.CompareRule{}})
	planned := s.documents.Update(func(tx edgewise.DocumentsTx) error {
		return tx.Put(rollout.SettingsBucket, "cat", []byte(`{"plan":{"stages":[{"percent":7,"requests":100}]}}`))
	})
	if err := errors.Join(err, planned); err != nil {
		t.Fatal(err)
	}
}

func ptr[T any](v T) *T { return &v }

// withManifest returns a backup with the manifest changed, and its digest set right.
func withManifest(t testing.TB, file []byte, change func(manifest []byte) []byte) []byte {
	t.Helper()
	folder, path := filepath.Join(t.TempDir(), "unpacked"), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := uploads.Unpack("tar", path, folder, uploads.Limits{
		Bytes: 1 << 20, Files: 100,
		Room: func(int64) error { return nil },
	}, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, importer.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	text = change(text)
	sum := sha256.Sum256(text)
	files := map[string][]byte{importer.ManifestFile: text, importer.DigestFile: []byte(hex.EncodeToString(sum[:]))}
	blobs, err := os.ReadDir(filepath.Join(folder, importer.FilesFolder))
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs {
		if files[importer.FilesFolder+blob.Name()], err = os.ReadFile(filepath.Join(folder, importer.FilesFolder, blob.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return packed(t, files)
}

// edited is withManifest for a change of the decoded manifest.
func edited(t testing.TB, file []byte, edit func(m *importer.Backup)) []byte {
	return withManifest(t, file, func(text []byte) []byte {
		m := &importer.Backup{}
		if err := json.Unmarshal(text, m); err != nil {
			t.Fatal(err)
		}
		edit(m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return text
	})
}

func TestABackupIsRestoredAsAWhole(t *testing.T) {
	file := example(t)
	s := openStorage(t, t.TempDir())
	if err := s.take(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	now := s.state(t)
	if len(now.Records) != 2 || now.Records[0].Label("live") != 2 || !now.Records[0].Wanted || len(now.Documents) != 4+1+2+3 {
		t.Errorf("%d models, documents %v", len(now.Records), slices.Collect(maps.Keys(now.Documents)))
	}
	s.close(t)
	again := openStorage(t, s.dir)
	defer again.close(t)
	if diff := cmp.Diff(now.Records, again.store.Records()); diff != "" {
		t.Errorf("the next start finds something else:\n%s", diff)
	}
	kept, err := again.goldens.List("cat")
	if err != nil || len(kept.Goldens) != 1 || kept.Goldens[0].Name != "first" || kept.Policy != admin.GoldensWarn {
		t.Fatalf("goldens %+v, %v", kept, err)
	}
	if data, err := again.goldens.Example("cat", kept.Goldens[0].ID); err != nil || !bytes.Contains(data, []byte("meow")) {
		t.Errorf("the example is %q, %v", data, err)
	}
	if users := again.accounts.Users(); len(users) != 1 || users[0].Name != "anna" || again.box.Settings().Name != "the box" {
		t.Errorf("users %v, settings %v", users, again.box.Settings())
	}
}

// exampleOf makes a file the example of a golden.
func exampleOf(model string, file func(m *importer.Backup) edgewise.File) func(m *importer.Backup) {
	return func(m *importer.Backup) {
		f := file(m)
		text, _ := json.Marshal(admin.Golden{ID: "ab", Size: f.Size, Digest: f.Digest})
		m.Buckets["goldens"][model+"\x00ab"] = text
	}
}

// TestAMalformedBackupChangesNothing changes a backup in ways that a checksum does not show. What is refused leaves the box as it was, and
// the next start succeeds.
func TestAMalformedBackupChangesNothing(t *testing.T) {
	file := example(t)
	put := func(bucket, key, value string) func(m *importer.Backup) {
		return func(m *importer.Backup) {
			if m.Buckets[bucket] == nil {
				m.Buckets[bucket] = map[string][]byte{}
			}
			m.Buckets[bucket][key] = []byte(value)
		}
	}
	for name, test := range map[string]struct {
		edit func(m *importer.Backup)
		want string
	}{
		"a user that is no JSON":      {put("users", "bert", "{"), `users: document "bert": it is not the JSON`},
		"a user that is a list":       {put("users", "bert", "[]"), `users: document "bert"`},
		"a user under another name":   {put("users", "bert", `{"name":"carl","role":"admin"}`), `it is of the user "carl"`},
		"a user with an unknown role": {put("users", "bert", `{"name":"bert","role":"king"}`), "king"},
		"a user with a costly hash": {put("users", "bert",
			`{"name":"bert","role":"admin","password":"$argon2id$v=19$m=99999999,t=1,p=1$AAAA$AAAA"}`), "not a hash"},
		"a key that is no JSON":   {put("keys", "ab", "nothing"), `keys: document "ab"`},
		"a key with a short hash": {put("keys", "ab", `{"id":"ab","hash":"ff","name":"x","rights":2}`), "64 hexadecimal digits"},
		"a key with rights beyond all": {put("keys", "ab", `{"id":"ab","hash":"`+strings.Repeat("ab",
			32)+`","name":"x","rights":255}`), "rights 255"},
		"a draft that is no JSON":  {put("drafts", "ab", "{]"), `drafts: document "ab"`},
		"a draft under another id": {put("drafts", "ab", `{"id":"cd","name":"x","config":{}}`), `its id is "cd"`},
		"notes about no name":      {put("notes", "../x", "text"), "../x"},
		"notes that are too long":  {put("notes", "cat", strings.Repeat("x", admin.MaxNotesBytes+1)), "10001 bytes"},
		"a golden that is no JSON": {put("goldens", "cat\x00ab", "{"), `goldens: document`},
		"a golden without its example": {
			put("goldens", "cat\x00ab", `{"id":"ab","size":1,"digest":"`+strings.Repeat("0", 64)+`"}`), "lacks file",
		},
		"a golden whose example is none": {exampleOf("cat", func(m *importer.Backup) edgewise.File {
			return m.Models[0].Versions[0].Files[0]
		}), "is no example"},
		"a golden of another model": {exampleOf("mouse", func(m *importer.Backup) edgewise.File {
			return m.Models[0].Versions[0].Files[0]
		}), `goldens of model "mouse"`},
		"too many goldens": {func(m *importer.Backup) {
			for key, value := range maps.Clone(m.Buckets["goldens"]) {
				for i := range golden.MaxGoldens {
					m.Buckets["goldens"][fmt.Sprint(key, i)] = value
				}
			}
		}, "201 goldens"},
		"a policy that is none":         {put("golden_settings", "cat", `{"policy":"perhaps"}`), "perhaps"},
		"a plan that is none":           {put("rollout_settings", "cat", `{"plan":{"watch_seconds":-1}}`), "watch_seconds"},
		"sessions":                      {put("sessions", "ab", "{}"), `"sessions", which a backup does not have`},
		"the claim code":                {put("claim", "code", "AAAA"), `"claim", which a backup does not have`},
		"settings out of their bounds":  {func(m *importer.Backup) { m.Settings.Session = 1 }, "session_seconds is 1"},
		"too many drafts":               {func(m *importer.Backup) { fillDrafts(m, editor.MaxDrafts) }, "101 drafts: at most 100"},
		"a model twice":                 {func(m *importer.Backup) { m.Models = append(m.Models, m.Models[0]) }, "in it twice"},
		"a model that is none":          {func(m *importer.Backup) { m.Models[0].Name = "../cat" }, "../cat"},
		"a version without declaration": {func(m *importer.Backup) { m.Models[1].Versions[1].Model = nil }, "without declaration"},
		"a version without files":       {func(m *importer.Backup) { m.Models[1].Versions[1].Files = nil }, "or files"},
		"a version with another size":   {func(m *importer.Backup) { m.Models[1].Versions[1].Size++ }, "its files have"},
		"a version with a huge number":  {func(m *importer.Backup) { m.Models[1].Versions[1].ID.Version = 1<<63 - 1 }, "numbers from 1"},
		"a version twice":               {func(m *importer.Backup) { m.Models[1].Versions[1].ID.Version = 1 }, "each once"},
		"a label to nowhere":            {func(m *importer.Backup) { m.Models[1].Labels[0].Version = 7 }, "points to version 7"},
		"a label that is a number":      {func(m *importer.Backup) { m.Models[1].Labels[0].Name = "7" }, "must not look like a version"},
		"a file out of its folder":      {func(m *importer.Backup) { m.Models[1].Versions[1].Files[0].Path = "../../x" }, "../../x"},
		"a file that is not there": {func(m *importer.Backup) {
			m.Models[1].Versions[1].Files[0].Digest = edgewise.Digest(strings.Repeat("0", 64))
		}, "lacks file"},
		"a digest out of its folder": {func(m *importer.Backup) { m.Models[1].Versions[1].Files[0].Digest = "../manifest.json" }, "digest"},
		"a version with another digest": {func(m *importer.Backup) {
			m.Models[1].Versions[1].Digest = edgewise.Digest(
				strings.Repeat("0", 64))
		}, "instead of 0000"},
		"a declaration that cannot be":    {func(m *importer.Backup) { m.Models[1].Versions[1].Model.MaxBatchSize = -1 }, ""},
		"a declaration without a backend": {func(m *importer.Backup) { m.Models[1].Versions[1].Model.Platform = "abacus" }, "abacus"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStorage(t, t.TempDir())
			before := s.state(t)
			err := s.take(t.Context(), edited(t, file, test.edit))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			if diff := cmp.Diff(before, s.state(t)); diff != "" {
				t.Errorf("something has changed:\n%s", diff)
			}
			if strings.Contains(name, "hash") && err != nil && strings.Contains(err.Error(), "AAAA") {
				t.Errorf("the error %v quotes a hash", err)
			}
			s.close(t)
			openStorage(t, s.dir).close(t)
		})
	}
}

func fillDrafts(m *importer.Backup, count int) {
	for i := range count {
		id := hex.EncodeToString([]byte{byte(i)})
		m.Buckets[editor.DraftsBucket][id] = []byte(`{"id":"` + id + `","name":"x","config":{}}`)
	}
}

// TestADamagedDocumentDoesNotKeepTheBoxFromStarting stores what an older release could store.
func TestADamagedDocumentDoesNotKeepTheBoxFromStarting(t *testing.T) {
	s := openStorage(t, t.TempDir())
	if err := s.take(t.Context(), example(t)); err != nil {
		t.Fatal(err)
	}
	err := s.documents.Update(func(tx edgewise.DocumentsTx) error {
		return errors.Join(tx.Put("users", "bert", []byte("not JSON")), tx.Put("keys", "ab", []byte("{")), tx.Put("sessions", "ab", []byte("1")),
			tx.Put(boxBucket, settingsKey, []byte("[]")), tx.Put(editor.DraftsBucket, "ab", []byte("{")))
	})
	if err != nil {
		t.Fatal(err)
	}
	s.close(t)
	s = openStorage(t, s.dir)
	if users := s.accounts.Users(); len(users) != 1 || users[0].Name != "anna" || !s.accounts.Claimed() {
		t.Errorf("users %v, claimed %v", users, s.accounts.Claimed())
	}
	s.close(t)
	found, err := documents.Examine(s.dir, checkDocument)
	if err != nil || len(found) != 5 {
		t.Errorf("the doctor finds %v, %v", found, err)
	}
	if found, err = documents.Repair(s.dir, checkDocument); err != nil || len(found) != 5 {
		t.Errorf("the doctor mends %v, %v", found, err)
	}
	if found, err = documents.Examine(s.dir, checkDocument); err != nil || len(found) != 0 {
		t.Errorf("behind that it finds %v, %v", found, err)
	}
}

// TestABoxWhoseUsersAreAllDamagedStaysClaimed has no claim code for the first who comes.
func TestABoxWhoseUsersAreAllDamagedStaysClaimed(t *testing.T) {
	s := openStorage(t, t.TempDir())
	if err := s.documents.Update(func(tx edgewise.DocumentsTx) error { return tx.Put("users", "anna", []byte("?")) }); err != nil {
		t.Fatal(err)
	}
	s.close(t)
	s = openStorage(t, s.dir)
	defer s.close(t)
	if !s.accounts.Claimed() || s.accounts.ClaimCode() != "" {
		t.Errorf("the box has the claim code %q", s.accounts.ClaimCode())
	}
}

// FuzzBackup restores manifests of any content. What is refused changes nothing; what is restored passes every check of the doctor and
// is read by the next start.
func FuzzBackup(f *testing.F) {
	file := example(f)
	withManifest(f, file, func(text []byte) []byte {
		f.Add(text)
		return text
	})
	f.Add([]byte(`{"format":1,"models":[{"name":"cat","versions":[{"id":{"name":"cat","version":1}}]}],"buckets":{"users":{"bert":"e30="}}}`))
	f.Add([]byte(`{"format":1,"models":[null,{"name":"a","versions":[null]}],"settings":null,"buckets":{"drafts":null}}`))
	// What is refused changes nothing, so the storage serves until something is restored.
	base, s := f.TempDir(), (*storage)(nil)
	f.Cleanup(func() {
		if s != nil {
			s.close(f)
		}
	})
	f.Fuzz(func(t *testing.T, manifest []byte) {
		if s == nil {
			dir, err := os.MkdirTemp(base, "")
			if err != nil {
				t.Fatal(err)
			}
			s = openStorage(t, dir)
		}
		before := s.state(t)
		err := s.take(t.Context(), withManifest(t, file, func([]byte) []byte { return manifest }))
		if err != nil {
			if diff := cmp.Diff(before, s.state(t)); diff != "" {
				t.Fatalf("refused with %v, and something has changed:\n%s", err, diff)
			}
			return
		}
		stored := s.state(t)
		s.close(t)
		dir := s.dir
		s = nil
		if found, err := documents.Examine(dir, checkDocument); err != nil || len(found) > 0 {
			t.Fatalf("the doctor finds %v, %v", found, err)
		}
		again := openStorage(t, dir)
		defer again.close(t)
		if now := again.state(t); !maps.Equal(now.Documents, stored.Documents) || !cmp.Equal(now.Records, stored.Records) {
			t.Fatalf("the next start finds something else:\n%s", cmp.Diff(stored, now))
		}
		if report, err := again.store.Verify(t.Context()); err != nil || !report.OK() {
			t.Fatalf("%v, %v", report, err)
		}
	})
}

// packed is a tar archive of files.
func packed(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeEntry(w, name, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func writeEntry(w *tar.Writer, name string, text []byte) error {
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg})
	_, writing := w.Write(text)
	return errors.Join(err, writing)
}
