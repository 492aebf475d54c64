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
