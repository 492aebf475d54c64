// Package golden keeps requests with expected answers for models, and runs them on versions before they go live.
package golden

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/compare"
	"github.com/edgewise-ai/edgewise/appliance/example"
)

// The buckets of documents. docs/formats/box.md gives their form.
const (
	Bucket         = "goldens"
	SettingsBucket = "golden_settings"
	ReportsBucket  = "golden_reports"
)

// Bounds of the goldens of one model.
const (
	MaxGoldens = 200
	MaxBytes   = 256 << 20 // of all examples
	maxName    = 200       // bytes of the name of one
)

// Files keeps the examples. files.Files describes the methods.
type Files interface {
	Put(data []byte) (edgewise.Digest, error)
	Get(digest edgewise.Digest, limit int64) ([]byte, error)
	Sweep(keep func(edgewise.Digest) bool) error
}

// Config is what Goldens work with.
type Config struct {
	Documents edgewise.Documents
	Files     Files
	Infer     edgewise.Inferer // answers requests to exact versions
	// Record returns a model that is stored. Errors: NotFound.
	Record func(name string) (*edgewise.Record, error)
	// Trial has run use a version, which is loaded for that when it is not ready. Errors: those of run, NotFound, and why
	// the version cannot be loaded.
	Trial   func(ctx context.Context, id edgewise.ModelID, run func() error) error
	Changed func(id edgewise.ModelID) // is told of changes; nil: nobody needs to know
	Logger  *slog.Logger
}

// Goldens are those of all models. All methods are safe for concurrent use.
type Goldens struct {
	config Config
	mu     sync.Mutex // held while examples are stored or removed
}

// New makes Goldens and removes examples that no golden names.
func New(c Config) *Goldens {
	g := &Goldens{config: c}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweep()
	return g
}

// key is the key of what belongs to a model, and to one of its versions or goldens.
func key(model, of string) string { return model + "\x00" + of }

// each calls fn for the documents of a bucket that belong to a model, or for all for "". What cannot be read is left
// out: doctor reports it.
func each[T any](tx edgewise.DocumentsTx, bucket, model string, fn func(key string, v T)) error {
	return tx.Each(bucket, func(key string, value []byte) error {
		var v T
		if owner, _, _ := strings.Cut(key, "\x00"); model != "" && owner != model || json.Unmarshal(value, &v) != nil {
			return nil
		}
		fn(key, v)
		return nil
	})
}

// list returns the goldens of a model, oldest first, and the bytes of their examples.
func list(tx edgewise.DocumentsTx, model string) (goldens []admin.Golden, size int64, err error) {
	err = each(tx, Bucket, model, func(_ string, one admin.Golden) {
		goldens, size = append(goldens, one), size+one.Size
	})
	slices.SortFunc(goldens, func(a, b admin.Golden) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return goldens, size, err
}

// settings returns those of a model.
func settings(tx edgewise.DocumentsTx, model string) (admin.GoldenSettings, error) {
	s := admin.GoldenSettings{Policy: admin.GoldensRequire, Rules: []admin.CompareRule{}}
	text := tx.Get(SettingsBucket, model)
	if text == nil {
		return s, nil
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, edgewise.Errorf("golden.settings", edgewise.Corrupt, "the settings of the goldens of model %q are damaged: %w",
			model, err)
	}
	return s, nil
}

// List returns the goldens of a model. Errors: NotFound.
func (g *Goldens) List(model string) (all admin.Goldens, err error) {
	if _, err := g.config.Record(model); err != nil {
		return all, err
	}
	all.MaxGoldens, all.MaxSize = MaxGoldens, MaxBytes
	err = g.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		if all.GoldenSettings, err = settings(tx, model); err != nil {
			return err
		}
		goldens, size, err := list(tx, model)
		all.Goldens, all.Reports, all.Size = append([]admin.Golden{}, goldens...), []admin.GoldenSummary{}, size
		return errors.Join(err, each(tx, ReportsBucket, model, func(_ string, r admin.GoldenSummary) {
			all.Reports = append(all.Reports, r)
		}))
	})
	slices.SortFunc(all.Reports, func(a, b admin.GoldenSummary) int { return cmp.Compare(a.Version, b.Version) })
	return all, err
}

// Rules returns how the answers of a model's versions are compared. Errors: Corrupt.
func (g *Goldens) Rules(model string) ([]admin.CompareRule, error) {
	var s admin.GoldenSettings
	err := g.config.Documents.View(func(tx edgewise.DocumentsTx) (err error) {
		s, err = settings(tx, model)
		return err
	})
	return s.Rules, err
}

