package appliance

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
)

// maxJobs bounds the jobs that are remembered; those that ended longest ago go first.
const maxJobs = 200

// The steps of a job, in order.
const (
	stepVerify  = "verify"
	stepUnpack  = "unpack"
	stepInspect = "inspect"
	stepStore   = "store"
	stepLoad    = "load"
	stepWarm    = "warm"
	stepReady   = "ready"
	stepRestore = "restore"
)

// jobs are what is made of uploads that are whole. One works at a time; the others wait.
type jobs struct {
	app  *App
	base context.Context // of all work; ends with stop
	stop context.CancelFunc
	turn chan struct{} // holds one token
	work sync.WaitGroup

	mu  sync.Mutex // guards all and the jobs in it
	all map[string]*job
}

var _ httpapi.Jobs = (*jobs)(nil)

// job is one of them.
type job struct {
	shown  admin.Job
	file   uploads.File
	found  []*candidate
	backup *backup // what a restore brings; nil: it is none
	cancel context.CancelFunc
}

func newJobs(a *App) *jobs {
	j := &jobs{app: a, turn: make(chan struct{}, 1), all: map[string]*job{}}
	j.base, j.stop = context.WithCancel(context.Background())
	j.turn <- struct{}{}
	return j
}

// close ends all work. What was not finished begins again at the next start.
func (j *jobs) close() {
	j.stop()
	j.work.Wait()
}

// begin makes the job of a file that is whole.
func (j *jobs) begin(f uploads.File) {
	steps := []string{stepVerify, stepUnpack, stepInspect, stepStore, stepLoad, stepWarm, stepReady}
	if uploads.Kind(f.Filename) == "backup" {
		steps = []string{stepVerify, stepUnpack, stepInspect, stepRestore}
	}
	now := time.Now().UTC()
	made := &job{file: f, shown: admin.Job{
		ID: f.ID, State: admin.JobRunning, Filename: f.Filename, Size: f.Length, SHA256: edgewise.Digest(f.Computed), Owner: f.Owner, Created: now, Expires: now.Add(uploads.Expiry),
	}}
	for _, name := range steps {
		made.shown.Steps = append(made.shown.Steps, admin.JobStep{Name: name, State: admin.StepWaiting})
	}
	j.mu.Lock()
	j.all[f.ID] = made
	j.forgetOldest()
	j.mu.Unlock()
	j.run(made, func(ctx context.Context) error {
		if err := j.prepare(ctx, made); err != nil || !f.Activate || made.backup != nil {
			return err
		}
		return j.deploy(ctx, made, admin.Activate{Notes: f.Notes})
	})
}

// forgetOldest makes room for a job. j.mu is held.
func (j *jobs) forgetOldest() {
	for len(j.all) > maxJobs {
		oldest := ""
		for id, other := range j.all {
			if !other.shown.Ended.IsZero() && (oldest == "" || other.shown.Ended.Before(j.all[oldest].shown.Ended)) {
				oldest = id
			}
		}
		if oldest == "" {
			return
		}
		delete(j.all, oldest)
	}
}

// run works on a job when its turn has come, and says how that ended.
func (j *jobs) run(made *job, work func(context.Context) error) {
	ctx, cancel := context.WithCancel(edgewise.WithPrincipal(j.base, ownerOf(made.file.Owner)))
	j.mu.Lock()
	made.cancel = cancel
	j.mu.Unlock()
	j.work.Go(func() {
		defer cancel()
		select {
		case <-j.turn:
		case <-ctx.Done():
			j.ended(made, ctx.Err())
			return
		}
		defer func() { j.turn <- struct{}{} }()
		j.ended(made, work(ctx))
	})
}

// ownerOf is the principal of an actor's name.
func ownerOf(actor string) *edgewise.Principal {
	kind, name, _ := strings.Cut(actor, ":")
	return &edgewise.Principal{Kind: kind, Name: name}
}

// change edits what is shown of a job, as a revision of its own.
func (j *jobs) change(made *job, edit func(*admin.Job)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	edit(&made.shown)
	made.shown.Revision++
}

