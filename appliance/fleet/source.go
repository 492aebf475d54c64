package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/store"
)

// read fetches the document and its signature, which is empty where there is none. Errors: NotFound, and those of the source.
func (f *Fleet) read(ctx context.Context) (text, signature []byte, err error) {
	const op = "fleet.read"
	source := f.config.Fleet.Source
	if !strings.Contains(source, "://") {
		if text, err = readFile(source, File, MaxDocument); err == nil {
			signature, err = readFile(source, SignatureFile, MaxSignature)
		}
		if errors.Is(err, fs.ErrNotExist) && text != nil {
			err = nil
		}
		return text, signature, err
	}
	found, err := f.config.Remote.Files(ctx, source, func(name string) bool {
		base := path.Base(name)
		return (base == File || base == SignatureFile) && (base == name || isRegistry(source))
	}, 2, MaxDocument)
	for name, content := range found {
		if path.Base(name) == File {
			text = content
		} else if len(content) <= MaxSignature {
			signature = content
		}
	}
	if err == nil && text == nil {
		err = edgewise.Errorf(op, edgewise.NotFound, "%s has no %s", source, File)
	}
	return text, signature, err
}

// readFile reads a file of a folder of the machine.
func readFile(folder, name string, most int64) ([]byte, error) {
	text, err := store.ReadBounded(filepath.Join(folder, name), most)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, edgewise.Errorf("fleet.read", edgewise.NotFound, "there is no %s: %w", name, fs.ErrNotExist)
	case err != nil:
		return nil, edgewise.Errorf("fleet.read", edgewise.Unavailable, "%w", err)
	}
	return text, nil
}

func isRegistry(url string) bool { return strings.HasPrefix(url, "oci://") }

// othersFolder is where boxes report that are in no group whose reports are read.
const othersFolder = "boxes"

// reportName is where a box reports to: a folder or a registry's reference, and a file there.
func reportName(url, group, box string) (place, file string) {
	place = strings.TrimSuffix(url, "/") + "/" + group
	if isRegistry(url) {
		return place + ":" + tagOf(box), "report.json"
	}
	return place, fileOf(box)
}

// report tells what became of the document where that says, when it is news.
func (f *Fleet) report(ctx context.Context) {
	s := f.Status()
	f.mu.Lock()
	a := f.current
	due := f.unsent == "" || f.asked.After(f.reported) // what failed is tried again with the next poll
	f.mu.Unlock()
	if a == nil || a.document.Report == nil {
		return
	}
	r := admin.FleetReport{
		Format: 1, Box: s.Box, Version: f.config.Version, Fleet: s.Fleet, Serial: s.Serial, Digest: s.Digest, State: s.State,
		Problem: s.Problem, Wishes: s.Wishes,
	}
	text, err := shorten(&r)
	f.mu.Lock()
	news := string(text) != f.sent
	f.mu.Unlock()
	if err != nil || !news || !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	r.Time = f.config.Now().UTC()
	err = f.send(ctx, a.document, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reported, f.unsent = r.Time, ""
	if err == nil {
		f.sent = string(text)
		return
	}
	f.failed++
	f.unsent = brief(err.Error())
	f.config.Logger.Warn("the report to the fleet was not sent", "error", err)
}

// shorten bounds the reasons of a report. A report that no box would read because of them goes without.
func shorten(r *admin.FleetReport) (text []byte, err error) {
	for i := range r.Wishes {
		r.Wishes[i].Reason = brief(r.Wishes[i].Reason)
	}
	if text, err = json.Marshal(r); len(text) <= maxReport-maxStamp {
		return text, err
	}
	for i := range r.Wishes {
		r.Wishes[i].Reason = ""
	}
	return json.Marshal(r)
}

// maxStamp is what the time of a report adds to it, in bytes.
const maxStamp = 100

// send puts a report where the document says.
func (f *Fleet) send(ctx context.Context, d *Document, r admin.FleetReport) error {
	var failed []error
	if d.Report.Webhook != "" {
		failed = append(failed, f.config.Post(ctx, d.Report.Webhook, r))
	}
	if d.Report.URL == "" {
		return errors.Join(failed...)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	groups := d.read(f.member())
	if len(groups) == 0 {
		groups = []string{othersFolder}
	}
	for _, group := range groups {
		place, file := reportName(d.Report.URL, group, r.Box)
		if strings.Contains(place, "://") {
			failed = append(failed, f.config.Remote.Put(ctx, place, file, text))
		} else {
			failed = append(failed, writeFile(place, file, text))
		}
	}
	return errors.Join(failed...)
}

// writeFile replaces a file of a folder as a whole.
func writeFile(folder, name string, data []byte) error {
	err := os.MkdirAll(folder, 0o755)
	part := filepath.Join(folder, "."+name+".new")
	if err == nil {
		err = os.WriteFile(part, data, 0o644)
	}
	if err == nil {
		err = os.Rename(part, filepath.Join(folder, name))
	}
	if err != nil {
		return edgewise.Errorf("fleet.report", edgewise.Unavailable, "the report cannot be written: %w", err)
	}
	return nil
}

// collect reads the reports of the groups that stages wait for.
func (f *Fleet) collect(ctx context.Context, d *Document) {
	found := map[string]evidence{}
	for _, group := range d.needed(f.member()) {
		found[group] = f.reportsOf(ctx, d, group)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil && f.current.document == d {
		f.reports = found
	}
}

// reportsOf reads the reports of a group. What is no report is passed over.
func (f *Fleet) reportsOf(ctx context.Context, d *Document, group string) (e evidence) {
	place := strings.TrimSuffix(d.Report.URL, "/") + "/" + group
	found, err := f.reportFiles(ctx, place)
	switch {
	case err == nil:
	case edgewise.KindOf(err) == edgewise.NotFound || errors.Is(err, fs.ErrNotExist): // nobody has reported yet
	default:
		return evidence{problem: brief(err.Error())}
	}
	for _, text := range found {
		var r admin.FleetReport
		if json.Unmarshal(text, &r) == nil && r.Format == 1 {
			e.reports = append(e.reports, r)
		}
	}
	slices.SortFunc(e.reports, func(a, b admin.FleetReport) int { return strings.Compare(a.Box, b.Box) })
	return e
}

func (f *Fleet) reportFiles(ctx context.Context, place string) (map[string][]byte, error) {
	if strings.Contains(place, "://") {
		return f.config.Remote.Files(ctx, place, func(name string) bool {
			return path.Ext(name) == ".json" && (isRegistry(place) || !strings.Contains(name, "/"))
		}, maxReports, maxReport)
	}
	entries, err := os.ReadDir(place)
	found := map[string][]byte{}
	for _, e := range entries {
		name := e.Name()
		if filepath.Ext(name) != ".json" || strings.HasPrefix(name, ".") {
			continue
		}
		text, err := store.ReadBounded(filepath.Join(place, name), maxReport)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, edgewise.Errorf("fleet.reports", edgewise.Unavailable, "%w", err)
		}
		if found[name] = text; len(found) > maxReports {
			return nil, edgewise.Errorf("fleet.reports", edgewise.TooLarge, "%s has more than %d reports", place, maxReports)
		}
	}
	return found, err
}