// Requests returns the requests of the oldest goldens of a model, at most so many bytes of them, and how answers are
// compared. Errors: Corrupt.
func (g *Goldens) Requests(model string, size int64) (requests []*edgewise.Request, rules []admin.CompareRule, err error) {
	var goldens []admin.Golden
	if err = g.config.Documents.View(func(tx edgewise.DocumentsTx) (err error) {
		goldens, _, err = list(tx, model)
		return err
	}); err != nil {
		return nil, nil, err
	}
	for _, one := range goldens {
		if size -= one.Size; size < 0 {
			break
		}
		e, err := g.example(one)
		if err != nil {
			return nil, nil, err
		}
		requests = append(requests, e.Request(0))
	}
	rules, err = g.Rules(model)
	return requests, rules, err
}

// example reads what a golden holds.
func (g *Goldens) example(one admin.Golden) (*example.Example, error) {
	data, err := g.config.Files.Get(one.Digest, example.MaxBytes)
	if err != nil {
		return nil, err
	}
	return example.Decode(data)
}

// CheckSettings reports the first reason why settings cannot be used. Errors: Invalid, TooLarge.
func CheckSettings(s admin.GoldenSettings) error {
	if !slices.Contains([]string{admin.GoldensRequire, admin.GoldensWarn, admin.GoldensOff}, s.Policy) {
		return edgewise.Errorf("golden.CheckSettings", edgewise.Invalid, "the policy is %.40q: want require, warn or off",
			s.Policy).WithField("policy")
	}
	return compare.Check(s.Rules)
}

// Configure replaces the settings of a model. Errors: NotFound, Invalid, TooLarge.
func (g *Goldens) Configure(model string, s admin.GoldenSettings) error {
	if _, err := g.config.Record(model); err != nil {
		return err
	}
	if err := CheckSettings(s); err != nil {
		return err
	}
	return g.update(edgewise.ModelID{Name: model}, func(tx edgewise.DocumentsTx) error {
		return put(tx, SettingsBucket, model, s)
	})
}

func put(tx edgewise.DocumentsTx, bucket, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return edgewise.Errorf("golden.put", edgewise.Internal, "%w", err)
	}
	return tx.Put(bucket, key, text)
}

// update changes documents and tells of it.
func (g *Goldens) update(id edgewise.ModelID, change func(tx edgewise.DocumentsTx) error) error {
	if err := g.config.Documents.Update(change); err != nil {
		return err
	}
	if g.config.Changed != nil {
		g.config.Changed(id)
	}
	return nil
}

// Add stores an example as a golden of its model, under a name for people that may be empty. Its version is the one whose
// answer it holds, 0 for an answer that the caller gives. Errors: NotFound, Invalid, TooLarge for a bound of this
// package, Exhausted.
func (g *Goldens) Add(p *edgewise.Principal, name string, e *example.Example) (one admin.Golden, err error) {
	one = admin.Golden{
		ID: newID(), Name: name, Version: e.Model.Version, Created: time.Now().UTC(), CreatedBy: p.Actor(),
		Inputs: describe(e.Inputs), Outputs: describe(e.Outputs),
	}
	if err := g.check(name, e); err != nil {
		return one, err
	}
	data, err := example.Encode(e)
	if err != nil {
		return one, err
	}
	one.Size = int64(len(data))
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		return room(tx, e.Model.Name, one.Size)
	}); err != nil {
		return one, err
	}
	if one.Digest, err = g.config.Files.Put(data); err != nil {
		return one, err
	}
	return one, g.update(edgewise.ModelID{Name: e.Model.Name}, func(tx edgewise.DocumentsTx) error {
		return put(tx, Bucket, key(e.Model.Name, one.ID), one)
	})
}

