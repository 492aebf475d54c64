package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// Repair makes the data folder dir whole again while no edgewise runs on it, and says what it did. It reads every file
// of every version and compares its SHA-256; mends a file or a blob from its other copy; moves what cannot be mended
// into the folder quarantine with the reason beside it; and writes the catalog again from the manifests. Labels and
// desired states come from the catalog, else from the newest snapshot that can be read; a model that neither knows gets the
// label live on its highest version and is wanted. Nothing is deleted. The old catalog is kept, among the snapshots
// when it can be read, else in quarantine.
//
// Kinds of error: NotFound without such a folder, Conflict when it is in use, Unsupported when a newer release wrote
// the catalog, Exhausted when the disk is full. After an error Repair may be run again.
func Repair(ctx context.Context, dir string, o Options) (*Report, error) {
	const op = "store.Repair"
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, edgewise.Errorf(op, edgewise.NotFound, "data folder %s does not exist", dir)
	}
	o = o.withDefaults()
	root := layout(dir)
	r := &repair{
		root: root, disk: o.disk, log: o.Logger, blobs: blobs{root, o.disk}, now: time.Now().UTC(),
		examiner: newExaminer(root, true), old: newContents(), next: newContents(),
	}
	for _, path := range r.root.folders() {
		if _, err := disk.MakeFolder(r.disk, path); err != nil {
			return nil, database.Fail(op, "making folder", path, err)
		}
	}
	lock, err := database.LockFolder(string(r.root))
	if err != nil {
		return nil, database.Fail(op, "locking data folder", dir, err)
	}
	if err := errors.Join(r.run(ctx), lock.Release()); err != nil {
		return nil, database.Fail(op, "repairing data folder", dir, err)
	}
	return r.report, nil
}

// repair is one run of Repair.
type repair struct {
	root  layout
	disk  disk.Disk
	log   *slog.Logger
	blobs blobs
	now   time.Time
	*examiner

	readable bool      // the catalog itself could be read
	complete bool      // and every entry of it: what it does not name is not there
	old      *contents // of the catalog or a snapshot; empty when none could be read
	next     *contents // what the new catalog will say
}

func (r *repair) run(ctx context.Context) error {
	if err := r.readOld(); err != nil {
		return err
	}
	ids, err := r.candidates()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := r.judge(ctx, id); err != nil {
			return fmt.Errorf("model %s: %w", id, err)
		}
	}
	r.carryNumbers(ids)
	r.carryLabels()
	if err := r.keepOldCatalog(); err != nil {
		return err
	}
	return writeCatalog(r.disk, r.root.catalog(), r.next)
}

// readOld finds the best account of what the catalog said.
func (r *repair) readOld() error {
	c, err := readContents(r.root.catalog())
	if err == nil && c.schema > schema { // what only the newer one knows would be lost
		return edgewise.Errorf("store.Repair", edgewise.Unsupported,
			"the catalog has schema %d and this release knows schema %d: repair it with the release that wrote it", c.schema, schema)
	}
	if err == nil {
		r.old, r.readable, r.complete, r.report.Source = c, true, len(c.problems) == 0, catalogFile
		for _, p := range c.problems {
			r.report.find(edgewise.ModelID{}, catalogFile, "made again from the manifests where possible", "%s", p)
		}
		return nil
	}
	if kind := edgewise.KindOf(err); kind == edgewise.Unsupported || kind == edgewise.Conflict {
		return err
	}
	times, e := database.ListSnapshots(r.root.snapshots(), catalogPrefix)
	if e != nil {
		return e
	}
	r.report.Source = "nothing: no catalog and no snapshot could be read"
	for _, at := range slices.Backward(times) {
		path := r.root.snapshot(at)
		if c, e := readContents(path); e == nil {
			r.old, r.report.Source = c, r.root.relative(path)
			break
		}
		r.report.find(edgewise.ModelID{}, r.root.relative(path), "left in place", "snapshot cannot be read")
	}
	r.report.find(edgewise.ModelID{}, catalogFile, "made again", "catalog cannot be read: %v", database.Bare(err))
	return nil
}

