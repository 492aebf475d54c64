package repository

import (
	"io/fs"
	"path"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// walk collects the files of a folder.
type walk struct {
	repository Repository
	follow     bool // links are followed, otherwise refused
	links      int  // links to folders that the walk is below
	files      []File
}

func (f Folder) walk() *walk { return &walk{repository: f.repository, follow: f.follow} }

// info describes an entry, or the target of a link where links are followed.
func (w *walk) info(source string, e fs.DirEntry) (fs.FileInfo, error) {
	if w.follow {
		return fs.Stat(w.repository.FS, source)
	}
	return e.Info()
}

// below adds the content of a folder, under the path prefix.
func (w *walk) below(dir, prefix string) error {
	entries, err := fs.ReadDir(w.repository.FS, dir)
	if err != nil {
		return invalid(w.repository.at(dir), "%w", reason(err))
	}
	for _, e := range entries {
		if err := w.add(path.Join(dir, e.Name()), e, path.Join(prefix, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// add adds one entry, with all below it.
func (w *walk) add(source string, e fs.DirEntry, name string) error {
	if strings.HasPrefix(e.Name(), ".") {
		return nil
	}
	place := w.repository.at(source)
	info, err := w.info(source, e)
	if err != nil {
		return invalid(place, "%w", reason(err))
	}
	if e.Type()&fs.ModeSymlink != 0 && info.IsDir() {
		if w.links == maxLinks {
			return invalid(place, "more than %d links to folders lead to it", maxLinks)
		}
		w.links++
		defer func() { w.links-- }()
	}
	switch {
	case info.IsDir():
		return w.below(source, name)
	case !info.Mode().IsRegular() && !w.follow:
		return invalid(place, "not a regular file: links and devices are not imported")
	case !info.Mode().IsRegular():
		return invalid(place, "not a regular file")
	case len(w.files) >= MaxFiles:
		return invalid(place, "more than %d files", MaxFiles)
	}
	if err := edgewise.CheckPath(name); err != nil {
		return invalid(place, "%w", err)
	}
	tag, _ := info.Sys().(Tag)
	w.files = append(w.files, File{
		Path: name, Source: place, Size: info.Size(), Changed: info.ModTime().UnixNano(), Tag: tag, fsys: w.repository.FS, name: source,
	})
	return nil
}
