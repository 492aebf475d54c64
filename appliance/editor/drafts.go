// Package editor serves the page's editors of ensembles and steps: drafts, their validation and traced runs, the
// gallery, and compiled steps.
package editor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// Drafts lists the drafts, latest change first.
func (e *Editor) Drafts() ([]admin.Draft, error) {
	list := []admin.Draft{}
	err := e.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		return tx.Each(DraftsBucket, func(_ string, value []byte) error {
			var d admin.Draft
			if err := json.Unmarshal(value, &d); err != nil {
				return edgewise.Errorf("editor.Drafts", edgewise.Corrupt, "a draft is damaged: %w", err)
			}
			list = append(list, d)
			return nil
		})
	})
	slices.SortFunc(list, func(a, b admin.Draft) int { return b.Changed.Compare(a.Changed) })
	return list, err
}

// CreateDraft stores a new draft of p. There are at most MaxDrafts, of 512 KiB each. Errors: Invalid, TooLarge.
func (e *Editor) CreateDraft(p *edgewise.Principal, n admin.DraftNew) (admin.Draft, error) {
	const op = "editor.CreateDraft"
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	now := time.Now().UTC()
	d := admin.Draft{
		ID: hex.EncodeToString(b), Name: n.Name, Config: n.Config, Layout: given(n.Layout), Base: n.Base,
		Revision: 1, Created: now, Changed: now, Owner: p.Actor(),
	}
	if err := checkDraft(d); err != nil {
		return d, err
	}
	return d, e.config.Documents.Update(func(tx edgewise.DocumentsTx) error {
		count := 0
		if err := tx.Each(DraftsBucket, func(string, []byte) error {
			count++
			return nil
		}); err != nil {
			return err
		}
		if count >= MaxDrafts {
			return edgewise.Errorf(op, edgewise.TooLarge, "there are %d drafts, which is the limit: publish or delete some",
				MaxDrafts)
		}
		return putDraft(tx, d)
	})
}

// given returns a member of a body, nil for the JSON value null.
func given(text json.RawMessage) json.RawMessage {
	if string(bytes.TrimSpace(text)) == "null" {
		return nil
	}
	return text
}

func checkDraft(d admin.Draft) error {
	const op = "editor.checkDraft"
	invalid := func(field, format string, args ...any) error {
		return edgewise.Errorf(op, edgewise.Invalid, format, args...).WithField(field)
	}
	switch config := bytes.TrimSpace(d.Config); {
	case edgewise.CheckName(d.Name) != nil:
		return invalid("name", "%w", edgewise.CheckName(d.Name))
	case len(config) == 0 || config[0] != '{':
		return invalid("config", "the draft has no configuration: want an object, {} to begin with")
	case len(d.Config)+len(d.Layout) > maxDraftBytes:
		return edgewise.Errorf(op, edgewise.TooLarge, "the draft has %d bytes: at most %d are allowed",
			len(d.Config)+len(d.Layout), maxDraftBytes).WithLimit(maxDraftBytes)
	}
	return nil
}

func putDraft(tx edgewise.DocumentsTx, d admin.Draft) error {
	text, err := json.Marshal(d)
	if err != nil {
		return edgewise.Errorf("editor.putDraft", edgewise.Internal, "%w", err)
	}
	return tx.Put(DraftsBucket, d.ID, text)
}

func getDraft(tx edgewise.DocumentsTx, id string) (d admin.Draft, err error) {
	text := tx.Get(DraftsBucket, id)
	if text == nil {
		return d, edgewise.Errorf("editor.Draft", edgewise.NotFound, "there is no draft %.64q", id)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, edgewise.Errorf("editor.Draft", edgewise.Corrupt, "draft %s is damaged: %w", id, err)
	}
	return d, nil
}

// Draft returns a draft. Errors: NotFound, Corrupt.
func (e *Editor) Draft(id string) (d admin.Draft, err error) {
	err = e.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		d, err = getDraft(tx, id)
		return err
	})
	return d, err
}

