package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// SettingsBucket is the bucket of the plans by which new versions go live, by model.
const SettingsBucket = "rollout_settings"

// Parameter is the parameter of a model's configuration that holds the plan by which that version goes live, as JSON.
const Parameter = "rollout"

// maxPlan bounds the text of a plan in a configuration, in bytes.
const maxPlan = 16 << 10

// CheckSettings reports why settings cannot be used. Errors: Invalid with Field.
func CheckSettings(s admin.RolloutSettings) error {
	if s.Plan == nil {
		return nil
	}
	plan := *s.Plan
	if plan.Version != 0 {
		return edgewise.Errorf("rollout.CheckSettings", edgewise.Invalid, "the plan of a model is for every new version: it "+
			"names none, got version %d", plan.Version).WithField("version")
	}
	return complete(&plan)
}

// CheckSettingsDocument tells whether a document is one of SettingsBucket.
func CheckSettingsDocument(model string, value []byte) error {
	if err := edgewise.CheckName(model); err != nil {
		return err
	}
	var s admin.RolloutSettings
	if err := json.Unmarshal(value, &s); err != nil {
		return err
	}
	return CheckSettings(s)
}

// CheckModel reports why the plan in a model's configuration cannot be used. Errors: Invalid.
func CheckModel(m *edgewise.Model) error {
	_, err := ownPlan(m)
	return err
}

// ownPlan returns the plan in a model's configuration, nil when it has none.
func ownPlan(m *edgewise.Model) (*admin.RolloutPlan, error) {
	const op = "rollout.ownPlan"
	p, there := m.Parameters[Parameter]
	if !there {
		return nil, nil
	}
	if len(p.StringValue) > maxPlan {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "parameters: %s: it has %d bytes, at most %d are allowed", Parameter,
			len(p.StringValue), maxPlan)
	}
	plan, decoder := &admin.RolloutPlan{}, json.NewDecoder(bytes.NewReader([]byte(p.StringValue)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(plan)
	if _, more := decoder.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("something follows it")
	}
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "parameters: %s: want a plan as JSON, such as {}: %w", Parameter, err)
	}
	if err := CheckSettings(admin.RolloutSettings{Plan: plan}); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "parameters: %s: %w", Parameter, err)
	}
	return plan, nil
}

// settings returns those of a model.
func (s *Rollouts) settings(model string) (found admin.RolloutSettings, err error) {
	err = s.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		text := tx.Get(SettingsBucket, model)
		if text == nil {
			return nil
		}
		if err := json.Unmarshal(text, &found); err != nil {
			return edgewise.Errorf("rollout.settings", edgewise.Corrupt, "the plan of model %q is damaged: %w", model, err)
		}
		return nil
	})
	return found, err
}

// Settings returns how new versions of a model go live. Errors: NotFound, Corrupt.
func (s *Rollouts) Settings(model string) (admin.RolloutSettings, error) {
	if s.config.Models.Lookup(model) == nil {
		return admin.RolloutSettings{}, edgewise.Errorf("rollout.Settings", edgewise.NotFound, "there is no model %q", model)
	}
	return s.settings(model)
}

// Configure says how new versions of a model go live. Errors: NotFound, Invalid with Field, Conflict for a model that is
// not changed here.
func (s *Rollouts) Configure(model string, to admin.RolloutSettings) (admin.RolloutSettings, error) {
	if _, err := s.Settings(model); err != nil && edgewise.KindOf(err) != edgewise.Corrupt {
		return to, err
	}
	if err := s.config.Models.Changeable("rollout.Configure", model); err != nil {
		return to, err
	}
	if err := CheckSettings(to); err != nil {
		return to, err
	}
	if to.Plan != nil {
		plan := *to.Plan
		_ = complete(&plan) // it was checked, and is to be shown with its presets
		to.Plan = &plan
	}
	err := s.config.Documents.Update(func(tx edgewise.DocumentsTx) error {
		if to.Plan == nil {
			return tx.Delete(SettingsBucket, model)
		}
		text, err := json.Marshal(to)
		if err != nil {
			return edgewise.Errorf("rollout.Configure", edgewise.Internal, "%w", err)
		}
		return tx.Put(SettingsBucket, model, text)
	})
	if err == nil {
		s.config.Publish("model", admin.ModelEvent{Model: model, What: "rollout"})
	}
	return to, err
}

// planOf returns the plan by which a version goes live: that of its configuration, or else that of its model; nil when
// it goes live at once. Errors: Corrupt.
func (s *Rollouts) planOf(v *edgewise.Version) (*admin.RolloutPlan, error) {
	plan, err := ownPlan(v.Model)
	if err != nil || plan != nil {
		return plan, err
	}
	found, err := s.settings(v.ID.Name)
	return found.Plan, err
}

// Stage begins the rollout of a version that an upload brought, and tells whether it goes live that way and not by a
// move of the label: that is where there is a plan for it, and a live version to compare it with. Errors: those of
// Start.
func (s *Rollouts) Stage(ctx context.Context, id edgewise.ModelID) (staged bool, err error) {
	record := s.config.Models.Lookup(id.Name)
	if record == nil || record.Version(id.Version) == nil || !record.Wanted ||
		!slices.ContainsFunc(record.Labels, func(l edgewise.Label) bool {
			return l.Name == edgewise.LiveLabel && l.Version != id.Version
		}) {
		return false, nil
	}
	plan, err := s.planOf(record.Version(id.Version))
	if err != nil || plan == nil {
		return err != nil, err
	}
	_, err = s.Start(ctx, id.Name, admin.RolloutPlan{Version: id.Version})
	return true, err
}

// whole returns a plan that says no more than a version as the one by which that goes live, and others as they are.
// Errors: Corrupt.
func (s *Rollouts) whole(model string, p admin.RolloutPlan) (admin.RolloutPlan, error) {
	text, err := json.Marshal(p)
	bare, _ := json.Marshal(admin.RolloutPlan{Version: p.Version})
	record := s.config.Models.Lookup(model)
	if err != nil || !bytes.Equal(text, bare) || record == nil || record.Version(p.Version) == nil {
		return p, nil // a number that JSON has not is found when it is checked
	}
	plan, err := s.planOf(record.Version(p.Version))
	if err != nil || plan == nil {
		return p, err
	}
	found := *plan
	found.Version = p.Version
	return found, nil
}

// RenameModel gives the plan of a model to its new name.
func RenameModel(tx edgewise.DocumentsTx, name, to string) error {
	text := tx.Get(SettingsBucket, name)
	if text == nil {
		return nil
	}
	return errors.Join(tx.Put(SettingsBucket, to, slices.Clone(text)), tx.Delete(SettingsBucket, name))
}
