package appliance

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

const (
	notesBucket = "notes"
	maxNotes    = 10_000 // bytes
)

// notes are what people write about models and versions.
type notes struct{ documents edgewise.Documents }

// noteKey is the key of a model's notes, and of a version's.
func noteKey(id edgewise.ModelID) string {
	if id.Version == 0 {
		return id.Name
	}
	return fmt.Sprintf("%s\x00%d", id.Name, id.Version)
}

// get returns the notes about a model or a version, "" when there are none.
func (n notes) get(id edgewise.ModelID) (text string) {
	_ = n.documents.View(func(tx edgewise.DocumentsTx) error {
		text = string(tx.Get(notesBucket, noteKey(id)))
		return nil
	})
	return text
}

// set replaces them; "" removes them. Errors: TooLarge.
func (n notes) set(id edgewise.ModelID, text string) error {
	if len(text) > maxNotes {
		err := edgewise.Errorf("appliance.notes", edgewise.TooLarge, "the notes have %d bytes: at most %d are allowed", len(text), maxNotes)
		err.Limit, err.Field = maxNotes, "notes"
		return err
	}
	return n.documents.Update(func(tx edgewise.DocumentsTx) error {
		if text == "" {
			return tx.Delete(notesBucket, noteKey(id))
		}
		return tx.Put(notesBucket, noteKey(id), []byte(text))
	})
}

// ifAny sets notes unless there are none.
func (n notes) ifAny(id edgewise.ModelID, text string) error {
	if text == "" {
		return nil
	}
	return n.set(id, text)
}

// forget removes the notes about a version, or about a model and all its versions.
func (n notes) forget(id edgewise.ModelID) error {
	return n.documents.Update(func(tx edgewise.DocumentsTx) error {
		var keys []string
		err := tx.Each(notesBucket, func(key string, _ []byte) error {
			if key == noteKey(id) || id.Version == 0 && len(key) > len(id.Name) && key[:len(id.Name)+1] == id.Name+"\x00" {
				keys = append(keys, key)
			}
			return nil
		})
		for _, key := range keys {
			if err == nil {
				err = tx.Delete(notesBucket, key)
			}
		}
		return err
	})
}
