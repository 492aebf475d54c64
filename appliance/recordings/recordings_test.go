package recordings

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/appliance/tap"
	"github.com/edgewise-ai/edgewise/store/documents"
)

// box has recordings of the model "cat" with the tensors x and y.
type box struct {
	*Recordings
	cfg    Config
	folder string
	full   error // what Room returns
}

func openBox(t testing.TB) *box {
	t.Helper()
	documents, err := documents.Open(t.TempDir(), documents.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = documents.Close() })
	b := &box{folder: filepath.Join(t.TempDir(), "recordings")}
	record := &edgewise.Record{Name: "cat", Versions: []*edgewise.Version{
		{ID: edgewise.ModelID{Name: "cat", Version: 1}, Model: signature("x", "y")},
		{ID: edgewise.ModelID{Name: "cat", Version: 2}, Model: signature("renamed", "y")},
	}}
	b.cfg = Config{
		Folder: b.folder, Documents: documents, Logger: slog.New(slog.DiscardHandler),
		Tap:  tap.New(tap.MaxBytes),
		Room: func(int64) error { return b.full },
		Record: func(name string) (*edgewise.Record, error) {
			if name != "cat" {
				return nil, edgewise.Errorf("test", edgewise.NotFound, "there is no model %q", name)
			}
			return record, nil
		},
	}
	b.open(t)
	return b
}

// open opens the recordings, once more where they have been open.
func (b *box) open(t testing.TB) {
	t.Helper()
	if b.Recordings != nil {
		b.Close()
	}
	var err error
	if b.Recordings, err = Open(b.cfg); err != nil {
		t.Fatal(err)
	}
}

func signature(input, output string) *edgewise.Model {
	return &edgewise.Model{
		Input:  []edgewise.ModelInput{{Name: input, DataType: edgewise.FP32, Dims: edgewise.Shape{-1}}},
		Output: []edgewise.ModelOutput{{Name: output, DataType: edgewise.Bytes, Dims: edgewise.Shape{1}}},
	}
}

// record has the model recorded, all of it unless changes say something else.
func (b *box) record(t testing.TB, changes ...func(*admin.RecordingSettings)) {
	t.Helper()
	s := defaults()
	s.Enabled, s.Share = true, 1
	for _, change := range changes {
		change(&s)
	}
	if _, err := b.Set("cat", s); err != nil {
		t.Fatal(err)
	}
}

func masks(list ...admin.RecordingMask) func(*admin.RecordingSettings) {
	return func(s *admin.RecordingSettings) { s.Masks = list }
}

// finished is a request to a version with n numbers, whose answer is a text.
func finished(version int64, n int, answer string) *tap.Finished {
	x := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{int64(n)}, Data: make([]byte, 4*n)}
	y := edgewise.Tensor{Name: "y", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, answer)}
	id := edgewise.ModelID{Name: "cat", Version: version}
	return &tap.Finished{
		Model: id, Request: edgewise.Request{Model: id, Inputs: []edgewise.Tensor{x}}, Took: 7 * time.Millisecond,
		Began: time.Now(), Response: &edgewise.Response{Model: id, Outputs: []edgewise.Tensor{y}},
	}
}

func (b *box) count(t *testing.T) int {
	t.Helper()
	d, err := b.Get("cat")
	if err != nil {
		t.Fatal(err)
	}
	return d.Requests
}

func TestNothingIsRecordedUntilAModelSaysSo(t *testing.T) {
	b := openBox(t)
	if b.cfg.Tap.On() {
		t.Error("requests are copied though nothing is recorded")
	}
	b.record(t)
	if !b.cfg.Tap.On() || !b.wants(edgewise.ModelID{Name: "cat", Version: 1}, nil) {
		t.Error("requests to the model are not wanted")
	}
	if b.wants(edgewise.ModelID{Name: "dog", Version: 1}, nil) {
		t.Error("requests to another model are wanted")
	}
	b.record(t, func(s *admin.RecordingSettings) { s.Enabled = false })
	if b.cfg.Tap.On() {
		t.Error("requests are still copied")
	}
	b.receive(finished(1, 3, "late"))
	if n := b.count(t); n != 0 {
		t.Errorf("%d requests are recorded after the end", n)
	}
}

