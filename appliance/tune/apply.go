package tune

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// change is another configuration for a version.
type change struct {
	of       *edgewise.Version
	text     []byte
	settings []string // in words
}

// changes are what a candidate changes.
func (p *plan) changes(c search.Candidate) (list []change, err error) {
	for _, one := range p.parts {
		text, changed, err := one.configuration(c)
		if err != nil {
			return nil, err
		}
		if changed {
			list = append(list, change{one.version, text, one.settings(c)})
		}
	}
	return list, nil
}

// apply stores the best configuration as a version with its report. It goes live as an uploaded version does, unless the
// caller asked otherwise or another version went live meanwhile.
func (t *Tuner) apply(ctx context.Context, j *job, r *admin.TuneReport, changes []change) error {
	id := j.version.ID
	if len(changes) == 0 {
		t.keep(id, r)
		return nil
	}
	live := !j.store
	record, err := t.config.Models.Record(id.Name)
	if err != nil {
		return err
	}
	if now := record.Label(edgewise.LiveLabel); now != id.Version {
		live, r.Reason = false, fmt.Sprintf("version %d went live meanwhile", now)
	}
	text := changes[0].text
	if j.version.Model.EnsembleScheduling != nil {
		if text, err = t.storeParts(ctx, j, r, changes); err != nil {
			return err
		}
	}
	pushed, err := t.push(ctx, id, text, "tuning of version "+strconv.FormatInt(id.Version, 10), live)
	if pushed == nil || pushed.Version == nil {
		t.dropParts(ctx, r)
		return err
	}
	r.Version = pushed.Version.ID.Version
	switch {
	case err != nil:
		r.Reason = shorten(err.Error())
	case pushed.Staged:
		r.Reason = "it goes live by the stages of the model's rollout"
	default:
		r.Live = live
	}
	t.keep(pushed.Version.ID, r)
	return nil
}

// keep keeps the report of a version. Where the disk is full, what was found still holds, and the report says so.
func (t *Tuner) keep(id edgewise.ModelID, r *admin.TuneReport) {
	if err := t.save(id, r); err != nil {
		t.config.Logger.Error("the report of a tuning was not kept", "model", id.String(), "error", err)
		reason := shorten("its report was not kept: " + err.Error())
		if r.Reason != "" {
			reason = r.Reason + "; " + reason
		}
		r.Reason = reason
	}
}

// push stores a version that has another configuration than its base.
func (t *Tuner) push(ctx context.Context, base edgewise.ModelID, text []byte, origin string, live bool) (*admin.Pushed, error) {
	sent := false
	return t.config.Models.Push(ctx, edgewise.Upload{
		Model: base.Name, Base: base.Version, Size: -1, Origin: origin,
		Next: func() (string, int64, io.Reader, error) {
			if sent {
				return "", 0, nil, io.EOF
			}
			sent = true
			return modelconfig.Pbtxt, int64(len(text)), bytes.NewReader(text), nil
		},
	}, live)
}

// storeParts stores the changed models of an ensemble. No label points to their versions, so that nothing changes for others
// that use the models. It returns the configuration of an ensemble that runs them.
func (t *Tuner) storeParts(ctx context.Context, j *job, r *admin.TuneReport, changes []change) ([]byte, error) {
	text, _, err := t.config.Models.Declared(j.version.ID)
	if err != nil {
		return nil, err
	}
	pins := map[edgewise.ModelID]int64{}
	for _, c := range changes {
		pushed, err := t.push(ctx, c.of.ID, c.text, "tuning of "+j.version.ID.String(), false)
		if pushed != nil && pushed.Version != nil {
			pins[c.of.ID] = pushed.Version.ID.Version
			r.Parts = append(r.Parts, admin.TunePart{
				Model: c.of.ID.Name, Base: c.of.ID.Version, Version: pushed.Version.ID.Version, Settings: c.settings,
			})
		}
		if err != nil {
			t.dropParts(ctx, r)
			return nil, err
		}
	}
	text, err = repinned(text, j.version.Model, pins)
	if err != nil {
		t.dropParts(ctx, r)
	}
	return text, err
}

// dropParts deletes the versions of models that were stored for an ensemble, which was not.
func (t *Tuner) dropParts(ctx context.Context, r *admin.TuneReport) {
	for _, p := range slices.Backward(r.Parts) {
		id := edgewise.ModelID{Name: p.Model, Version: p.Version}
		if err := t.config.Models.DeleteVersion(context.WithoutCancel(ctx), id); err != nil {
			t.config.Logger.Error("a version that a tuning has stored was not deleted", "model", id.String(), "error", err)
		}
	}
	r.Parts = nil
}