// ended notes how work on a job has ended: it is done, waits for a person, failed or was canceled.
func (j *jobs) ended(made *job, err error) {
	j.mu.Lock()
	s := &made.shown
	now := time.Now().UTC()
	running := slices.IndexFunc(s.Steps, func(step admin.JobStep) bool { return step.State == admin.StepRunning })
	waiting := slices.IndexFunc(s.Steps, func(step admin.JobStep) bool { return step.State == admin.StepWaiting })
	switch {
	case err != nil && j.base.Err() != nil: // the box stops; the job begins again with it
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
	j.mu.Unlock()
	if state == admin.JobDone || state == admin.JobFailed && !resumable || state == admin.JobCanceled {
		if err := j.app.uploads.Remove(made.file.ID); err != nil {
			j.app.logger.Error("removing an upload", "upload", made.file.ID, "error", err)
		}
	}
	j.tell(made)
	if err != nil {
		j.app.logger.Warn("an upload was not taken over", "file", made.file.Filename, "owner", made.file.Owner, "error", err)
	}
}

// tell tells those who listen where a job stands.
func (j *jobs) tell(made *job) { j.app.publish("job", j.show(made)) }

// show returns what is shown of a job.
func (j *jobs) show(made *job) admin.Job {
	j.mu.Lock()
	defer j.mu.Unlock()
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
func (j *jobs) step(made *job, name string, work func() error) error {
	j.setStep(made, name, admin.StepRunning)
	if err := work(); err != nil {
		return err
	}
	j.setStep(made, name, admin.StepDone)
	return nil
}

func (j *jobs) setStep(made *job, name, state string) {
	now := time.Now().UTC()
	j.change(made, func(shown *admin.Job) {
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
	j.tell(made)
}

// progress notes how many bytes of a step are done. Those who listen are told with the next step.
func (j *jobs) progress(made *job, name string, done, total int64) {
	j.change(made, func(shown *admin.Job) {
		for i := range shown.Steps {
			if s := &shown.Steps[i]; s.Name == name {
				s.Done, s.Total = done, total
			}
		}
	})
}

func (j *jobs) find(p *edgewise.Principal, id string) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	made := j.all[id]
	if made == nil || made.file.Owner != p.Actor() && p.Rights&edgewise.Admin == 0 {
		return nil, edgewise.Errorf("appliance.jobs", edgewise.NotFound, "there is no job %.64q: it was discarded, or the box has started again since", id)
	}
	return made, nil
}

// List returns the jobs that p may see, latest first.
func (j *jobs) List(p *edgewise.Principal) []admin.Job {
	j.mu.Lock()
	var seen []*job
	for _, made := range j.all {
		if made.file.Owner == p.Actor() || p.Rights&edgewise.Admin != 0 {
			seen = append(seen, made)
		}
	}
	j.mu.Unlock()
	list := make([]admin.Job, 0, len(seen))
	for _, made := range seen {
		list = append(list, j.show(made))
	}
	slices.SortFunc(list, func(a, b admin.Job) int { return b.Created.Compare(a.Created) })
	return list
}

// Get returns a job.
func (j *jobs) Get(p *edgewise.Principal, id string) (admin.Job, error) {
	made, err := j.find(p, id)
	if err != nil {
		return admin.Job{}, err
	}
	return j.show(made), nil
}

// Activate goes on with a job that waits for a person, or has failed behind the inspection.
func (j *jobs) Activate(p *edgewise.Principal, id string, a admin.Activate) (admin.Job, error) {
	made, err := j.find(p, id)
	if err != nil {
		return admin.Job{}, err
	}
	if err := j.resume(made, p, a); err != nil {
		return admin.Job{}, err
	}
	j.run(made, func(ctx context.Context) error {
		ctx = edgewise.WithPrincipal(ctx, p)
		if made.backup != nil {
			return j.step(made, stepRestore, func() error { return j.app.restore(ctx, made.backup, a.Accounts) })
		}
		return j.deploy(ctx, made, a)
	})
	return j.show(made), nil
}

// expired ends the jobs that wait for a person and whose uploads were removed because nobody has come.
func (j *jobs) expired(uploads []string) {
	for _, id := range uploads {
		j.mu.Lock()
		made := j.all[id]
		waits := made != nil && made.shown.Resumable
		j.mu.Unlock()
		if waits {
			j.ended(made, edgewise.Errorf("appliance.jobs", edgewise.Canceled, "nobody has gone on with it in time"))
		}
	}
}

// NeedsConfirmation tells whether a job is a restore.
func (j *jobs) NeedsConfirmation(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all[id] != nil && j.all[id].backup != nil
}

// Discard cancels a job and throws its files away.
func (j *jobs) Discard(p *edgewise.Principal, id string) error {
	made, err := j.find(p, id)
	if err != nil {
		return err
	}
	j.mu.Lock()
	made.cancel()
	delete(j.all, id)
	j.mu.Unlock()
	return j.app.uploads.Remove(id)
}

// keeps tells whether an upload's files are in use by a job that works.
func (j *jobs) keeps(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all[id] != nil && j.all[id].shown.State == admin.JobRunning
}
