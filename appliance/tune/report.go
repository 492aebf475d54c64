package tune

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// Bucket is the bucket of the reports, by model and version. docs/formats/box.md gives the form of its documents.
const Bucket = "tunings"

// Bounds of a report.
const (
	maxReport = 64 << 10 // bytes
	maxListed = 40       // candidates
)

// reportOf makes the report of a search.
func reportOf(b *bench, j *job, f *search.Found, hardware []string, began time.Time) *admin.TuneReport {
	r := &admin.TuneReport{
		Base: b.id.Version, Objective: j.shown.Objective, Gain: f.Gain, Reason: f.Reason, Rate: f.Rate, Inputs: b.origin,
		Hardware: hardware, Measured: time.Now().UTC(), Paused: f.Paused.Seconds(), Cut: f.Cut,
	}
	r.Seconds = time.Since(began).Seconds() - r.Paused
	r.GainLow, r.GainHigh = f.Interval(f.Best)
	for _, a := range b.plan.axes {
		r.Searched = append(r.Searched, admin.TuneAxis(a))
	}
	for c, m := range f.Measured {
		one := admin.TuneCandidate{
			Settings: append([]string{}, b.plan.names(c)...), State: admin.CandidateWorse, Reason: f.Missed[c], Gain: f.Gains[c],
			Throughput: admin.TuneEstimate(m.Throughput), Memory: m.Memory, Points: []admin.TunePoint{},
		}
		one.GainLow, one.GainHigh = f.Interval(c)
		for _, p := range m.Points {
			one.Points = append(one.Points, admin.TunePoint{
				Rate: p.Rate, P50: admin.TuneEstimate(p.P50), P99: admin.TuneEstimate(p.P99), Requests: p.Requests, Energy: p.Energy,
			})
		}
		switch {
		case c == f.Best && c.Changes() > 0:
			one.State = admin.CandidateChosen
		case c.Changes() == 0:
			one.State = admin.CandidateCurrent
		case one.Reason != "":
			one.State, one.Gain, one.GainLow, one.GainHigh = admin.CandidateMisses, 0, 0, 0
		}
		r.Candidates = append(r.Candidates, one)
	}
	pareto(r)
	for c, e := range f.Excluded {
		state := admin.CandidateFailed
		if e.Wrong {
			state = admin.CandidateWrong
		}
		r.Candidates = append(r.Candidates, admin.TuneCandidate{
			Settings: append([]string{}, b.plan.names(c)...), State: state, Reason: e.Reason, Points: []admin.TunePoint{},
		})
	}
	order(r)
	return r
}

// order puts the chosen candidate first, then the current one and the others by their gain, and drops those that are too
// many.
func order(r *admin.TuneReport) {
	ranks := []string{
		admin.CandidateChosen, admin.CandidateCurrent, admin.CandidateWorse, admin.CandidateMisses, admin.CandidateWrong,
		admin.CandidateFailed,
	}
	slices.SortFunc(r.Candidates, func(a, b admin.TuneCandidate) int {
		return cmp.Or(
			cmp.Compare(slices.Index(ranks, a.State), slices.Index(ranks, b.State)), cmp.Compare(b.Gain, a.Gain),
			strings.Compare(a.Name(), b.Name()),
		)
	})
	if len(r.Candidates) > maxListed {
		r.Omitted = len(r.Candidates) - maxListed
		r.Candidates = r.Candidates[:maxListed]
	}
}

// pareto marks the candidates that no other one beats in both throughput and latency.
func pareto(r *admin.TuneReport) {
	for i := range r.Candidates {
		a := &r.Candidates[i]
		at := a.At(r.Rate)
		a.Pareto = at != nil && !slices.ContainsFunc(r.Candidates, func(b admin.TuneCandidate) bool {
			other := b.At(r.Rate)
			return other != nil && b.Throughput.Value >= a.Throughput.Value && other.P50.Value <= at.P50.Value &&
				(b.Throughput.Value > a.Throughput.Value || other.P50.Value < at.P50.Value)
		})
	}
}

func reportKey(id edgewise.ModelID) string {
	return id.Name + "\x00" + strconv.FormatInt(id.Version, 10)
}

// save keeps the report of a version.
func (t *Tuner) save(id edgewise.ModelID, r *admin.TuneReport) error {
	text, err := json.Marshal(r)
	for err == nil && len(text) > maxReport && len(r.Candidates) > 2 {
		r.Omitted++
		r.Candidates = r.Candidates[:len(r.Candidates)-1]
		text, err = json.Marshal(r)
	}
	if err != nil {
		return edgewise.Errorf("tune.save", edgewise.Internal, "%w", err)
	}
	return t.config.Documents.Update(func(tx edgewise.DocumentsTx) error { return tx.Put(Bucket, reportKey(id), text) })
}

