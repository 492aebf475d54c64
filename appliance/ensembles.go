package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/store"
)

const ensemblePlatform = "ensemble"

// pinsLock is held while an ensemble is pinned and stored, and while a version is deleted that one could pin. It is no
// name that a model can have. Who also holds a model's lock has taken that first.
const pinsLock = "(ensembles)"

func isEnsemble(m *edgewise.Model) bool {
	return m.Platform == ensemblePlatform || m.EnsembleScheduling != nil
}

// putEnsemble pins what an ensemble runs, checks the graph against that, and stores the version. What it is pinned to is
// part of the declaration, so the version's digest covers the whole pipeline. declared is what is wrong with the
// declaration already; the error reports it with everything else.
func (l *library) putEnsemble(ctx context.Context, staging *store.Staging, v edgewise.Version, declared error) (*edgewise.Version, error) {
	unlock, err := l.locks.lock(ctx, pinsLock)
	if err != nil {
		return nil, err
	}
	defer unlock()
	pinned, _, err := ensemble.Pin(v.Model, l.record)
	if err := errors.Join(declared, err); err != nil {
		return nil, err
	}
	v.Model = pinned
	return l.store.Put(ctx, staging, v)
}

// checkEnsemble reports everything that is wrong with an ensemble. Steps that run one of the models beside are compared
// with nothing: these are to be stored before the ensemble.
func (l *library) checkEnsemble(m *edgewise.Model, beside []string) error {
	if slices.ContainsFunc(stepsOf(m), func(name string) bool { return slices.Contains(beside, name) }) {
		return ensemble.Validate(m, make([]*edgewise.Model, len(m.EnsembleScheduling.Step)))
	}
	_, _, err := ensemble.Pin(m, l.record)
	return err
}

func models(versions []*edgewise.Version) []*edgewise.Model {
	list := make([]*edgewise.Model, len(versions))
	for i, v := range versions {
		list[i] = v.Model
	}
	return list
}

// record returns what is stored about a model, nil when there is nothing.
func (l *library) record(name string) *edgewise.Record {
	r, err := l.store.Record(name)
	if err != nil {
		r = nil
	}
	return l.sources.record(name, r)
}

// independent tells whether the rows of a loaded version's batches do not depend on each other. An ensemble has the batch
// dimension that its author has given it.
func (l *library) independent(id edgewise.ModelID) bool {
	measured, err := l.manager.Statistics(id)
	return err == nil && (measured.Batching == nil || measured.Batching.Independent)
}

// unpinned deletes, unless a stored ensemble pins the version, or any version when id names none.
func (l *library) unpinned(ctx context.Context, id edgewise.ModelID, remove func() error) error {
	unlock, err := l.locks.lock(ctx, pinsLock)
	if err != nil {
		return err
	}
	defer unlock()
	var users []edgewise.ModelID
	for _, r := range l.Records() {
		for _, v := range r.Versions {
			for _, pin := range v.Model.Pins() {
				if pin.Name == id.Name && (id.Version == 0 || pin.Version == id.Version) {
					users = append(users, v.ID)
				}
			}
		}
	}
	if len(users) > 0 {
		return edgewise.Errorf("appliance.Delete", edgewise.Conflict, "model %v cannot be deleted while an ensemble pins it: %s: delete that first", id, listed(users))
	}
	return remove()
}

// servedEnsembles lists the ensemble versions that ought to be served and run a model, themselves or through others.
func (l *library) servedEnsembles(name string) []edgewise.ModelID {
	var users []edgewise.ModelID
	for _, r := range l.Records() {
		aspired, _ := manager.Aspired(r)
		for _, number := range aspired {
			if v := r.Version(number); l.runs(v, name) {
				users = append(users, v.ID)
			}
		}
	}
	return users
}

// runs tells whether an ensemble runs a model, itself or through others.
func (l *library) runs(v *edgewise.Version, name string) bool {
	seen := map[edgewise.ModelID]bool{}
	for left := []*edgewise.Version{v}; len(left) > 0; {
		v, left = left[len(left)-1], left[:len(left)-1]
		if v == nil || seen[v.ID] {
			continue
		}
		seen[v.ID] = true
		for _, pin := range v.Model.Pins() {
			if pin.Name == name {
				return true
			}
			if r := l.record(pin.Name); r != nil {
				left = append(left, r.Version(pin.Version))
			}
		}
	}
	return false
}

// maxListed bounds how many versions a message lists.
const maxListed = 8

func listed(ids []edgewise.ModelID) string {
	var names []string
	for _, id := range ids[:min(len(ids), maxListed)] {
		names = append(names, id.String())
	}
	text := strings.Join(names, ", ")
	if more := len(ids) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// partOutput finds which output of which part makes an output of an ensemble; "" when none does.
func partOutput(m *edgewise.Model, output string) (id edgewise.ModelID, name string) {
	if m.EnsembleScheduling == nil {
		return id, ""
	}
	for _, s := range m.EnsembleScheduling.Step {
		for from, to := range s.OutputMap {
			if to == output && s.Pinned != nil {
				return edgewise.ModelID{Name: s.ModelName, Version: s.Pinned.Version}, from
			}
		}
	}
	return id, ""
}

// declaredInspection says of an ensemble what a backend reads out of a model's file.
func declaredInspection(m *edgewise.Model) *edgewise.Inspection {
	ins := &edgewise.Inspection{Opsets: map[string]int64{}, Operators: map[string]int{}}
	info := func(s edgewise.Spec) edgewise.TensorInfo {
		t := edgewise.TensorInfo{Name: s.Name, Type: s.Type, Datatype: s.Type.String(), Shape: s.Shape, Optional: s.Optional}
		if m.MaxBatchSize > 0 {
			t.Dims = make([]string, len(s.Shape))
			t.Dims[0] = "batch"
		}
		return t
	}
	for _, s := range m.Inputs() {
		ins.Inputs = append(ins.Inputs, info(s))
	}
	for _, s := range m.Outputs() {
		ins.Outputs = append(ins.Outputs, info(s))
	}
	for _, s := range m.EnsembleScheduling.Step {
		id := edgewise.ModelID{Name: s.ModelName}
		if s.Pinned != nil {
			id.Version = s.Pinned.Version
		}
		ins.Steps = append(ins.Steps, id)
	}
	return ins
}
