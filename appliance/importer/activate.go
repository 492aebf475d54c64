package importer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// resume makes a job run again that waits for an activation, or has failed after the inspection.
func (im *Importer) resume(made *job, p *edgewise.Principal, a admin.Activate) error {
	const op = "importer.Activate"
	im.mu.Lock()
	defer im.mu.Unlock()
	s := &made.shown
	if made.backup != nil && p.Rights&edgewise.Admin == 0 {
		return edgewise.Errorf(op, edgewise.Denied, "%s may not restore a backup: it needs the right admin", p.Actor())
	}
	if !s.Resumable {
		return edgewise.Errorf(op, edgewise.Conflict,
			"job %s is %s: only one that waits or has failed behind the inspection can go on", s.ID, s.State)
	}
	if err := checkActivate(made, a); err != nil {
		return err
	}
	s.State, s.Resumable, s.Ended = admin.JobRunning, false, time.Time{}
	for i := range s.Steps {
		if step := &s.Steps[i]; step.State == admin.StepFailed {
			step.State, step.Error, step.Ended = admin.StepWaiting, nil, time.Time{}
		}
	}
	s.Revision++
	return nil
}

// checkActivate returns an error when a job cannot be activated as a says. Errors: Invalid with Field.
func checkActivate(made *job, a admin.Activate) error {
	const op = "importer.Activate"
	invalid := func(field, format string, args ...any) error {
		return edgewise.Errorf(op, edgewise.Invalid, format, args...).WithField(field)
	}
	if a.Model != "" {
		if err := checkName(a.Model); err != nil {
			return err
		}
		if len(made.found) != 1 {
			return invalid("model", "the upload holds %d versions: only one that holds one can be given another name",
				len(made.found))
		}
	}
	if a.MaxBatchSize != nil {
		if *a.MaxBatchSize < 0 || *a.MaxBatchSize > maxBatch {
			return invalid("max_batch_size", "max_batch_size is %d: want 0 to %d", *a.MaxBatchSize, maxBatch)
		}
		if len(made.found) != 1 || !made.found[0].chosen && slices.ContainsFunc(made.found[0].version.Files,
			isConfiguration) {
			return invalid("max_batch_size", "max_batch_size can be chosen for one version without a configuration of its own")
		}
	}
	if len(a.Notes) > admin.MaxNotesBytes {
		return invalid("notes", "the notes have %d bytes: want at most %d", len(a.Notes), admin.MaxNotesBytes)
	}
	return nil
}

const maxBatch = 1 << 16

func isConfiguration(f repository.File) bool {
	return slices.Contains(modelconfig.Files(), f.Path)
}

// deploy stores the versions of an upload and makes the last one of each model live.
func (im *Importer) deploy(ctx context.Context, made *job, a admin.Activate) error {
	promote := a.Promote == nil || *a.Promote
	if err := im.adjust(made, a); err != nil {
		return err
	}
	err := im.step(made, stepStore, func() error {
		for i, c := range made.found {
			if err := im.storeOne(ctx, c, made.origin, a.Notes); err != nil {
				return err
			}
			im.change(made, func(shown *admin.Job) {
				shown.Understood.Models[i].Name, shown.Understood.Models[i].Stored = c.version.ID.Name, c.stored
			})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !promote {
		for _, name := range []string{stepLoad, stepWarm, stepReady} {
			im.setStep(made, name, admin.StepSkipped)
		}
		return nil
	}
	for i, c := range made.found {
		if !c.last {
			continue
		}
		if err := im.promote(ctx, made, c, i); err != nil {
			return err
		}
	}
	for _, name := range []string{stepLoad, stepWarm, stepReady} {
		im.setStep(made, name, admin.StepDone)
	}
	return nil
}

// adjust gives a single version the chosen name and batch size. It is then another version than one stored before.
func (im *Importer) adjust(made *job, a admin.Activate) error {
	if a.Model != "" && a.Model != made.found[0].version.ID.Name {
		made.found[0].version.ID.Name, made.found[0].stored = a.Model, 0
	}
	if a.MaxBatchSize == nil {
		return nil
	}
	_, folder := im.uploads.Path(made.file.ID)
	path := filepath.Join(filepath.Dir(folder), "config.pbtxt")
	text := fmt.Appendf(nil, "max_batch_size: %d\n", *a.MaxBatchSize)
	if err := os.WriteFile(path, text, 0o640); err != nil {
		return edgewise.Errorf("importer.adjust", edgewise.Exhausted, "the configuration cannot be written")
	}
	c := made.found[0]
	v := &c.version
	v.Files = append(slices.DeleteFunc(slices.Clone(v.Files), isConfiguration),
		repository.File{Path: "config.pbtxt", Source: path, Size: int64(len(text))})
	v.Size = 0
	for _, f := range v.Files {
		v.Size += f.Size
	}
	c.chosen, c.stored = true, 0
	return nil
}

// storeOne stores a candidate, unless the same was stored already.
func (im *Importer) storeOne(ctx context.Context, c *candidate, origin, notes string) error {
	models := im.config.Models
	if record := models.Lookup(c.version.ID.Name); record != nil {
		if c.stored != 0 && record.Version(c.stored) != nil {
			return nil
		}
		if same := c.sameAs(record); same != nil {
			c.stored = same.ID.Version
			return im.note(same.ID, notes)
		}
	}
	pushed, err := im.push(ctx, c.version, origin, false)
	if err != nil {
		return err
	}
	c.stored = pushed.ID.Version
	return im.note(pushed.ID, notes)
}

// promote makes a version live, the i-th of a job, and follows its load.
func (im *Importer) promote(ctx context.Context, made *job, c *candidate, i int) error {
	id := edgewise.ModelID{Name: c.version.ID.Name, Version: c.stored}
	im.setStep(made, stepLoad, admin.StepRunning)
	forget := im.config.FollowLoad(id, func() {
		im.setStep(made, stepLoad, admin.StepDone)
		im.setStep(made, stepWarm, admin.StepRunning)
	})
	defer forget()
	moved, err := im.config.Models.GoLive(ctx, id, c.version.ID.Version != 0)
	if err != nil && !admin.FailsGoldens(err) {
		return err
	}
	im.setStep(made, stepLoad, admin.StepDone)
	im.setStep(made, stepWarm, admin.StepDone)
	im.change(made, func(shown *admin.Job) { shown.Understood.Models[i].Staged = moved.Staged && err == nil })
	return im.step(made, stepReady, func() error {
		if err != nil {
			return err
		}
		return im.config.VersionReady(id)
	})
}

// note stores notes about a version, if there are any.
func (im *Importer) note(id edgewise.ModelID, text string) error {
	if text == "" {
		return nil
	}
	return im.config.SetNotes(id, text)
}
