package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/proposal"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
	"github.com/edgewise-ai/edgewise/ensemble"
)

const (
	uploadOrigin = "upload"
	folderMode   = 0o750
	modelSuffix  = "-model" // of the folder in which a model's folder is given its name
)

// candidate is a version in an upload.
type candidate struct {
	version repository.Version
	stored  int64    // the number it was stored under; 0: it is not
	last    bool     // of its model in the upload
	named   bool     // the archive says its number
	chosen  bool     // its configuration is what a person chose here
	beside  []string // the names of all models of the upload
	model   *edgewise.Model
	notes   []string // what a person should know of the archive
	// files are those of the version with their digests, computed when they are first asked for
	files func() ([]edgewise.File, error)
}

// prepare verifies, unpacks and inspects an upload. What comes after needs an activation.
func (im *Importer) prepare(ctx context.Context, made *job) error {
	kind := uploads.Archive(made.file.Filename)
	data, folder := im.uploads.Path(made.file.ID)
	if err := im.step(made, stepVerify, func() error { return verify(made.file) }); err != nil {
		return err
	}
	if kind == uploads.Backup {
		return im.prepareRestore(ctx, made, data, folder)
	}
	if err := im.open(ctx, made, kind, data, folder); err != nil {
		return err
	}
	return im.step(made, stepInspect, func() error {
		found, err := im.candidates(made.file, data, folder)
		if err != nil {
			return err
		}
		understood := &admin.Understood{Models: []admin.UnderstoodModel{}}
		for i, c := range found {
			m, err := im.examine(ctx, c, filepath.Join(filepath.Dir(folder), fmt.Sprintf("inspect-%d", i)))
			if err != nil {
				return err
			}
			understood.Models = append(understood.Models, m)
		}
		im.change(made, func(shown *admin.Job) { made.found, shown.Understood = found, understood })
		return nil
	})
}

// verify compares the SHA-256 of a file with the one that its sender has given, if any.
func verify(f uploads.File) error {
	if f.SHA256 == "" || f.SHA256 == f.Computed {
		return nil
	}
	return edgewise.Errorf("importer.verify", edgewise.Corrupt,
		"file %q did not arrive as it was sent: it has the SHA-256 %s, its sender said %s: upload it again",
		f.Filename, f.Computed, f.SHA256)
}

// open lays the files of an upload into a folder, unless it is a file of its own.
func (im *Importer) open(ctx context.Context, made *job, kind, data, folder string) error {
	switch kind {
	case "":
		im.setStep(made, stepUnpack, admin.StepSkipped)
		return nil
	case uploads.Reference:
		return im.step(made, stepFetch, func() error { return im.fetch(ctx, made, data, folder) })
	}
	return im.step(made, stepUnpack, func() error { return im.unpack(made, kind, data, folder) })
}

func (im *Importer) unpack(made *job, kind, data, folder string) error {
	limits := uploads.Limits{Bytes: im.config.MaxBytes, Files: im.config.MaxFiles, Room: im.config.Store.Room}
	return uploads.Unpack(kind, data, folder, limits, func(done int64) { im.progress(made, stepUnpack, done, 0) })
}

// candidates lists the versions in an upload: one for a file, those of a repository for an archive.
func (im *Importer) candidates(f uploads.File, data, folder string) ([]*candidate, error) {
	if format, ok := im.config.Formats.OfFile(f.Filename); ok {
		name := cmp.Or(f.Model, nameOf(f.Filename))
		v := repository.Version{
			ID: edgewise.ModelID{Name: name}, Size: f.Length,
			Files: []repository.File{{Path: format.File, Source: data, Size: f.Length}},
		}
		return []*candidate{{version: v, last: true, files: sync.OnceValues(v.Stored)}}, checkName(name)
	}
	notes, err := im.adopt(&f, folder)
	if err != nil {
		return nil, err
	}
	versions, named, err := im.readArchive(f, folder)
	if err != nil {
		return nil, err
	}
	var list []*candidate
	var names []string
	for _, v := range versions {
		names = append(names, v.ID.Name)
	}
	for i, v := range versions {
		last := i+1 == len(versions) || names[i+1] != names[i]
		list = append(list, &candidate{
			version: v, named: named, last: last, beside: names, notes: notes, files: sync.OnceValues(v.Stored),
		})
	}
	return list, nil
}

// adopt reads an archive of another server's: it takes the model out of one of TorchServe's, and refuses a SavedModel.
func (im *Importer) adopt(f *uploads.File, folder string) (notes []string, err error) {
	if err := checkSavedModel(folder); err != nil {
		return nil, err
	}
	name, notes, err := im.unwrap(folder)
	if f.Model == "" && name != "" {
		f.Model = nameOf(name + ".mar")
	}
	return notes, err
}

// readArchive reads an unpacked archive: a repository, a model's folder, a version's files, or one folder around any of
// them.
func (im *Importer) readArchive(f uploads.File, folder string) (versions []repository.Version, named bool, err error) {
	dir := folder
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, false, edgewise.Errorf("importer.readArchive", edgewise.Internal, "what was unpacked cannot be read")
	}
	inside := ""
	if len(entries) == 1 && entries[0].IsDir() {
		inside = entries[0].Name()
		below, err := os.ReadDir(filepath.Join(dir, inside))
		if isVersionFolder(entries[0]) && slices.ContainsFunc(below, im.isModelFile) {
			inside = ""
		} else if err == nil && !slices.ContainsFunc(below, isVersionFolder) {
			dir, entries = filepath.Join(dir, inside), below
		}
	}
	name := cmp.Or(f.Model, inside, nameOf(f.Filename))
	if slices.ContainsFunc(entries, isVersionFolder) { // a model's folder, without its own name around it
		versions, err = readModelFolder(dir, folder+modelSuffix, name)
		return versions, true, err
	}
	if slices.ContainsFunc(entries, im.isModelFile) {
		if err := checkName(name); err != nil {
			return nil, false, err
		}
		v, err := repository.ReadFolder(edgewise.ModelID{Name: name}, dir)
		return []repository.Version{v}, false, apistatus.HidePath(err, dir)
	}
	versions, err = repository.Dir(dir).Versions()
	if err == nil && f.Model != "" && onlyOne(versions) {
		for i := range versions {
			versions[i].ID.Name = f.Model
		}
	}
	return versions, true, apistatus.HidePath(err, dir)
}

