package registry

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// The buckets of texts about models and versions. docs/formats/box.md gives the form of their documents.
const (
	NotesBucket  = "notes"
	FailedBucket = "failed_loads"
)

// Notes are texts about models and versions: what people write about them, or why loads have failed.
type Notes struct {
	documents edgewise.Documents
	bucket    string
}

// NewNotes makes the notes that people write.
func NewNotes(documents edgewise.Documents) Notes { return Notes{documents, NotesBucket} }

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
		err := edgewise.Errorf("registry.notes", edgewise.TooLarge, "the notes have %d bytes: at most %d are allowed",
			len(text), admin.MaxNotesBytes)
		err.Limit, err.Field = admin.MaxNotesBytes, "notes"
		return err
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
