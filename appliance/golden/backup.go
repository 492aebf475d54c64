package golden

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/example"
)

// MaxRestored bounds the goldens of all models that a restore may leave.
const MaxRestored = 100_000

// decoded returns the goldens in documents by key, in the order of the keys. What cannot be read is left out.
func decoded(documents map[string][]byte, fn func(key string, one admin.Golden)) {
	for _, key := range slices.Sorted(maps.Keys(documents)) {
		var one admin.Golden
		if json.Unmarshal(documents[key], &one) == nil {
			fn(key, one)
		}
	}
}

// BackupFiles lists the examples that the documents of a backup name, each once. Goldens whose example cannot be read are
// taken out of the documents first: a damaged file is no reason to have no backup.
func (g *Goldens) BackupFiles(buckets map[string]map[string][]byte) []edgewise.File {
	decoded(buckets[Bucket], func(key string, one admin.Golden) {
		if _, err := g.config.Files.Get(one.Digest, example.MaxBytes); err != nil {
			g.config.Logger.Error("a golden is not in the backup", "golden", one.ID, "error", err)
			delete(buckets[Bucket], key)
		}
	})
	return g.Examples(buckets)
}

// Examples lists the files of the examples that the documents of a backup name, each once.
func (g *Goldens) Examples(buckets map[string]map[string][]byte) []edgewise.File {
	var list []edgewise.File
	seen := map[edgewise.Digest]bool{}
	decoded(buckets[Bucket], func(_ string, one admin.Golden) {
		if !seen[one.Digest] {
			seen[one.Digest] = true
			list = append(list, edgewise.File{Path: Bucket + "/" + one.ID, Size: one.Size, Digest: one.Digest})
		}
	})
	return list
}

// ReadExample reads one of them that is stored. Errors: NotFound, Corrupt, Internal.
func (g *Goldens) ReadExample(f edgewise.File) ([]byte, error) {
	return g.config.Files.Get(f.Digest, example.MaxBytes)
}

// CheckRestore reports why the goldens of a backup cannot be added to those that are stored: more than a model may have,
// or goldens of models that has does not know. Errors: Invalid, TooLarge.
func (g *Goldens) CheckRestore(buckets map[string]map[string][]byte, has func(model string) bool) error {
	count, size := map[string]int{}, map[string]int64{}
	add := func(key string, one admin.Golden) {
		model, _, _ := strings.Cut(key, "\x00")
		count[model]++
		size[model] += one.Size
	}
	decoded(buckets[Bucket], add)
	brought := slices.Sorted(maps.Keys(count))
	err := g.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		return each(tx, Bucket, "", func(key string, one admin.Golden) {
			if _, both := buckets[Bucket][key]; !both {
				add(key, one)
			}
		})
	})
	if err != nil {
		return err
	}
	for _, model := range brought {
		switch {
		case !has(model):
			return edgewise.Errorf("golden.CheckRestore", edgewise.Invalid, "the backup: it has goldens of model %q, which it "+
				"does not have", model)
		case count[model] > MaxGoldens || size[model] > MaxBytes:
			return edgewise.Errorf("golden.CheckRestore", edgewise.TooLarge, "the backup: with what is here model %q would have "+
				"%d goldens of %d bytes: at most %d of %d bytes are allowed", model, count[model], size[model], MaxGoldens,
				int64(MaxBytes))
		}
	}
	return nil
}

// Restore stores examples, and then has store write the documents that name them. Examples that no document names then
// are removed. Errors: those of read and store, Invalid, Exhausted.
func (g *Goldens) Restore(list []edgewise.File, read func(edgewise.File) ([]byte, error), store func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(list) > 0 {
		defer g.sweep()
	}
	for _, f := range list {
		data, err := read(f)
		if err != nil {
			return err
		}
		if _, err := example.Decode(data); err != nil {
			return edgewise.Errorf("golden.Restore", edgewise.Invalid, "the backup: %s is no example: %w", f.Path, err)
		}
		if _, err := g.config.Files.Put(data); err != nil {
			return err
		}
	}
	return store()
}
