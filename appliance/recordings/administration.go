package recordings

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Get returns the recording of a model. Errors: NotFound for one that is not stored and has no recorded requests.
func (r *Recordings) Get(name string) (admin.Recording, error) {
	m := r.known(name)
	if m == nil {
		if _, err := r.cfg.Record(name); err != nil {
			return admin.Recording{}, err
		}
		return admin.Recording{Model: name, Settings: defaults()}, nil
	}
	return r.describe(name, m), nil
}

// List returns the recordings of all models that have settings or recorded requests, by name.
func (r *Recordings) List() []admin.Recording {
	r.mu.Lock()
	all := maps.Clone(r.models)
	r.mu.Unlock()
	list := []admin.Recording{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, r.describe(name, all[name]))
	}
	return list
}

func (r *Recordings) describe(name string, m *recording) admin.Recording {
	r.changing.Lock()
	var dropped uint64
	if r.subscription != nil {
		_, dropped = r.subscription.Counts()
	}
	r.changing.Unlock()
	requests, bytes, oldest := m.folder.usage()
	m.mu.Lock()
	defer m.mu.Unlock()
	d := admin.Recording{
		Model: name, Settings: m.settings, Requests: requests, Bytes: bytes, Recorded: m.recorded, Skipped: m.skipped,
		Dropped: dropped, Problem: m.problem,
	}
	if !oldest.IsZero() {
		oldest = oldest.UTC()
		d.Oldest = &oldest
	}
	return d
}

// Set changes the settings of a model. Errors: NotFound; Invalid, also for a mask of a tensor that no stored version
// has; Unsupported for recording a model whose live version is decoupled; Exhausted, Internal.
func (r *Recordings) Set(name string, s admin.RecordingSettings) (admin.Recording, error) {
	record, err := r.cfg.Record(name)
	if err != nil {
		return admin.Recording{}, err
	}
	s.Masks = append([]admin.RecordingMask{}, s.Masks...)
	if err := CheckSettings(&s); err != nil {
		return admin.Recording{}, err
	}
	for _, m := range s.Masks {
		one := []admin.RecordingMask{m}
		if !slices.ContainsFunc(record.Versions, func(v *edgewise.Version) bool { _, ok := hidden(one, v.Model); return ok }) {
			return admin.Recording{}, edgewise.Errorf("recordings.Set", edgewise.Invalid,
				"masks names the tensor %.100q, which no version of model %q has", m.Tensor, name).WithField("masks")
		}
	}
	if live := record.Version(record.Label(edgewise.LiveLabel)); s.Enabled && live != nil && live.Model.Decoupled() {
		return admin.Recording{}, edgewise.Errorf("recordings.Set", edgewise.Unsupported,
			"model %q is decoupled: requests with any number of responses are not recorded", name).WithField("enabled")
	}
	r.changing.Lock()
	err = r.put(name, s)
	r.changing.Unlock()
	if err != nil {
		return admin.Recording{}, err
	}
	return r.Get(name)
}

// put stores settings and puts them in force. r.changing is held.
func (r *Recordings) put(name string, s admin.RecordingSettings) error {
	const op = "recordings.Set"
	text, err := json.Marshal(s)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	m, err := r.of(name)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	if err := r.cfg.Documents.Update(func(tx edgewise.DocumentsTx) error { return tx.Put(Bucket, name, text) }); err != nil {
		return err
	}
	m.mu.Lock()
	m.settings, m.problem = s, ""
	m.mu.Unlock()
	r.apply()
	return nil
}

// Delete ends the recording of a model and deletes its settings and every recorded request; a model without any is no
// error. Errors: Exhausted, Internal.
func (r *Recordings) Delete(name string) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	m := r.known(name)
	if m == nil {
		return nil
	}
	if err := r.cfg.Documents.Update(func(tx edgewise.DocumentsTx) error { return tx.Delete(Bucket, name) }); err != nil {
		return err
	}
	m.mu.Lock()
	m.settings = defaults()
	err := m.folder.removeAll()
	m.mu.Unlock()
	r.apply()
	if err != nil {
		return edgewise.Errorf("recordings.Delete", edgewise.Internal, "deleting the recorded requests of model %q: %w", name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.models, name)
	return nil
}

// RenameModel lets what is recorded of a model follow it to its new name, which has no recording. It may be called again
// after it failed. Errors: Exhausted, Internal.
func (r *Recordings) RenameModel(name, to string) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	settings := defaults()
	err := r.cfg.Documents.Update(func(tx edgewise.DocumentsTx) error {
		text := slices.Clone(tx.Get(Bucket, name))
		if text == nil {
			text = slices.Clone(tx.Get(Bucket, to)) // moved by a call that failed after this
		}
		if text == nil {
			return nil
		}
		if s, err := Decode(text); err == nil { // else nothing is recorded, as after a start
			settings = s
		}
		return errors.Join(tx.Put(Bucket, to, text), tx.Delete(Bucket, name))
	})
	if m := r.known(name); m != nil && err == nil {
		err = r.move(m, settings, name, to)
	}
	if err != nil {
		return edgewise.Errorf("recordings.RenameModel", edgewise.KindOf(err), "moving the recorded requests of model %q: %w", name,
			err)
	}
	return nil
}

// move moves the requests of a model. r.changing is held.
func (r *Recordings) move(m *recording, s admin.RecordingSettings, name, to string) error {
	m.mu.Lock()
	err := m.folder.move(filepath.Join(r.cfg.Folder, to))
	if err == nil {
		m.settings = s
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.models[to] = m
	delete(r.models, name)
	r.mu.Unlock()
	r.apply()
	return nil
}

// Requests lists recorded requests of a model with numbers below before, 0 for any, latest first.
func (r *Recordings) Requests(name string, before uint64, limit int) []admin.RecordedRequest {
	list := []admin.RecordedRequest{}
	m := r.known(name)
	if m == nil {
		return list
	}
	for _, e := range m.folder.before(before, limit) {
		list = append(list, admin.RecordedRequest{
			Number: e.number, Recorded: e.at.UTC(), Version: e.version, Duration: float64(e.took.Microseconds()), Failed: e.failed,
			Bytes: e.bytes,
		})
	}
	return list
}

// Read returns a recorded request in the form of appliance/example. Errors: NotFound, Internal.
func (r *Recordings) Read(name string, number uint64) ([]byte, error) {
	m := r.known(name)
	if m == nil {
		return nil, (&folder{path: name}).missing(number)
	}
	return m.folder.read(number)
}

// Remove deletes a recorded request. Errors: NotFound, Internal.
func (r *Recordings) Remove(name string, number uint64) error {
	m := r.known(name)
	if m == nil {
		return (&folder{path: name}).missing(number)
	}
	return m.folder.remove(number)
}