func TestARecordedRequestIsWhatCameWithItsAnswer(t *testing.T) {
	b := openBox(t)
	b.record(t)
	b.receive(finished(1, 3, "meow"))
	failed := finished(1, 2, "")
	failed.Response, failed.Err = nil, errors.New("out of order")
	b.receive(failed)
	list := b.Requests("cat", 0, 10)
	if len(list) != 2 || !list[0].Failed || list[1].Failed || list[1].Version != 1 || list[1].Duration != 7000 {
		t.Fatalf("listed are %+v", list)
	}
	data, err := b.Read("cat", list[1].Number)
	if err != nil {
		t.Fatal(err)
	}
	e, err := example.Decode(data)
	if err != nil || e.Model.Version != 1 || len(e.Inputs) != 1 || len(e.Inputs[0].Data) != 12 ||
		!bytes.HasSuffix(e.Outputs[0].Data, []byte("meow")) || e.Took != 7*time.Millisecond {
		t.Errorf("recorded is %+v, %v", e, err)
	}
	if data, err = b.Read("cat", list[0].Number); err == nil {
		e, err = example.Decode(data)
	}
	if err != nil || e.Error != "out of order" || len(e.Outputs) != 0 {
		t.Errorf("recorded is %+v, %v", e, err)
	}
	if page := b.Requests("cat", list[0].Number, 10); len(page) != 1 || page[0].Number != list[1].Number {
		t.Errorf("the next page is %+v", page)
	}
}

func TestASampledShareIsRecorded(t *testing.T) {
	b := openBox(t)
	b.record(t, func(s *admin.RecordingSettings) { s.Share = 0.1 })
	wanted := 0
	for range 100_000 {
		if b.wants(edgewise.ModelID{Name: "cat"}, nil) {
			wanted++
		}
	}
	if wanted < 9_000 || wanted > 11_000 { // ten standard deviations
		t.Errorf("%d of 100,000 requests are wanted, want a tenth", wanted)
	}
}

func TestWhatSaysNothingAboutTheModelIsNotRecorded(t *testing.T) {
	b := openBox(t)
	b.record(t)
	for kind, want := range map[edgewise.Kind]bool{
		edgewise.Invalid: true, edgewise.Guest: true, edgewise.Internal: true, edgewise.Busy: false, edgewise.Canceled: false,
		edgewise.Unavailable: false, edgewise.Deadline: false,
	} {
		if got := b.wants(edgewise.ModelID{Name: "cat"}, edgewise.Errorf("test", kind, "failed")); got != want {
			t.Errorf("%v: %v, want %v", kind, got, want)
		}
	}
}

// onDiskAnywhere tells whether bytes are in some file below a folder.
func onDiskAnywhere(t *testing.T, folder string, secret []byte) (found bool) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, secret)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestMaskedTensorsAreNowhereOnTheDisk(t *testing.T) {
	for _, how := range []string{admin.MaskDrop, admin.MaskHash, admin.MaskBlur} {
		t.Run(how, func(t *testing.T) {
			b := openBox(t)
			b.record(t, masks(admin.RecordingMask{Tensor: "x", How: how}, admin.RecordingMask{Tensor: "y", How: how}))
			const secret = "planted-secret!!"
			for _, f := range []*tap.Finished{finished(1, 64, secret), finished(1, 64, secret)} {
				copy(f.Request.Inputs[0].Data[32:], secret)
				b.receive(f)
				f.Response, f.Err = nil, errors.New("bad value "+secret)
				b.receive(f)
			}
			if n := b.count(t); n != 4 {
				t.Fatalf("%d requests are recorded, want 4", n)
			}
			if onDiskAnywhere(t, b.folder, []byte(secret)) {
				t.Error("the secret is on the disk")
			}
			data, err := b.Read("cat", 1)
			if err != nil {
				t.Fatal(err)
			}
			if e, err := example.Decode(data); err != nil || len(e.MaskedInputs) != 1 || e.MaskedInputs[0] != "x" ||
				len(e.MaskedOutputs) != 1 || e.MaskedOutputs[0] != "y" {
				t.Errorf("masked are %q and %q, %v", e.MaskedInputs, e.MaskedOutputs, err)
			}
		})
	}
}

func TestEqualContentsHaveEqualHashes(t *testing.T) {
	b := openBox(t)
	b.record(t, masks(admin.RecordingMask{Tensor: "y", How: admin.MaskHash}))
	var answers []string
	for _, answer := range []string{"one", "two", "one"} {
		b.receive(finished(1, 1, answer))
		data, err := b.Read("cat", b.Requests("cat", 0, 1)[0].Number)
		if err != nil {
			t.Fatal(err)
		}
		e, err := example.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, string(e.Outputs[0].Data))
	}
	if answers[0] != answers[2] || answers[0] == answers[1] {
		t.Errorf("hashes are %q", answers)
	}
}

