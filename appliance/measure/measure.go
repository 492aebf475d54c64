// Package measure tries several ways of running one version on the same inputs: whether they answer alike, and which is
// the fastest. At most two of them are loaded at a time, and each has a bounded time.
package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Candidate is one way of running a version.
type Candidate struct {
	Device      string // its name, such as "cpu" or "gpu:0"
	Description string
	// Load makes it ready to run. It returns when ctx ends. An error of kind Exhausted says that there is no room for it
	// now.
	Load func(ctx context.Context) (Subject, error)
}

// Subject is a candidate that is loaded. One goroutine uses it.
type Subject interface {
	// Run computes all outputs of in, which belong to the caller until it calls free. took is the time of the run, without
	// any wait for cores. It returns when ctx ends.
	Run(ctx context.Context, in []edgewise.Tensor) (out []edgewise.Tensor, took time.Duration, free func(), err error)
	Close() error
}

// Sample is a request whose outputs are compared.
type Sample struct {
	Rows   int
	Timed  bool // its runs are measured, too
	Inputs []edgewise.Tensor
}

// Trial is how candidates are tried.
type Trial struct {
	// Samples makes the requests, which the reference is able to run. origin says where they come from.
	Samples func(ctx context.Context, reference Subject) (list []Sample, origin string, err error)
	// Rules are how outputs are compared; one without a rule is compared by Tolerance.
	Rules []admin.CompareRule
	// Tolerance is what floating-point outputs may differ by at least, as a part of the output's largest number, where the
	// candidates compute with fewer bits than their outputs have. 0: what their types allow, see Tolerance.
	Tolerance float64
	Limit     time.Duration // of each candidate but the first one, its load included
}

// maxReason bounds the text that says why a candidate was not chosen, in bytes.
const maxReason = 300

// Run tries candidates, of which the first one is the reference for all answers, and returns what was found with the
// fastest one, still loaded. Where the reference cannot be loaded, the first other one that can is chosen. Errors: ctx's;
// those of the reference when nothing can be loaded; those of a candidate that fails after it was faster.
func (t Trial) Run(ctx context.Context, candidates []Candidate) (found *admin.Choice, winner Subject, err error) {
	r := &running{Trial: t, found: &admin.Choice{Measured: time.Now().UTC()}}
	for _, c := range candidates {
		r.found.Candidates = append(r.found.Candidates, admin.ChoiceCandidate{
			Device: c.Device, Description: c.Description, State: admin.CandidateNotTried,
		})
	}
	if err := r.run(ctx, candidates); err != nil {
		return nil, nil, errors.Join(err, r.close())
	}
	best := &r.found.Candidates[r.best]
	best.State, r.found.Device = admin.CandidateChosen, best.Device
	r.found.Took = time.Since(r.found.Measured).Milliseconds()
	return r.found, r.subject, nil
}

// running is a trial that is being made.
type running struct {
	Trial
	found   *admin.Choice
	best    int     // index of the candidate that is loaded and the fastest so far
	subject Subject // nil: none is loaded
	samples []Sample
	answers [][]edgewise.Tensor // of the reference, for each sample
}

func (r *running) close() error {
	if r.subject == nil {
		return nil
	}
	subject := r.subject
	r.subject = nil
	return subject.Close()
}

func (r *running) run(ctx context.Context, candidates []Candidate) error {
	var err error
	if r.subject, err = candidates[0].Load(ctx); err != nil {
		return r.withoutReference(ctx, candidates, err)
	}
	if err := r.refer(ctx); err != nil {
		r.found.Reason = shorten("nothing can be compared: " + err.Error())
		return ctx.Err()
	}
	for i := range candidates[1:] {
		if err := r.challenge(ctx, i+1, candidates[i+1]); err != nil {
			return err
		}
	}
	if r.best == 0 {
		r.found.Reason = "no other device is right and faster"
	}
	return nil
}

