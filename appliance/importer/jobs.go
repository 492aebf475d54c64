package importer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
)

// maxJobs bounds the jobs that are remembered; those that ended longest ago go first.
const maxJobs = 200

// The steps of a job, in order.
const (
	stepVerify  = "verify"
	stepFetch   = "fetch"
	stepUnpack  = "unpack"
	stepInspect = "inspect"
	stepStore   = "store"
	stepLoad    = "load"
	stepWarm    = "warm"
	stepReady   = "ready"
	stepRestore = "restore"
)

// job is what is made of one upload.
type job struct {
	shown  admin.Job
	file   uploads.File
	found  []*candidate
	origin string  // where its versions come from
	backup *Backup // of a restore; nil: the job is none
	cancel context.CancelFunc
}

// begin makes the job of a file that has arrived completely.
func (im *Importer) begin(f uploads.File) {
	steps := []string{stepVerify, stepUnpack, stepInspect, stepStore, stepLoad, stepWarm, stepReady}
	switch uploads.Archive(f.Filename) {
	case uploads.Backup:
		steps = []string{stepVerify, stepUnpack, stepInspect, stepRestore}
	case uploads.Reference:
		steps[1] = stepFetch
	}
	now := time.Now().UTC()
	made := &job{file: f, origin: uploadOrigin, shown: admin.Job{
		ID: f.ID, State: admin.JobRunning, Filename: f.Filename, Model: f.Model, Size: f.Length,
		SHA256: edgewise.Digest(f.Computed), Owner: f.Owner, Created: now, Expires: now.Add(uploads.Expiry),
	}}
	for _, name := range steps {
		made.shown.Steps = append(made.shown.Steps, admin.JobStep{Name: name, State: admin.StepWaiting})
	}
	im.mu.Lock()
	im.all[f.ID] = made
	im.forgetOldest()
	im.mu.Unlock()
	im.run(made, func(ctx context.Context) error {
		if err := im.prepare(ctx, made); err != nil || !f.Activate || made.backup != nil {
			return err
		}
		return im.deploy(ctx, made, admin.Activate{Notes: f.Notes})
	})
}

// forgetOldest makes room for a job. im.mu is held.
func (im *Importer) forgetOldest() {
	for len(im.all) > maxJobs {
		oldest := ""
		for id, other := range im.all {
			if !other.shown.Ended.IsZero() && (oldest == "" || other.shown.Ended.Before(im.all[oldest].shown.Ended)) {
				oldest = id
			}
		}
		if oldest == "" {
			return
		}
		delete(im.all, oldest)
	}
}

// run works on a job when its turn has come, and notes how that ended.
func (im *Importer) run(made *job, work func(context.Context) error) {
	ctx, cancel := context.WithCancel(edgewise.WithPrincipal(im.base, ownerOf(made.file.Owner)))
	im.mu.Lock()
	made.cancel = cancel
	im.mu.Unlock()
	im.work.Go(func() {
		defer cancel()
		select {
		case <-im.turn:
		case <-ctx.Done():
			im.ended(made, ctx.Err())
			return
		}
		defer func() { im.turn <- struct{}{} }()
		im.ended(made, im.safely(made.file.Filename, func() error { return work(ctx) }))
	})
}

// safely keeps a panic over somebody's file, which is our own bug, from ending the process at this and at each start.
func (im *Importer) safely(file string, work func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			im.config.Logger.Error("BUG: an import panicked", "file", file, "panic", fmt.Sprint(cause), "stack",
				string(debug.Stack()))
			err = &edgewise.Error{Op: "importer.run", Kind: edgewise.Internal}
		}
	}()
	return work()
}

// ownerOf is the principal of an actor's name.
func ownerOf(actor string) *edgewise.Principal {
	kind, name, _ := strings.Cut(actor, ":")
	return &edgewise.Principal{Kind: kind, Name: name}
}

// change edits what clients see of a job, as a new revision.
func (im *Importer) change(made *job, edit func(*admin.Job)) {
	im.mu.Lock()
	defer im.mu.Unlock()
	edit(&made.shown)
	made.shown.Revision++
}