func TestAVersionWithoutAMaskedTensorIsNotRecorded(t *testing.T) {
	b := openBox(t)
	b.record(t, masks(admin.RecordingMask{Tensor: "x", How: admin.MaskDrop}))
	b.receive(finished(2, 1, "a"))
	d, err := b.Get("cat")
	if err != nil || d.Requests != 0 || d.Skipped != 1 || !strings.Contains(d.Problem, `no tensor "x"`) {
		t.Errorf("%+v, %v", d, err)
	}
	b.receive(finished(1, 1, "a"))
	if d, _ = b.Get("cat"); d.Requests != 1 || d.Problem != "" {
		t.Errorf("%+v", d)
	}
}

func TestAFullDiskEndsTheRecordingUntilThereIsRoom(t *testing.T) {
	b := openBox(t)
	b.record(t)
	b.full = edgewise.Errorf("test", edgewise.Exhausted, "the disk is full")
	b.receive(finished(1, 1, "a"))
	if d, _ := b.Get("cat"); d.Requests != 0 || d.Problem != "the disk is full" {
		t.Errorf("%+v", d)
	}
	b.full = nil
	b.receive(finished(1, 1, "a"))
	if d, _ := b.Get("cat"); d.Requests != 1 || d.Problem != "" || d.Recorded != 1 {
		t.Errorf("%+v", d)
	}
}

func TestTheOldestRequestsGoFirst(t *testing.T) {
	b := openBox(t)
	b.record(t, func(s *admin.RecordingSettings) { s.QuotaBytes = MinQuota })
	for range 5 {
		b.receive(finished(1, 75_000, "a")) // 300 kB
	}
	list := b.Requests("cat", 0, 10)
	d, _ := b.Get("cat")
	if len(list) != 3 || list[0].Number != 5 || list[2].Number != 3 || d.Bytes > MinQuota {
		t.Errorf("%d bytes are kept, in %+v", d.Bytes, list)
	}
	files, _ := os.ReadDir(filepath.Join(b.folder, "cat"))
	if len(files) != 3 {
		t.Errorf("%d files are on the disk", len(files))
	}
}