// SaveDraft replaces the revision of a draft that s names. Errors: Conflict when the stored revision is another,
// NotFound, Invalid, TooLarge.
func (e *Editor) SaveDraft(id string, s admin.DraftSave) (d admin.Draft, err error) {
	err = e.config.Documents.Update(func(tx edgewise.DocumentsTx) error {
		if d, err = getDraft(tx, id); err != nil {
			return err
		}
		if s.Revision != d.Revision {
			return edgewise.Errorf("editor.SaveDraft", edgewise.Conflict,
				"the draft has revision %d, not %d: somebody else has changed it", d.Revision, s.Revision)
		}
		if s.Name != "" {
			d.Name = s.Name
		}
		if layout := given(s.Layout); layout != nil {
			d.Layout = layout
		}
		d.Config, d.Revision, d.Changed = s.Config, d.Revision+1, time.Now().UTC()
		if err := checkDraft(d); err != nil {
			return err
		}
		return putDraft(tx, d)
	})
	return d, err
}

// DeleteDraft deletes a draft. Errors: NotFound.
func (e *Editor) DeleteDraft(id string) error {
	return e.config.Documents.Update(func(tx edgewise.DocumentsTx) error {
		if _, err := getDraft(tx, id); err != nil {
			return err
		}
		return tx.Delete(DraftsBucket, id)
	})
}

// CheckDraft checks a draft as it is stored under id in DraftsBucket. The error names what is wrong.
func CheckDraft(id string, value []byte) error {
	var d admin.Draft
	if err := json.Unmarshal(value, &d); err != nil {
		return err
	}
	if d.ID != id || len(id) > maxDraftID || strings.Trim(id, "0123456789abcdef") != "" || id == "" {
		return fmt.Errorf("its id is %.80q: want that of the document, of up to %d hexadecimal digits", d.ID, maxDraftID)
	}
	return checkDraft(d)
}

// Bounds of drafts.
const (
	// DraftsBucket is where drafts are stored, as JSON under their ids.
	DraftsBucket = "drafts"
	// MaxDrafts bounds how many there are.
	MaxDrafts = 100

	maxDraftBytes = 512 << 10 // of a configuration and its layout together
	maxDraftID    = 64        // hexadecimal digits
)

// Models is what the editor needs of the registry of models. registry.Registry describes the methods.
type Models interface {
	Lookup(name string) *edgewise.Record
	Understand(ctx context.Context, name, dir string, files []string) (*edgewise.Model, error)
	Push(ctx context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error)
}

// Config is what an Editor works with.
type Config struct {
	Documents edgewise.Documents
	Models    Models
	// VersionReady returns nil when requests to a version are answered.
	VersionReady func(id edgewise.ModelID) error
	// Independent tells whether the rows of a loaded version's batches do not depend on each other.
	Independent func(id edgewise.ModelID) bool
	// Backend returns the backend that runs a model. Errors: Unsupported.
	Backend  func(m *edgewise.Model) (edgewise.Backend, error)
	SetNotes func(id edgewise.ModelID, text string) error // about a version
	Infer    edgewise.Inferer                             // runs the steps of a traced draft
	Defaults modelconfig.Defaults
	MaxQueue int    // requests that wait for a traced draft
	Folder   string // for the files of steps during their trial
	Logger   *slog.Logger
}

// Editor makes ensembles and steps. All methods are safe for concurrent use.
type Editor struct{ config Config }

// New returns an Editor.
func New(c Config) *Editor { return &Editor{c} }

// RenameModel lets drafts that name a model, as the ensemble that they are of or in a step, name it by its new name, as
// part of a transaction.
func RenameModel(tx edgewise.DocumentsTx, name, to string) error {
	var changed []admin.Draft
	err := tx.Each(DraftsBucket, func(_ string, value []byte) error {
		var d admin.Draft
		if json.Unmarshal(value, &d) == nil && renameIn(&d, name, to) {
			changed = append(changed, d)
		}
		return nil
	})
	for _, d := range changed {
		if err == nil {
			d.Revision++
			err = putDraft(tx, d)
		}
	}
	return err
}

// renameIn tells whether a draft named the model. Members of the configuration that are no steps stay as they are.
func renameIn(d *admin.Draft, name, to string) bool {
	found := d.Name == name
	if found {
		d.Name = to
	}
	config := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(d.Config))
	decoder.UseNumber()
	if decoder.Decode(&config) != nil {
		return found
	}
	scheduling, _ := config["ensemble_scheduling"].(map[string]any)
	steps, _ := scheduling["step"].([]any)
	inside := false
	for _, one := range steps {
		if step, ok := one.(map[string]any); ok && step["model_name"] == name {
			step["model_name"], inside = to, true
		}
	}
	if text, err := json.Marshal(config); inside && err == nil {
		d.Config = text
	}
	return found || inside
}
