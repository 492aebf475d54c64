package registry

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store"
)

// RenamedKey is the document of the latest renaming that was followed, its time as text.
const (
	namesBucket = "box"
	RenamedKey  = "renamed"
)

// NamesConfig is what Names need.
type NamesConfig struct {
	Renamings func() ([]store.Renaming, error) // of the store, by time
	Documents edgewise.Documents
	// Outside lets something know a model by its new name; Inside does so as part of a transaction, which is the last.
	// What has failed is done again at the next Follow, all of it.
	Outside []func(name, to string) error
	Inside  []func(tx edgewise.DocumentsTx, name, to string) error
	Logger  *slog.Logger
}

// Names tells which names models have now that had others before, and lets what is kept beside the models know them.
// The zero value knows of none.
type Names struct {
	list atomic.Pointer[[]store.Renaming]
	mu   sync.Mutex // held while renamings are followed
}

// Now returns the name of the model that had a name at a time, in Unix seconds.
func (n *Names) Now(name string, at int64) string {
	list := n.list.Load()
	if list == nil {
		return name
	}
	for _, r := range *list {
		if r.From == name && r.Time.Unix() >= at {
			name, at = r.To, r.Time.Unix()
		}
	}
	return name
}

// Follow reads what was renamed, and follows what has not been followed: after a loss of power, at the next start.
func (n *Names) Follow(c NamesConfig) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list, err := c.Renamings()
	if err != nil {
		c.Logger.Error("the names that models had are not known", "error", err)
		return
	}
	n.list.Store(&list)
	var followed time.Time
	_ = c.Documents.View(func(tx edgewise.DocumentsTx) error { return followed.UnmarshalText(tx.Get(namesBucket, RenamedKey)) })
	for _, r := range list {
		if !r.Time.After(followed) {
			continue
		}
		if err := c.follow(r); err != nil {
			c.Logger.Error("what is kept beside a model does not know its new name: the next start tries again", "model", r.From,
				"to", r.To, "error", err)
			return
		}
	}
}

func (c NamesConfig) follow(r store.Renaming) error {
	for _, rename := range c.Outside {
		if err := rename(r.From, r.To); err != nil {
			return err
		}
	}
	return c.Documents.Update(func(tx edgewise.DocumentsTx) error {
		for _, rename := range c.Inside {
			if err := rename(tx, r.From, r.To); err != nil {
				return err
			}
		}
		text, err := r.Time.MarshalText()
		if err != nil {
			return err
		}
		return tx.Put(namesBucket, RenamedKey, text)
	})
}

// ofModel tells whether a key of notes is that of a model or one of its versions, and returns the rest of it.
func ofModel(key, model string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(key, model)
	return rest, ok && (rest == "" || rest[0] == 0)
}

// RenameNotes moves the notes about a model and its versions, and what is known of loads that failed and was measured,
// as part of a transaction.
func RenameNotes(tx edgewise.DocumentsTx, name, to string) error {
	for _, bucket := range []string{NotesBucket, FailedBucket, FindingsBucket, FootprintsBucket} {
		moved := map[string][]byte{}
		err := tx.Each(bucket, func(key string, value []byte) error {
			if rest, ok := ofModel(key, name); ok {
				moved[rest] = slices.Clone(value)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for rest, value := range moved {
			if err := tx.Delete(bucket, name+rest); err != nil {
				return err
			}
			if err := tx.Put(bucket, to+rest, value); err != nil {
				return err
			}
		}
	}
	return nil
}