// ended notes how work on a job has ended: it is done, waits for an activation, failed or was canceled.
func (im *Importer) ended(made *job, err error) {
	im.mu.Lock()
	s := &made.shown
	now := time.Now().UTC()
	running := slices.IndexFunc(s.Steps, func(step admin.JobStep) bool { return step.State == admin.StepRunning })
	waiting := slices.IndexFunc(s.Steps, func(step admin.JobStep) bool { return step.State == admin.StepWaiting })
	switch {
	case err != nil && im.base.Err() != nil: // the box stops; the job begins again with it
	case err != nil && edgewise.KindOf(err) == edgewise.Canceled:
		s.State, s.Ended, s.Resumable = admin.JobCanceled, now, false
	case err != nil:
		s.State, s.Ended = admin.JobFailed, now
		body := kserve.NewErrorBody(err)
		body.Error = apistatus.Message(err)
		at := max(running, 0)
		s.Steps[at].State, s.Steps[at].Ended, s.Steps[at].Error = admin.StepFailed, now, &body
		s.Resumable = len(made.found) > 0 || made.backup != nil
	case waiting >= 0:
		s.State, s.Resumable = admin.JobStaged, true
	default:
		s.State, s.Ended, s.Resumable = admin.JobDone, now, false
	}
	s.Revision++
	state, resumable := s.State, s.Resumable
	text := "an upload was not imported"
	stored := func(m admin.UnderstoodModel) bool { return m.Stored != 0 }
	if s.Understood != nil && slices.ContainsFunc(s.Understood.Models, stored) {
		text = "an upload was stored and does not go live"
	}
	im.mu.Unlock()
	if state == admin.JobDone || state == admin.JobFailed && !resumable || state == admin.JobCanceled {
		if err := im.uploads.Remove(made.file.ID); err != nil {
			im.config.Logger.Error("removing an upload", "upload", made.file.ID, "error", err)
		}
	}
	im.publish(made)
	if err != nil {
		im.config.Logger.Warn(text, "file", made.file.Filename, "owner", made.file.Owner, "error", err)
	}
}

// publish tells listeners the state of a job.
func (im *Importer) publish(made *job) { im.config.Publish("job", im.show(made)) }

// show returns what clients see of a job.
func (im *Importer) show(made *job) admin.Job {
	im.mu.Lock()
	defer im.mu.Unlock()
	s := made.shown
	s.Steps = slices.Clone(s.Steps)
	if s.Understood != nil {
		u := *s.Understood
		u.Models = slices.Clone(u.Models)
		s.Understood = &u
	}
	return s
}

// step runs one step of a job.
func (im *Importer) step(made *job, name string, work func() error) error {
	im.setStep(made, name, admin.StepRunning)
	if err := work(); err != nil {
		return err
	}
	im.setStep(made, name, admin.StepDone)
	return nil
}

func (im *Importer) setStep(made *job, name, state string) {
	now := time.Now().UTC()
	im.change(made, func(shown *admin.Job) {
		for i := range shown.Steps {
			s := &shown.Steps[i]
			if s.Name != name {
				continue
			}
			s.State, s.Error = state, nil
			if state == admin.StepRunning {
				s.Started, s.Ended = now, time.Time{}
			} else {
				s.Ended = now
			}
		}
	})
	im.publish(made)
}

// progress notes how many bytes of a step are done. Listeners are told of each percent, and otherwise with the next step.
func (im *Importer) progress(made *job, name string, done, total int64) {
	news := false
	im.change(made, func(shown *admin.Job) {
		for i := range shown.Steps {
			if s := &shown.Steps[i]; s.Name == name {
				news = total > 0 && (s.Total != total || percent(s.Done, total) != percent(done, total))
				s.Done, s.Total = done, total
			}
		}
	})
	if news {
		im.publish(made)
	}
}

func percent(done, total int64) int64 { return int64(100 * float64(done) / float64(total)) }

func (im *Importer) find(p *edgewise.Principal, id string) (*job, error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	made := im.all[id]
	if made == nil || made.file.Owner != p.Actor() && p.Rights&edgewise.Admin == 0 {
		return nil, edgewise.Errorf("importer.jobs", edgewise.NotFound,
			"there is no job %.64q: it was discarded, or the box has started again since", id)
	}
	return made, nil
}

// List returns the jobs that p may see, latest first.
func (im *Importer) List(p *edgewise.Principal) []admin.Job {
	im.mu.Lock()
	var seen []*job
	for _, made := range im.all {
		if made.file.Owner == p.Actor() || p.Rights&edgewise.Admin != 0 {
			seen = append(seen, made)
		}
	}
	im.mu.Unlock()
	list := make([]admin.Job, 0, len(seen))
	for _, made := range seen {
		list = append(list, im.show(made))
	}
	slices.SortFunc(list, func(a, b admin.Job) int { return b.Created.Compare(a.Created) })
	return list
}

// Get returns a job. Errors: NotFound.
func (im *Importer) Get(p *edgewise.Principal, id string) (admin.Job, error) {
	made, err := im.find(p, id)
	if err != nil {
		return admin.Job{}, err
	}
	return im.show(made), nil
}