// Report returns what a tuning has found of a version: the one that made it, or the one that found nothing better. Stale says
// why it does not hold on this machine. Errors: NotFound.
func (t *Tuner) Report(id edgewise.ModelID) (*admin.TuneReport, error) {
	var r *admin.TuneReport
	err := t.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		text := tx.Get(Bucket, reportKey(id))
		if text == nil {
			return edgewise.Errorf("tune.Report", edgewise.NotFound, "version %d of model %q has no report of a tuning", id.Version,
				id.Name)
		}
		r = &admin.TuneReport{}
		if err := json.Unmarshal(text, r); err != nil {
			return edgewise.Errorf("tune.Report", edgewise.Corrupt, "the report of model %v is damaged: %w", id, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	record, err := t.config.Models.Record(id.Name)
	if err != nil {
		return nil, err
	}
	r.Stale = t.stale(record, id.Version, r)
	return r, nil
}

// stale says why the report of a version does not hold on this machine; "" where it does.
func (t *Tuner) stale(record *edgewise.Record, version int64, r *admin.TuneReport) string {
	v := record.Version(version)
	if v == nil {
		return ""
	}
	now := t.machine(v)
	if slices.Equal(now, r.Hardware) {
		return ""
	}
	return fmt.Sprintf("it was measured on %s, and this is %s", strings.Join(r.Hardware, ", "), strings.Join(now, ", "))
}

// List returns the present or the latest tuning of a model and the heads of the reports of its versions. A report that cannot
// be read is left out: Report says why. Errors: NotFound.
func (t *Tuner) List(name string) (admin.Tunings, error) {
	all := admin.Tunings{Reports: []admin.TuneSummary{}}
	record, err := t.config.Models.Record(name)
	if err != nil {
		return all, err
	}
	if latest, err := t.Get(name); err == nil {
		all.Latest = &latest
	}
	err = t.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		return tx.Each(Bucket, func(key string, text []byte) error {
			version, ours := strings.CutPrefix(key, name+"\x00")
			n, err := strconv.ParseInt(version, 10, 64)
			r := &admin.TuneReport{}
			if !ours || err != nil || json.Unmarshal(text, r) != nil {
				return nil
			}
			all.Reports = append(all.Reports, admin.TuneSummary{
				Version: n, Base: r.Base, Gain: r.Gain, Measured: r.Measured, Stale: t.stale(record, n, r) != "",
			})
			return nil
		})
	})
	slices.SortFunc(all.Reports, func(a, b admin.TuneSummary) int { return cmp.Compare(a.Version, b.Version) })
	return all, err
}

// CheckDocument tells whether a document is a report.
func CheckDocument(key string, value []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(value))
	var r admin.TuneReport
	if err := decoder.Decode(&r); err != nil || len(value) > maxReport || r.Base <= 0 {
		return edgewise.Errorf("tune.CheckDocument", edgewise.Invalid, "it is no report of a tuning of %.80q (%d bytes): %w", key,
			len(value), err)
	}
	return nil
}

// forgetReports removes the report of a version, or those of a model.
func (t *Tuner) forgetReports(id edgewise.ModelID) error {
	return t.config.Documents.Update(func(tx edgewise.DocumentsTx) error {
		return move(tx, func(key string) (string, bool) {
			return "", key == reportKey(id) || id.Version == 0 && strings.HasPrefix(key, id.Name+"\x00")
		})
	})
}

// RenameModel moves the reports of a model, as part of a transaction.
func RenameModel(tx edgewise.DocumentsTx, name, to string) error {
	return move(tx, func(key string) (string, bool) {
		rest, ok := strings.CutPrefix(key, name+"\x00")
		return to + "\x00" + rest, ok
	})
}

// move puts the documents that change names under another key, or removes them for the empty one.
func move(tx edgewise.DocumentsTx, change func(key string) (to string, ok bool)) error {
	moved := map[string][]byte{}
	names := map[string]string{}
	if err := tx.Each(Bucket, func(key string, value []byte) error {
		if to, ok := change(key); ok {
			moved[key], names[key] = slices.Clone(value), to
		}
		return nil
	}); err != nil {
		return err
	}
	for key, value := range moved {
		if err := tx.Delete(Bucket, key); err != nil {
			return err
		}
		if to := names[key]; to != "" {
			if err := tx.Put(Bucket, to, value); err != nil {
				return err
			}
		}
	}
	return nil
}
