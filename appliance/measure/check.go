package measure

import (
	"context"
	"errors"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// Check compares ways of running a version, all of which serve when they answer alike, with a reference that does not.
type Check struct{ running }

// Check runs the samples on a reference, which is closed before it returns. Errors: those of its load, of the samples and of
// its runs.
func (t Trial) Check(ctx context.Context, reference Candidate) (*Check, error) {
	c := &Check{running{Trial: t, found: &admin.Choice{Measured: time.Now().UTC(), Candidates: []admin.ChoiceCandidate{{
		Device: reference.Device, Description: reference.Description, State: admin.CandidateReference,
	}}}}}
	var err error
	if c.subject, err = reference.Load(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(c.refer(ctx), c.close()); err != nil {
		return nil, err
	}
	return c, nil
}

// Compare compares the answers of one that is loaded. The error says which output differs, by how much, and how much is
// allowed, or is that of a run.
func (c *Check) Compare(ctx context.Context, device, description string, s Subject) error {
	c.found.Candidates = append(c.found.Candidates, admin.ChoiceCandidate{
		Device: device, Description: description, State: admin.CandidateChosen,
	})
	number := len(c.found.Candidates) - 1
	if err := c.compare(ctx, number, s); err != nil {
		c.reject(number, err)
		return err
	}
	if c.found.Device == "" {
		c.found.Device = device
	}
	return nil
}

// Found is what was found so far.
func (c *Check) Found() *admin.Choice {
	c.found.Took = time.Since(c.found.Measured).Milliseconds()
	return c.found
}