// Activate continues a job that waits for an activation, or that has failed after the inspection. Errors: NotFound,
// Denied, Conflict, Invalid with Field.
func (im *Importer) Activate(p *edgewise.Principal, id string, a admin.Activate) (admin.Job, error) {
	made, err := im.find(p, id)
	if err != nil {
		return admin.Job{}, err
	}
	if err := im.resume(made, p, a); err != nil {
		return admin.Job{}, err
	}
	im.run(made, func(ctx context.Context) error {
		ctx = edgewise.WithPrincipal(ctx, p)
		if made.backup != nil {
			return im.step(made, stepRestore, func() error {
				restored, err := im.Restore(ctx, made.backup, a.Accounts)
				if err != nil {
					return err
				}
				return restored.Activate(ctx)
			})
		}
		return im.deploy(ctx, made, a)
	})
	return im.show(made), nil
}

// Compare lists what differs between the live version of a model and the version that a job would make of it; name is
// another one than the upload's where that holds one version. Errors: NotFound; Conflict when the job does not wait.
func (im *Importer) Compare(ctx context.Context, p *edgewise.Principal, id, name string) (
	out admin.JobComparison, err error,
) {
	const op = "importer.Compare"
	made, err := im.find(p, id)
	if err != nil {
		return out, err
	}
	c, err := im.waiting(made, name)
	if err != nil {
		return out, err
	}
	record := im.config.Models.Lookup(name)
	if record == nil || record.Version(record.Label(edgewise.LiveLabel)) == nil {
		return out, edgewise.Errorf(op, edgewise.NotFound, "model %q has no live version", name)
	}
	live, to := record.Version(record.Label(edgewise.LiveLabel)), &edgewise.Version{}
	if to.Files, err = c.files(); err != nil {
		return out, err
	}
	if to.Model, err = im.called(ctx, made, c, name); err != nil {
		return out, err
	}
	out.Version, out.Differences = live.ID.Version, im.config.Differences(live, to)
	return out, nil
}

// waiting returns what a job that waits for an activation would make live of a model.
func (im *Importer) waiting(made *job, name string) (c candidate, err error) {
	const op = "importer.Compare"
	im.mu.Lock()
	defer im.mu.Unlock()
	if made.shown.State != admin.JobStaged {
		return c, edgewise.Errorf(op, edgewise.Conflict, "job %s does not wait for an activation", made.shown.ID)
	}
	i := slices.IndexFunc(made.found, func(c *candidate) bool {
		return c.last && (c.version.ID.Name == name || len(made.found) == 1)
	})
	if i < 0 {
		return c, edgewise.Errorf(op, edgewise.NotFound, "job %s has no model %q", made.shown.ID, name)
	}
	return *made.found[i], nil // an activation changes that of the job
}

// called reads the declaration of a candidate under a name, which is a part of other names in it.
func (im *Importer) called(ctx context.Context, made *job, c candidate, name string) (*edgewise.Model, error) {
	if name == c.version.ID.Name {
		return c.model, nil
	}
	_, folder := im.uploads.Path(made.file.ID)
	dir, err := os.MkdirTemp(filepath.Dir(folder), "compare-")
	if err != nil {
		return nil, edgewise.Errorf("importer.Compare", edgewise.Internal, "a folder to look at the upload cannot be made")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	files, err := c.lay(dir)
	if err != nil {
		return nil, err
	}
	m, err := im.config.Models.Understand(ctx, name, dir, files)
	return m, apistatus.HidePath(err, dir)
}

// Expire cancels the waiting jobs of uploads that were removed because no activation came in time.
func (im *Importer) Expire(uploads []string) {
	for _, id := range uploads {
		im.mu.Lock()
		made := im.all[id]
		waits := made != nil && made.shown.Resumable
		im.mu.Unlock()
		if waits {
			im.ended(made, edgewise.Errorf("importer.jobs", edgewise.Canceled, "it was not activated in time"))
		}
	}
}

// NeedsConfirmation tells whether a job is a restore.
func (im *Importer) NeedsConfirmation(id string) bool {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.all[id] != nil && im.all[id].backup != nil
}

// Discard cancels a job and removes its files. Errors: NotFound.
func (im *Importer) Discard(p *edgewise.Principal, id string) error {
	made, err := im.find(p, id)
	if err != nil {
		return err
	}
	im.mu.Lock()
	made.cancel()
	delete(im.all, id)
	im.mu.Unlock()
	return im.uploads.Remove(id)
}

// keeps tells whether an upload's files are in use by a job that works.
func (im *Importer) keeps(id string) bool {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.all[id] != nil && im.all[id].shown.State == admin.JobRunning
}