// candidates returns the versions that may exist: those with a folder and those in a catalog.
func (r *repair) candidates() ([]edgewise.ModelID, error) {
	ids, err := r.root.versionFolders()
	if err != nil {
		return nil, err
	}
	ids = slices.AppendSeq(ids, maps.Keys(r.old.versions))
	slices.SortFunc(ids, func(a, b edgewise.ModelID) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(ids), nil
}

// carryNumbers keeps every number that was ever seen from being given again.
func (r *repair) carryNumbers(seen []edgewise.ModelID) {
	r.next.highest, r.next.deleted = r.old.highest, r.old.deleted
	for _, id := range seen {
		r.next.highest[id.Name] = max(r.next.highest[id.Name], id.Version)
	}
	for id := range r.old.deleted {
		r.next.highest[id.Name] = max(r.next.highest[id.Name], id.Version)
	}
}

// carryLabels gives each model the labels and the desired state that it had, as far as its versions are still there.
func (r *repair) carryLabels() {
	highest, known := make(map[string]int64), make(map[string]bool)
	for id := range r.next.versions {
		highest[id.Name] = max(highest[id.Name], id.Version)
	}
	for id := range r.old.versions {
		known[id.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(highest)) {
		if !known[name] {
			id := edgewise.ModelID{Name: name, Version: highest[name]}
			r.setLabel(name, edgewise.Label{Name: edgewise.LiveLabel, Version: id.Version, Changed: r.now})
			r.next.wanted[name] = true
			r.report.find(edgewise.ModelID{Name: name}, "",
				fmt.Sprintf("label live points to version %d, and the model is wanted", id.Version), "its labels are not known")
			continue
		}
		if r.old.wanted[name] {
			r.next.wanted[name] = true
		}
		for _, l := range r.old.labels[name] {
			r.carryLabel(name, l, highest[name])
		}
	}
}

func (r *repair) carryLabel(name string, l edgewise.Label, highest int64) {
	exists := func(n int64) bool { return r.next.versions[edgewise.ModelID{Name: name, Version: n}] != nil }
	if exists(l.Version) {
		r.setLabel(name, l)
		return
	}
	next, ok := stepBack(l, exists)
	if !ok && l.Name == edgewise.LiveLabel {
		next, ok = edgewise.Label{Name: l.Name, Version: highest}, true
	}
	action := "removed"
	if ok {
		next.Changed = r.now
		r.setLabel(name, next)
		action = fmt.Sprintf("now points to version %d", next.Version)
	}
	r.report.find(edgewise.ModelID{Name: name}, "", action, "label %q pointed to version %d, which is lost", l.Name, l.Version)
}

func (r *repair) setLabel(name string, l edgewise.Label) {
	r.next.labels[name] = append(r.next.labels[name], l)
}

// keepOldCatalog gives the catalog file a second name before the new one takes its place.
func (r *repair) keepOldCatalog() error {
	path := r.root.catalog()
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if r.readable {
		if err := disk.LinkOrCopy(r.disk, path, r.root.snapshot(r.now)); err != nil {
			return err
		}
		return r.disk.SyncDir(r.root.snapshots())
	}
	aside, err := r.asidePath(path)
	if err != nil {
		return err
	}
	if err := disk.LinkOrCopy(r.disk, path, aside); err != nil {
		return err
	}
	return r.disk.SyncDir(filepath.Dir(aside))
}

// asidePath returns where path goes in the quarantine of this run, and makes the folder for it.
func (r *repair) asidePath(path string) (string, error) {
	aside := filepath.Join(r.root.quarantine(), r.now.Format(database.StampFormat), r.root.relative(path))
	return aside, os.MkdirAll(filepath.Dir(aside), disk.FolderMode)
}

// setAside moves path into quarantine.
func (r *repair) setAside(path string) (aside string, err error) {
	if aside, err = r.asidePath(path); err != nil {
		return "", err
	}
	if err := r.disk.Rename(path, aside); err != nil {
		return "", err
	}
	return aside, errors.Join(r.disk.SyncDir(filepath.Dir(path)), r.disk.SyncDir(filepath.Dir(aside)))
}