// readModelFolder reads a model's folder under another name than it has. It moves it into a folder of its own for that.
func readModelFolder(dir, alone, name string) ([]repository.Version, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	renamed := filepath.Join(alone, name)
	if err := errors.Join(os.RemoveAll(alone), os.Mkdir(alone, folderMode), os.Rename(dir, renamed)); err != nil {
		return nil, edgewise.Errorf("importer.readModelFolder", edgewise.Conflict, "the archive cannot be read as model %q",
			name)
	}
	versions, err := repository.Dir(renamed).Versions()
	return versions, apistatus.HidePath(err, renamed)
}

func onlyOne(versions []repository.Version) bool {
	return !slices.ContainsFunc(versions, func(v repository.Version) bool { return v.ID.Name != versions[0].ID.Name })
}

func isVersionFolder(e os.DirEntry) bool {
	return e.IsDir() && e.Name() != "" && strings.Trim(e.Name(), "0123456789") == ""
}

func (im *Importer) isModelFile(e os.DirEntry) bool {
	_, ok := im.config.Formats.OfFile(e.Name())
	return !e.IsDir() && (ok || strings.HasPrefix(e.Name(), "config."))
}

// nameOf makes a model's name of a file's name.
func nameOf(filename string) string {
	base := filename[:len(filename)-len(filepath.Ext(filename))]
	name := strings.Map(func(r rune) rune {
		if r < 128 && edgewise.CheckName("x"+string(r)) == nil {
			return r
		}
		return '_'
	}, base)
	name = strings.TrimLeft(name, ".-")
	return name[:min(len(name), edgewise.MaxNameBytes)]
}

func checkName(name string) error {
	if err := edgewise.CheckName(name); err != nil {
		return edgewise.Errorf("importer.candidates", edgewise.Invalid, "%w", err).WithField("model")
	}
	return nil
}

// lay links the files of a candidate into a folder, as the store will.
func (c *candidate) lay(dir string) ([]string, error) {
	const op = "importer.lay"
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, folderMode)); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Internal, "a folder to look at the upload cannot be made")
	}
	var files []string
	for _, f := range c.version.Files {
		target := filepath.Join(dir, filepath.FromSlash(f.Path))
		err := os.MkdirAll(filepath.Dir(target), folderMode)
		if err == nil {
			err = os.Link(f.Source, target)
		}
		if err != nil {
			return nil, edgewise.Errorf(op, edgewise.Internal, "file %q cannot be laid beside the others", f.Path)
		}
		files = append(files, f.Path)
	}
	return files, nil
}

// examine describes a version that is not stored.
func (im *Importer) examine(ctx context.Context, c *candidate, dir string) (u admin.UnderstoodModel, err error) {
	files, err := c.lay(dir)
	if err != nil {
		return u, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name := c.version.ID.Name
	m, err := im.config.Models.Understand(ctx, name, dir, files)
	if m != nil && ensemble.Is(m) {
		err = errors.Join(err, im.config.Models.CheckEnsemble(m, c.beside))
	}
	if err != nil {
		return u, apistatus.HidePath(err, dir)
	}
	c.model = m
	u = admin.UnderstoodModel{
		Name: name, Kind: im.config.Formats.Kind(m), Size: c.version.Size, Files: len(files), MaxBatchSize: m.MaxBatchSize, Config: m,
		Inputs: admin.NewTensors(m.Inputs()), Outputs: admin.NewTensors(m.Outputs()), Warnings: append([]string{}, c.notes...),
	}
	if c.named {
		u.Version = c.version.ID.Version
	}
	if record := im.config.Models.Lookup(name); record != nil && len(record.Versions) > 0 {
		u.Exists = true
		u.SignatureChanges = admin.SignatureChanges(record.Version(record.Label(edgewise.LiveLabel)),
			&edgewise.Version{Model: m})
		if same := c.sameAs(record); same != nil {
			u.SameAs = same.ID.Version
			u.Warnings = append(u.Warnings, fmt.Sprintf("Version %d of %q has the same files already.", same.ID.Version, name))
		}
	}
	if ensemble.Is(m) {
		return u, nil
	}
	if u.Inspection, err = im.config.Models.InspectFolder(ctx, dir, m); err != nil {
		return u, apistatus.HidePath(err, dir)
	}
	u.Proposals = proposal.For(m, im.config.Formats, proposal.Read(dir, m, u.Inspection))
	fit := im.config.Fit(ctx, u.Inspection.ParameterBytes)
	u.Fit = &fit
	if !fit.Fits {
		u.Warnings = append(u.Warnings, fit.Reason)
	}
	return u, nil
}

// sameAs returns a stored version with exactly the files of the candidate, nil when there is none.
func (c *candidate) sameAs(r *edgewise.Record) *edgewise.Version {
	for _, v := range slices.Backward(r.Versions) {
		if v.Size == c.version.Size && (!c.named || v.ID.Version == c.version.ID.Version) &&
			c.version.SameAs(v.Files) == nil {
			return v
		}
	}
	return nil
}
