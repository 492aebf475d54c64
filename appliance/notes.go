package appliance

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

const (
	notesBucket  = "notes"
	failedBucket = "failed_loads"
)

// notes are texts about models and versions: what people write about them, and why loads have failed.
type notes struct {
	documents edgewise.Documents
	bucket    string
}

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
		text = string(tx.Get(n.bucket, noteKey(id)))
		return nil
	})
	return text
}

// set replaces them; "" removes them. Errors: TooLarge.
func (n notes) set(id edgewise.ModelID, text string) error {
	if len(text) > admin.MaxNotesBytes {
		err := edgewise.Errorf("appliance.notes", edgewise.TooLarge, "the notes have %d bytes: at most %d are allowed",
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

// ifAny sets notes unless there are none.
func (n notes) ifAny(id edgewise.ModelID, text string) error {
	if text == "" {
		return nil
	}
	return n.set(id, text)
}

// versions lists the versions of a model that there are notes about.
func (n notes) versions(name string) (list []edgewise.ModelID, err error) {
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

// forget removes the notes about a version, or about a model and all its versions.
func (n notes) forget(id edgewise.ModelID) error {
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
