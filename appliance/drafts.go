package appliance

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

const (
	draftsBucket = "drafts"
	// Bounds of drafts.
	maxDrafts     = 100
	maxDraftBytes = 512 << 10 // of a configuration and its layout together
	maxDraftID    = 64        // hexadecimal digits
)

// workshop is where ensembles and steps are made.
type workshop struct{ *App }

var _ httpapi.Editor = (*workshop)(nil)

// Drafts lists the drafts, latest change first.
func (w *workshop) Drafts() ([]admin.Draft, error) {
	list := []admin.Draft{}
	err := w.documents.View(func(tx edgewise.DocumentsTx) error {
		return tx.Each(draftsBucket, func(_ string, value []byte) error {
			var d admin.Draft
			if err := json.Unmarshal(value, &d); err != nil {
				return edgewise.Errorf("appliance.Drafts", edgewise.Corrupt, "a draft is damaged: %w", err)
			}
			list = append(list, d)
			return nil
		})
	})
	slices.SortFunc(list, func(a, b admin.Draft) int { return b.Changed.Compare(a.Changed) })
	return list, err
}

// CreateDraft begins a draft. Errors: Invalid, TooLarge.
func (w *workshop) CreateDraft(p *edgewise.Principal, n admin.DraftNew) (admin.Draft, error) {
	const op = "appliance.CreateDraft"
	b := make([]byte, 8)
	_, _ = rand.Read(b) // which cannot fail
	now := time.Now().UTC()
	d := admin.Draft{ID: hex.EncodeToString(b), Name: n.Name, Config: n.Config, Layout: given(n.Layout), Base: n.Base, Revision: 1, Created: now, Changed: now, Owner: p.Actor()}
	if err := checkDraft(d); err != nil {
		return d, err
	}
	return d, w.documents.Update(func(tx edgewise.DocumentsTx) error {
		count := 0
		if err := tx.Each(draftsBucket, func(string, []byte) error {
			count++
			return nil
		}); err != nil {
			return err
		}
		if count >= maxDrafts {
			return edgewise.Errorf(op, edgewise.TooLarge, "there are %d drafts, which is the limit: publish or delete some", maxDrafts)
		}
		return putDraft(tx, d)
	})
}

// given returns a member of a body, nil where it is null.
func given(text json.RawMessage) json.RawMessage {
	if string(bytes.TrimSpace(text)) == "null" {
		return nil
	}
	return text
}

func checkDraft(d admin.Draft) error {
	const op = "appliance.checkDraft"
	invalid := func(field, format string, args ...any) error {
		err := edgewise.Errorf(op, edgewise.Invalid, format, args...)
		err.Field = field
		return err
	}
	switch config := bytes.TrimSpace(d.Config); {
	case edgewise.CheckName(d.Name) != nil:
		return invalid("name", "%w", edgewise.CheckName(d.Name))
	case len(config) == 0 || config[0] != '{':
		return invalid("config", "the draft has no configuration: want an object, {} to begin with")
	case len(d.Config)+len(d.Layout) > maxDraftBytes:
		err := edgewise.Errorf(op, edgewise.TooLarge, "the draft has %d bytes: at most %d are allowed", len(d.Config)+len(d.Layout), maxDraftBytes)
		err.Limit = maxDraftBytes
		return err
	}
	return nil
}

func putDraft(tx edgewise.DocumentsTx, d admin.Draft) error {
	text, err := json.Marshal(d)
	if err != nil {
		return edgewise.Errorf("appliance.putDraft", edgewise.Internal, "%w", err)
	}
	return tx.Put(draftsBucket, d.ID, text)
}

func getDraft(tx edgewise.DocumentsTx, id string) (d admin.Draft, err error) {
	text := tx.Get(draftsBucket, id)
	if text == nil {
		return d, edgewise.Errorf("appliance.Draft", edgewise.NotFound, "there is no draft %.64q", id)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, edgewise.Errorf("appliance.Draft", edgewise.Corrupt, "draft %s is damaged: %w", id, err)
	}
	return d, nil
}

// Draft returns a draft.
func (w *workshop) Draft(id string) (d admin.Draft, err error) {
	err = w.documents.View(func(tx edgewise.DocumentsTx) error {
		d, err = getDraft(tx, id)
		return err
	})
	return d, err
}

// SaveDraft replaces a draft that nobody has changed since it was read. Errors: Conflict, NotFound, Invalid, TooLarge.
func (w *workshop) SaveDraft(id string, s admin.DraftSave) (d admin.Draft, err error) {
	err = w.documents.Update(func(tx edgewise.DocumentsTx) error {
		if d, err = getDraft(tx, id); err != nil {
			return err
		}
		if s.Revision != d.Revision {
			return edgewise.Errorf("appliance.SaveDraft", edgewise.Conflict, "the draft has revision %d, not %d: somebody else has changed it", d.Revision, s.Revision)
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

// DeleteDraft throws a draft away.
func (w *workshop) DeleteDraft(id string) error {
	return w.documents.Update(func(tx edgewise.DocumentsTx) error {
		if _, err := getDraft(tx, id); err != nil {
			return err
		}
		return tx.Delete(draftsBucket, id)
	})
}