func TestAFolderKeepsTheLatestRequests(t *testing.T) {
	f, err := openFolder(filepath.Join(t.TempDir(), "cat"))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := f.add(entry{at: time.Now()}, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.trim(2, MinQuota, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if list := f.before(0, 9); len(list) != 2 || list[0].number != 5 || list[1].number != 4 || f.bytes != 2*blockBytes {
		t.Errorf("left are %+v, %d bytes", list, f.bytes)
	}
}

func TestARequestAboveTheQuotaTakesNoOtherAway(t *testing.T) {
	b := openBox(t)
	b.record(t, func(s *admin.RecordingSettings) { s.QuotaBytes = MinQuota })
	b.receive(finished(1, 1, "a"))
	b.receive(finished(1, MinQuota/4, "b"))
	d, _ := b.Get("cat")
	if d.Requests != 1 || d.Skipped != 1 || !strings.Contains(d.Problem, "the quota is 1048576") {
		t.Errorf("%+v", d)
	}
}

func TestATensorUnderAnotherNameIsNotRecordedBesideMasks(t *testing.T) {
	b := openBox(t)
	b.record(t, masks(admin.RecordingMask{Tensor: "x", How: admin.MaskDrop}))
	f := finished(1, 4, "a")
	f.Request.Inputs[0].Name, f.Response = "X", nil
	f.Err = edgewise.Errorf("test", edgewise.Invalid, "there is no input X")
	copy(f.Request.Inputs[0].Data, "planted-secret!!")
	b.receive(f)
	if n := b.count(t); n != 1 || onDiskAnywhere(t, b.folder, []byte("planted-secret!!")) {
		t.Errorf("%d requests are recorded, or the secret is on the disk", n)
	}
}

func TestADamagedRequestIsNoAnswer(t *testing.T) {
	b := openBox(t)
	b.record(t)
	b.receive(finished(1, 1, "a"))
	files, err := filepath.Glob(filepath.Join(b.folder, "cat", "*"))
	if err != nil || len(files) != 1 || os.Truncate(files[0], 0) != nil { // what a loss of power leaves
		t.Fatal(files, err)
	}
	b.open(t)
	if data, err := b.Read("cat", 1); err == nil || edgewise.KindOf(err) != edgewise.Corrupt {
		t.Errorf("%q, %v", data, err)
	}
	if err := b.Remove("cat", 1); err != nil {
		t.Error(err)
	}
}

func TestARenamedModelKeepsItsRecording(t *testing.T) {
	b := openBox(t)
	b.record(t, masks(admin.RecordingMask{Tensor: "x", How: admin.MaskDrop}))
	b.receive(finished(1, 1, "a"))
	check := func(when string) {
		t.Helper()
		list := b.List()
		if len(list) != 1 || list[0].Model != "dog" || list[0].Requests != 1 || !list[0].Settings.Enabled ||
			len(list[0].Settings.Masks) != 1 || !b.wants(edgewise.ModelID{Name: "dog"}, nil) {
			t.Errorf("%s: %+v", when, list)
		}
	}
	for _, when := range []string{"renamed", "renamed twice"} {
		if err := b.RenameModel("cat", "dog"); err != nil {
			t.Fatal(err)
		}
		check(when)
	}
	b.open(t)
	check("after a start")
	if err := os.Rename(filepath.Join(b.folder, "dog"), filepath.Join(b.folder, "cat")); err != nil {
		t.Fatal(err)
	}
	b.open(t) // the box ended between the documents and the files
	if err := b.RenameModel("cat", "dog"); err != nil {
		t.Fatal(err)
	}
	check("half renamed")
}

func TestAFolderThatCannotBeReadStopsTheRecordingOfItsModelAlone(t *testing.T) {
	b := openBox(t)
	b.record(t)
	b.Close()
	path := filepath.Join(b.folder, "cat")
	if err := os.MkdirAll(filepath.Join(path, "1.part", "x"), 0o700); err != nil { // nothing that can be removed
		t.Fatal(err)
	}
	b.open(t)
	if b.cfg.Tap.On() || len(b.List()) != 0 {
		t.Error("the model is recorded")
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	b.record(t)
	b.receive(finished(1, 1, "a"))
	if n := b.count(t); n != 1 {
		t.Errorf("%d requests are recorded", n)
	}
}

func TestAClockThatWasInTheFutureKeepsNothingLonger(t *testing.T) {
	b := openBox(t)
	b.record(t)
	b.receive(finished(1, 1, "a"))
	files, err := filepath.Glob(filepath.Join(b.folder, "cat", "*"))
	future := time.Now().Add(1000 * time.Hour)
	if err != nil || len(files) != 1 || os.Chtimes(files[0], future, future) != nil {
		t.Fatal(files, err)
	}
	b.open(t)
	if list := b.Requests("cat", 0, 1); len(list) != 1 || list[0].Recorded.After(time.Now()) {
		t.Errorf("%+v", list)
	}
}

func TestRequestsAreDeletedWhenTheirTimeIsOver(t *testing.T) {
	b := openBox(t)
	b.record(t, func(s *admin.RecordingSettings) { s.RetentionSeconds = MinRetention })
	b.receive(finished(1, 1, "a"))
	b.receive(finished(1, 1, "b"))
	path := filepath.Join(b.folder, "cat")
	files, err := os.ReadDir(path)
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	old := time.Now().Add(-2 * MinRetention * time.Second)
	if err := os.Chtimes(filepath.Join(path, files[0].Name()), old, old); err != nil {
		t.Fatal(err)
	}
	b.open(t)
	b.sweep()
	if list := b.Requests("cat", 0, 10); len(list) != 1 || list[0].Number != 2 {
		t.Errorf("left is %+v", list)
	}
}

func TestAStartFindsWhatWasRecorded(t *testing.T) {
	b := openBox(t)
	b.record(t)
	b.receive(finished(1, 1, "a"))
	path := filepath.Join(b.folder, "cat")
	for _, name := range []string{"000000000009.1.5.answered.example.part", "notes.txt", "1.1.1.answered.example"} {
		if err := os.WriteFile(filepath.Join(path, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := b.Requests("cat", 0, 10)
	b.open(t)
	after := b.Requests("cat", 0, 10)
	if len(after) != 1 || after[0].Number != before[0].Number || after[0].Bytes != before[0].Bytes || !b.cfg.Tap.On() {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if _, err := os.Stat(filepath.Join(path, "000000000009.1.5.answered.example.part")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was being written is still there: %v", err)
	}
	b.receive(finished(1, 1, "b"))
	if list := b.Requests("cat", 0, 10); len(list) != 2 || list[0].Number != 2 {
		t.Errorf("listed are %+v", list)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	b := openBox(t)
	for name, change := range map[string]func(*admin.RecordingSettings){
		"share":             func(s *admin.RecordingSettings) { s.Share = 0 },
		"quota_bytes":       func(s *admin.RecordingSettings) { s.QuotaBytes = MinQuota - 1 },
		"retention_seconds": func(s *admin.RecordingSettings) { s.RetentionSeconds = MaxRetention + 1 },
		"masks unknown":     masks(admin.RecordingMask{Tensor: "unknown", How: admin.MaskDrop}),
		"masks twice":       masks(admin.RecordingMask{Tensor: "x", How: admin.MaskDrop}, admin.RecordingMask{Tensor: "x", How: admin.MaskHash}),
		"masks how":         masks(admin.RecordingMask{Tensor: "x", How: "paint"}),
		"masks 65":          masks(make([]admin.RecordingMask, MaxMasks+1)...),
	} {
		s := defaults()
		change(&s)
		_, err := b.Set("cat", s)
		name, _, _ = strings.Cut(name, " ")
		if problem, ok := errors.AsType[*edgewise.Error](err); !ok || problem.Kind != edgewise.Invalid || problem.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Set("dog", defaults()); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("a model that does not exist: %v", err)
	}
	if len(b.List()) != 0 {
		t.Error("refused settings are kept")
	}
}

func TestADecoupledModelIsNotRecorded(t *testing.T) {
	b := openBox(t)
	record, _ := b.cfg.Record("cat")
	record.Labels = []edgewise.Label{{Name: edgewise.LiveLabel, Version: 1}}
	record.Versions[0].Model.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
	s := defaults()
	if _, err := b.Set("cat", s); err != nil {
		t.Errorf("recording is off: %v", err)
	}
	s.Enabled = true
	if _, err := b.Set("cat", s); edgewise.KindOf(err) != edgewise.Unsupported || !strings.Contains(err.Error(), "decoupled") {
		t.Errorf("recording is on: %v", err)
	}
}

func TestSingleRequestsCanBeDeleted(t *testing.T) {
	b := openBox(t)
	b.record(t)
	for range 3 {
		b.receive(finished(1, 1, "a"))
	}
	if err := b.Remove("cat", 2); err != nil {
		t.Fatal(err)
	}
	if err := b.Remove("cat", 2); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("deleting it twice: %v", err)
	}
	if _, err := b.Read("cat", 2); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("reading it: %v", err)
	}
	if list := b.Requests("cat", 0, 10); len(list) != 2 || list[0].Number != 3 || list[1].Number != 1 {
		t.Errorf("left is %+v", list)
	}
}

func TestNothingIsLeftOfADeletedRecording(t *testing.T) {
	b := openBox(t)
	var requests, changes sync.WaitGroup
	stop := make(chan struct{})
	requests.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				b.receive(finished(1, 1, "a"))
			}
		}
	})
	changes.Go(func() {
		for range 20 {
			s := defaults()
			s.Enabled = true
			if _, err := b.Set("cat", s); err != nil {
				t.Error(err)
			}
			b.List()
			if err := b.Delete("cat"); err != nil {
				t.Error(err)
			}
			if files, _ := os.ReadDir(filepath.Join(b.folder, "cat")); len(files) != 0 {
				t.Errorf("%d files are left", len(files))
			}
		}
	})
	changes.Wait()
	close(stop)
	requests.Wait()
	if b.cfg.Tap.On() || len(b.List()) != 0 {
		t.Error("the recording has not ended")
	}
}

// BenchmarkRecord counts what a recorded request of 800 kB takes.
func BenchmarkRecord(b *testing.B) {
	x := openBox(b)
	x.record(b, func(s *admin.RecordingSettings) { s.QuotaBytes = 16 << 20 })
	f := finished(1, 200_000, "a")
	b.SetBytes(800_000)
	for b.Loop() {
		x.receive(f)
	}
	if d, err := x.Get("cat"); err != nil || d.Problem != "" {
		b.Fatal(d.Problem, err)
	}
}