func newID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// check reports why an example cannot be a golden.
func (g *Goldens) check(name string, e *example.Example) error {
	const op = "golden.Add"
	if len(name) > maxName || !utf8.ValidString(name) {
		return edgewise.Errorf(op, edgewise.Invalid, "the name has %d bytes: want at most %d, as UTF-8", len(name), maxName).
			WithField("name")
	}
	if e.Error != "" || len(e.Outputs) == 0 {
		return edgewise.Errorf(op, edgewise.Invalid, "the example has no answer: a golden needs the outputs that are expected")
	}
	if hidden := slices.Concat(e.MaskedInputs, e.MaskedOutputs); len(hidden) > 0 {
		return edgewise.Errorf(op, edgewise.Invalid, "the recording has masked %q: a golden needs all tensors as they were", hidden)
	}
	r, err := g.config.Record(e.Model.Name)
	if err != nil {
		return err
	}
	if v := r.Version(cmp.Or(e.Model.Version, r.Label(edgewise.LiveLabel))); v != nil && v.Model.Decoupled() {
		return edgewise.Errorf(op, edgewise.Unsupported, "model %q is decoupled: a golden is one answer, and a request to it has any "+
			"number of responses", e.Model.Name)
	}
	return nil
}

// room tells whether another golden of so many bytes is within the bounds of a model.
func room(tx edgewise.DocumentsTx, model string, size int64) error {
	goldens, all, err := list(tx, model)
	switch {
	case err != nil:
		return err
	case len(goldens) >= MaxGoldens:
		return edgewise.Errorf("golden.Add", edgewise.TooLarge,
			"model %q has %d goldens, which is the limit: delete some", model, MaxGoldens).WithLimit(MaxGoldens)
	case all+size > MaxBytes:
		return edgewise.Errorf("golden.Add", edgewise.TooLarge,
			"the goldens of model %q have %d bytes, and %d more would be over the limit of %d: delete some", model, all, size,
			int64(MaxBytes)).WithLimit(MaxBytes)
	}
	return nil
}

// describe returns the signature of tensors.
func describe(tensors []edgewise.Tensor) []admin.Tensor {
	specs := make([]edgewise.Spec, len(tensors))
	for i, t := range tensors {
		specs[i] = edgewise.Spec{Name: t.Name, Type: t.Type, Shape: t.Shape}
	}
	return admin.NewTensors(specs)
}

// Capture stores a request with the answer of the version that it is sent to as a golden. Errors: those of Add, and of
// the request.
func (g *Goldens) Capture(
	ctx context.Context, p *edgewise.Principal, name string, req *edgewise.Request,
) (one admin.Golden, err error) {
	resp, err := g.config.Infer.Infer(ctx, req)
	if err != nil {
		return one, err
	}
	defer resp.Release()
	return g.Add(p, name, example.Of(req, resp))
}

// Example returns the bytes of a golden's example. Errors: NotFound, Corrupt.
func (g *Goldens) Example(model, id string) ([]byte, error) {
	one, err := g.get(model, id)
	if err != nil {
		return nil, err
	}
	return g.config.Files.Get(one.Digest, example.MaxBytes)
}

// get returns one golden. Errors: NotFound.
func (g *Goldens) get(model, id string) (one admin.Golden, err error) {
	err = g.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		text := tx.Get(Bucket, key(model, id))
		if text == nil {
			return edgewise.Errorf("golden.get", edgewise.NotFound, "model %q has no golden %.64q", model, id)
		}
		if err := json.Unmarshal(text, &one); err != nil {
			return edgewise.Errorf("golden.get", edgewise.Corrupt, "golden %s of model %q is damaged: %w", id, model, err)
		}
		return nil
	})
	return one, err
}

// Remove deletes a golden. Errors: NotFound.
func (g *Goldens) Remove(model, id string) error {
	if _, err := g.get(model, id); err != nil && edgewise.KindOf(err) != edgewise.Corrupt {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.update(edgewise.ModelID{Name: model}, func(tx edgewise.DocumentsTx) error {
		return tx.Delete(Bucket, key(model, id))
	})
	if err == nil {
		g.sweep()
	}
	return err
}

// CheckDocument reports what is wrong with a document of one of the buckets.
func CheckDocument(bucket, key string, value []byte) error {
	model, _, owned := strings.Cut(key, "\x00")
	if err := edgewise.CheckName(model); err != nil {
		return err
	}
	if owned == (bucket == SettingsBucket) {
		return edgewise.Errorf("golden.CheckDocument", edgewise.Invalid, "the key is not one of this bucket")
	}
	switch bucket {
	case SettingsBucket:
		var s admin.GoldenSettings
		if err := json.Unmarshal(value, &s); err != nil {
			return err
		}
		return CheckSettings(s)
	case ReportsBucket:
		return json.Unmarshal(value, &admin.GoldenReport{})
	}
	return json.Unmarshal(value, &admin.Golden{})
}
