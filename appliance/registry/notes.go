package registry

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// The buckets of texts about models and versions. docs/formats/box.md gives the form of their documents.
const (
	NotesBucket  = "notes"
	FailedBucket = "failed_loads"
	// FindingsBucket has what was measured of versions on the devices of the box.
	FindingsBucket = "measurements"
)

// Notes are texts about models and versions: what people write about them, or why loads have failed.
type Notes struct {
	documents edgewise.Documents
	bucket    string
}

// NewNotes makes the notes that people write.
func NewNotes(documents edgewise.Documents) Notes { return Notes{documents, NotesBucket} }

// NewFindings makes the texts of what was measured of versions.
func NewFindings(documents edgewise.Documents) Notes { return Notes{documents, FindingsBucket} }

// noteKey is the key of a model's notes, and of a version's.
func noteKey(id edgewise.ModelID) string {
	if id.Version == 0 {
		return id.Name
	}
	return fmt.Sprintf("%s\x00%d", id.Name, id.Version)
}

// Get returns the notes about a model or a version, "" when there are none.
func (n Notes) Get(id edgewise.ModelID) (text string) {
	_ = n.documents.View(func(tx edgewise.DocumentsTx) error {
		text = string(tx.Get(n.bucket, noteKey(id)))
		return nil
	})
	return text
}

// Set replaces the notes about a model or a version; "" removes them. Errors: TooLarge.
func (n Notes) Set(id edgewise.ModelID, text string) error {
	if len(text) > admin.MaxNotesBytes {
		return edgewise.Errorf("registry.notes", edgewise.TooLarge, "the notes have %d bytes: at most %d are allowed",
			len(text), admin.MaxNotesBytes).WithLimit(admin.MaxNotesBytes).WithField("notes")
	}
	return n.documents.Update(func(tx edgewise.DocumentsTx) error {
		if text == "" {
			return tx.Delete(n.bucket, noteKey(id))
		}
		return tx.Put(n.bucket, noteKey(id), []byte(text))
	})
}

// Versions lists the versions of a model that there are notes about.
func (n Notes) Versions(name string) (list []edgewise.ModelID, err error) {
	err = n.documents.View(func(tx edgewise.DocumentsTx) error {
		return tx.Each(n.bucket, func(key string, _ []byte) error {
			model, number, _ := strings.Cut(key, "\x00")
			if version, err := strconv.ParseInt(number, 10, 64); model == name && err == nil {
				list = append(list, edgewise.ModelID{Name: name, Version: version})
			}
			return nil
		})
	})
	return list, err
}

// Forget removes the notes about a version, or about a model and all its versions.
func (n Notes) Forget(id edgewise.ModelID) error {
	return n.documents.Update(func(tx edgewise.DocumentsTx) error {
		var keys []string
		err := tx.Each(n.bucket, func(key string, _ []byte) error {
			if key == noteKey(id) || id.Version == 0 && len(key) > len(id.Name) && key[:len(id.Name)+1] == id.Name+"\x00" {
				keys = append(keys, key)
			}
			return nil
		})
		for _, key := range keys {
			if err == nil {
				err = tx.Delete(n.bucket, key)
			}
		}
		return err
	})
}

// failedLoads are the versions that uploads brought and that could not be loaded when they were to go live, with the
// reason. The next upload of the model replaces them; see decision 0046.
type failedLoads struct {
	notes  Notes
	logger *slog.Logger
}

// add notes that a version failed to load.
func (f failedLoads) add(id edgewise.ModelID, cause error) {
	text := cause.Error()
	f.report(id, f.notes.Set(id, text[:min(len(text), admin.MaxNotesBytes)]))
}

// keep forgets that a version, or one of a model's for version 0, failed to load: no upload replaces it any more.
func (f failedLoads) keep(id edgewise.ModelID) {
	list, err := f.notes.Versions(id.Name)
	if err == nil && len(list) > 0 { // most have none: nothing is written for them
		err = f.notes.Forget(id)
	}
	f.report(id, err)
}

func (f failedLoads) report(id edgewise.ModelID, err error) {
	if err != nil {
		f.logger.Error("the note of a failed load was not written", "model", id.String(), "error", err)
	}
}

// GoLive moves the label live to a version that an upload brought, or begins its rollout, and deletes versions beyond
// those that are kept. The next upload of the model replaces the version when that fails, unless the caller has chosen
// its number, or the version works and has not passed its goldens or cannot be rolled out: people look into that.
func (g *Registry) GoLive(ctx context.Context, id edgewise.ModelID, numbered bool) (moved admin.LabelMove, err error) {
	if g.config.Stage != nil {
		moved.Staged, err = g.config.Stage(ctx, id)
	}
	if !moved.Staged {
		moved, err = g.SetLabel(admin.WithCause(ctx, admin.CauseUpload), id.Name, edgewise.LiveLabel, id.Version)
	}
	if err == nil {
		g.retain(ctx, id.Name)
		return moved, nil
	}
	works := admin.FailsGoldens(err) || moved.Staged && edgewise.KindOf(err) == edgewise.Conflict
	if !numbered && !works {
		g.failed.add(id, err)
	}
	return moved, err
}

// Keep has no upload replace a version that failed to load, or any of a model's for version 0.
func (g *Registry) Keep(id edgewise.ModelID) { g.failed.keep(id) }

// dropFailed deletes the versions of a model that failed to load. One that has a label, or that an ensemble pins,
// stays.
func (g *Registry) dropFailed(ctx context.Context, name string) {
	list, err := g.failed.notes.Versions(name)
	g.failed.report(edgewise.ModelID{Name: name}, err)
	for _, id := range list {
		err := g.DeleteVersion(ctx, id)
		switch {
		case err == nil: // it says so itself
		case edgewise.KindOf(err) == edgewise.Conflict || edgewise.KindOf(err) == edgewise.NotFound:
			g.failed.keep(id)
		default:
			g.logger.Error("a version that failed to load was not deleted", "model", id.String(), "error", err)
		}
	}
}
