package importer

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
)

// TestAPanicOverAFileCostsItsJobAlone would end the process, and begin again at the next start.
func TestAPanicOverAFileCostsItsJobAlone(t *testing.T) {
	var log strings.Builder
	im, err := New(Config{
		Folder: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)), Publish: func(string, any) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	newJob := func(id string) *job {
		return &job{file: uploads.File{ID: id, Filename: id + ".onnx"}, shown: admin.Job{
			ID: id, State: admin.JobRunning, Steps: []admin.JobStep{{Name: stepInspect, State: admin.StepRunning}},
		}}
	}
	bad, good := newJob("bad"), newJob("good")
	im.run(bad, func(context.Context) error { panic("a secret") })
	im.work.Wait()
	im.run(good, func(context.Context) error { return nil })
	im.work.Wait()
	step := bad.shown.Steps[0]
	if bad.shown.State != admin.JobFailed || step.State != admin.StepFailed || strings.Contains(step.Error.Error, "secret") {
		t.Errorf("the job is %+v", bad.shown)
	}
	if good.shown.State != admin.JobDone {
		t.Errorf("the job behind it is %s", good.shown.State)
	}
	if !strings.Contains(log.String(), "a secret") || !strings.Contains(log.String(), "bad.onnx") {
		t.Errorf("the log says %s", log.String())
	}
}

// TestTheLogTellsAVersionThatIsKeptFromOneThatIsNot is about what fails once a version is stored: its load, its goldens.
func TestTheLogTellsAVersionThatIsKeptFromOneThatIsNot(t *testing.T) {
	for stored, want := range map[int64]string{0: "an upload was not imported", 2: "an upload was stored and does not go live"} {
		var log strings.Builder
		im, err := New(Config{
			Folder: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)), Publish: func(string, any) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		made := &job{file: uploads.File{ID: "a"}, shown: admin.Job{
			Steps:      []admin.JobStep{{Name: stepReady, State: admin.StepRunning}},
			Understood: &admin.Understood{Models: []admin.UnderstoodModel{{Name: "cat", Stored: stored}}},
		}}
		im.ended(made, edgewise.Errorf("test", edgewise.Conflict, "it fails 1 of 1 goldens"))
		if im.Close(); !strings.Contains(log.String(), want) {
			t.Errorf("stored as version %d: %s", stored, log.String())
		}
	}
}

// TestListenersHearOfEachPercent holds that a page which is told of changes sees a fetch go on.
func TestListenersHearOfEachPercent(t *testing.T) {
	var heard []int64
	im, err := New(Config{
		Folder: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Publish: func(_ string, message any) { heard = append(heard, message.(admin.Job).Steps[0].Done) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	made := &job{file: uploads.File{ID: "a"}, shown: admin.Job{Steps: []admin.JobStep{{Name: stepFetch, State: admin.StepRunning}}}}
	const total = 1 << 40
	im.progress(made, stepFetch, 0, total)
	for done := range int64(1000) {
		im.progress(made, stepFetch, done*total/1000, total)
	}
	if len(heard) != 100 || heard[0] != 0 || heard[99] < total/100*99 {
		t.Errorf("they have heard of %d states: %d", len(heard), heard)
	}
	im.progress(made, stepFetch, 5, 0) // of a step that does not know how much there is
	if len(heard) != 100 {
		t.Error("they have heard of a percent of nothing")
	}
}
