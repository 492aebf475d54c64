package golden

import (
	"errors"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Forget removes the report of a version that is deleted, or everything of a model that is, for version 0.
func (g *Goldens) Forget(id edgewise.ModelID) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.config.Documents.Update(func(tx edgewise.DocumentsTx) error {
		if id.Version != 0 {
			return tx.Delete(ReportsBucket, reportKey(id))
		}
		if err := tx.Delete(SettingsBucket, id.Name); err != nil {
			return err
		}
		for _, bucket := range []string{Bucket, ReportsBucket} {
			if err := deleteAll(tx, bucket, id.Name); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && id.Version == 0 {
		g.sweep()
	}
	return err
}

// RenameModel gives what belongs to a model to its new name.
func RenameModel(tx edgewise.DocumentsTx, name, to string) error {
	if text := tx.Get(SettingsBucket, name); text != nil {
		if err := errors.Join(tx.Put(SettingsBucket, to, slices.Clone(text)), tx.Delete(SettingsBucket, name)); err != nil {
			return err
		}
	}
	for _, bucket := range []string{Bucket, ReportsBucket} {
		moved := map[string][]byte{}
		err := tx.Each(bucket, func(key string, value []byte) error {
			if owner, of, _ := strings.Cut(key, "\x00"); owner == name {
				moved[of] = slices.Clone(value)
			}
			return nil
		})
		for of, value := range moved {
			err = errors.Join(err, tx.Put(bucket, key(to, of), value))
		}
		if err := errors.Join(err, deleteAll(tx, bucket, name)); err != nil {
			return err
		}
	}
	return nil
}

// deleteAll removes the documents of a bucket that belong to a model.
func deleteAll(tx edgewise.DocumentsTx, bucket, model string) error {
	var keys []string
	err := tx.Each(bucket, func(key string, _ []byte) error {
		if owner, _, _ := strings.Cut(key, "\x00"); owner == model {
			keys = append(keys, key)
		}
		return nil
	})
	for _, key := range keys {
		if err == nil {
			err = tx.Delete(bucket, key)
		}
	}
	return err
}

// sweep removes examples that no golden names. g.mu is held. What fails is done by the next one.
func (g *Goldens) sweep() {
	named := map[edgewise.Digest]bool{}
	err := g.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		return each(tx, Bucket, "", func(_ string, one admin.Golden) { named[one.Digest] = true })
	})
	if err == nil {
		err = g.config.Files.Sweep(func(d edgewise.Digest) bool { return named[d] })
	}
	if err != nil {
		g.config.Logger.Error("examples of deleted goldens were not removed", "error", err)
	}
}