// withoutReference chooses the first candidate that can be loaded.
func (r *running) withoutReference(ctx context.Context, candidates []Candidate, cause error) error {
	r.found.Candidates[0].State, r.found.Candidates[0].Reason = stateOf(cause), shorten(cause.Error())
	for i, c := range candidates[1:] {
		limited, cancel := context.WithTimeout(ctx, r.Limit)
		subject, err := c.Load(limited)
		cancel()
		if err == nil {
			r.best, r.subject = i+1, subject
			r.found.Reason = fmt.Sprintf("%s cannot run it, so there is nothing to compare with", candidates[0].Device)
			return nil
		}
		r.reject(i+1, r.explain(limited, err))
	}
	return cause
}

// refer makes the samples and runs them on the reference.
func (r *running) refer(ctx context.Context) (err error) {
	if r.samples, r.found.Inputs, err = r.Samples(ctx, r.subject); err != nil {
		return err
	}
	left := maxAnswers
	for _, s := range r.samples {
		out, _, free, err := r.subject.Run(ctx, s.Inputs)
		if err != nil {
			return err
		}
		kept, size := clone(out)
		free()
		if left -= size; left < 0 {
			return fmt.Errorf("the answers to its samples take more than %d bytes", maxAnswers)
		}
		r.answers = append(r.answers, kept)
	}
	return nil
}

// maxAnswers bounds the answers of the reference that are kept while a trial is made, in bytes.
const maxAnswers = 256 << 20

func clone(tensors []edgewise.Tensor) (list []edgewise.Tensor, size int) {
	for _, t := range tensors {
		t.Data, t.Shape = slices.Clone(t.Data), slices.Clone(t.Shape)
		list, size = append(list, t), size+len(t.Data)
	}
	return list, size
}

// challenge tries one candidate against the fastest so far. Only what ends the whole trial is an error.
func (r *running) challenge(ctx context.Context, number int, c Candidate) error {
	limited, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	subject, err := c.Load(limited)
	if err != nil {
		r.reject(number, r.explain(limited, err))
		return ctx.Err()
	}
	if err := r.compare(limited, number, subject); err != nil {
		r.reject(number, r.explain(limited, err))
		return errors.Join(ctx.Err(), drop(subject))
	}
	faster, err := r.race(limited, number, subject)
	switch {
	case ctx.Err() != nil:
		return errors.Join(ctx.Err(), drop(subject))
	case err != nil:
		r.reject(number, r.explain(limited, err))
		return drop(subject)
	case !faster:
		r.found.Candidates[number].State = admin.CandidateSlower
		return drop(subject)
	}
	if beaten := &r.found.Candidates[r.best]; beaten.State != admin.CandidateFailed {
		beaten.State = admin.CandidateSlower
	}
	loser := r.subject
	r.best, r.subject = number, subject
	return drop(loser)
}

// drop closes a candidate that was not chosen. That its process has ended already is no error of the trial.
func drop(s Subject) error {
	_ = s.Close()
	return nil
}

// reject notes why a candidate is out.
func (r *running) reject(number int, err error) {
	c := &r.found.Candidates[number]
	c.State, c.Reason = stateOf(err), shorten(err.Error())
}

// explain replaces an error that the bound of a candidate's time has made.
func (r *running) explain(limited context.Context, err error) error {
	if errors.Is(limited.Err(), context.DeadlineExceeded) {
		return edgewise.Errorf("measure.Run", edgewise.Deadline, "it took longer than %v", r.Limit)
	}
	return err
}

func stateOf(err error) string {
	var wrong *wrongAnswer
	switch {
	case errors.As(err, &wrong):
		return admin.CandidateWrong
	case edgewise.KindOf(err) == edgewise.Exhausted:
		return admin.CandidateNotTried
	}
	return admin.CandidateFailed
}

func shorten(text string) string {
	if len(text) <= maxReason {
		return text
	}
	cut := maxReason
	for cut > 0 && text[cut]&0xc0 == 0x80 { // at a character
		cut--
	}
	return text[:cut] + " …"
}
